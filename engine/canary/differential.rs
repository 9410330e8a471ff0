//! Whether what is printed of a statement is the statement: the server reads both, and another parser does.
//!
//! A server keeps a view as it has read it, with its own parentheses and names: the views of an original and of its print must
//! be the same, and so must those of the print under every SQL mode.

use crate::client::{Client, Kind, Login, QUERY};
use crate::grammar::{Generator, Predicates};
use crate::rng::Rng;
use crate::second_reader::{Shape, shape};
use serde::Serialize;

/// A printer: what is sent for a statement, or why nothing is.
pub type Printer<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, String> + 'a;

/// Under which a text may be read differently.
const MODES: &[&str] =
    &["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE", "MSSQL", "ORACLE"];
/// Which have other functions in the place of these.
const ORACLE: &str = "ORACLE";
const OF_ORACLE: &[&str] = &["SUBSTR", "TRIM", "LPAD", "RPAD", "REPLACE", "CONCAT", "LENGTH", "DECODE", "CHR", "REGEXP", "NVL"];

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub generated: u64,
    pub printed: u64,
    /// Of which the server made a view.
    pub compared: u64,
    /// Which the other parser has read.
    pub read_twice: u64,
    pub differences: Vec<String>,
}

/// Hold so many generated queries against a server.
///
/// # Errors
/// In words, where the server cannot be asked.
pub fn run(server: &Login, database: &str, seed: u64, count: u64, print: &mut Printer<'_>) -> Result<Report, String> {
    let mut viewer = Viewer::connect(server, database)?;
    let mut generator = Generator::new(Rng::new(seed, 77), database, Predicates::Equality);
    let mut report = Report::default();
    while report.generated < count {
        report.generated += 1;
        let original = generator.query().into_bytes();
        let Ok(printed) = print(&original) else { continue };
        report.printed += 1;
        if let Some(why) = compare(&mut viewer, &original, &printed, print, &mut report)? {
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            report.differences.push(format!("{why}\n  original {}\n  printed  {}", shown(&original), shown(&printed)));
        }
    }
    Ok(report)
}

/// Why they are not the same.
fn compare(
    viewer: &mut Viewer,
    original: &[u8],
    printed: &[u8],
    print: &mut Printer<'_>,
    report: &mut Report,
) -> Result<Option<String>, String> {
    match print(printed) {
        Err(why) => return Ok(Some(format!("what is printed is not read: {why}"))),
        Ok(again) if again != printed => return Ok(Some(format!("printed again it is {}", again.escape_ascii()))),
        Ok(_) => {}
    }
    if let (Some(before), Some(after)) = (shape(original), shape(printed)) {
        report.read_twice += 1;
        if let Some(why) = Shape::difference(&before, &after) {
            return Ok(Some(format!("another parser: {why}")));
        }
    }
    // What the server cannot make a view of (two columns of one name) cannot be compared.
    let Ok(wanted) = viewer.body(original, "")? else { return Ok(None) };
    report.compared += 1;
    for mode in MODES {
        if *mode == ORACLE && has_functions_of_oracle(printed) {
            continue;
        }
        match viewer.body(printed, mode)? {
            Err(why) => return Ok(Some(format!("the server does not read the print under '{mode}': {why}"))),
            Ok(body) if body != wanted => {
                return Ok(Some(format!("another view under '{mode}':\n  wanted {wanted}\n  made   {body}")));
            }
            Ok(_) => {}
        }
    }
    Ok(None)
}

fn has_functions_of_oracle(printed: &[u8]) -> bool {
    let capitals = String::from_utf8_lossy(printed).to_ascii_uppercase();
    OF_ORACLE.iter().any(|name| capitals.contains(name))
}

struct Viewer(Client);

impl Viewer {
    fn connect(server: &Login, database: &str) -> Result<Self, String> {
        let client = Client::connect(server, database, false).map_err(|lost| format!("{}: {lost:?}", server.address))?;
        Ok(Viewer(client))
    }

    /// As the server keeps a view of it that was made under this mode; or why it makes none.
    fn body(&mut self, query: &[u8], mode: &str) -> Result<Result<String, String>, String> {
        self.ask(format!("SET sql_mode = '{mode}'").as_bytes())??;
        let made = self.ask(&[b"CREATE OR REPLACE VIEW compared AS ", query].concat())?;
        self.ask(b"SET sql_mode = ''")??;
        match made {
            Err(why) => Ok(Err(why)),
            Ok(_) => self.ask(b"SHOW CREATE VIEW compared"),
        }
    }

    /// The first row, in which bytes of lengths do not matter.
    fn ask(&mut self, statement: &[u8]) -> Result<Result<String, String>, String> {
        let answer = self.0.ask(QUERY, statement).map_err(|lost| format!("{lost:?}"))?;
        let row = answer.payloads().find(|(kind, _)| *kind == Kind::TextRow);
        Ok(match answer.error() {
            Some(why) => Err(why),
            None => Ok(row.map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).unwrap_or_default()),
        })
    }
}

/// Printers that are wrong in ways in which printers have been wrong, and one that changes nothing.
pub fn named(name: &str) -> Option<fn(&[u8]) -> Result<Vec<u8>, String>> {
    fn replaced(text: &[u8], from: &str, to: &str) -> Result<Vec<u8>, String> {
        Ok(String::from_utf8_lossy(text).replace(from, to).into_bytes())
    }
    Some(match name {
        "same" => |text| Ok(text.to_vec()),
        // vitessio/vitess#6734
        "without-parentheses" => |text| replaced(&replaced(text, "((", "(")?, "))", ")"),
        // vitessio/vitess#7655
        "without-escapes" => |text| replaced(text, "\\\\", "\\"),
        "without-distinct" => |text| replaced(text, "DISTINCT ", ""),
        "swapped" => |text| replaced(text, " AND ", " OR "),
        "double-quotes" => |text| replaced(text, "'", "\""),
        _ => return None,
    })
}
