//! Whether what is printed of a statement is the statement: the server reads both, and another parser does.
//!
//! A server keeps a view as it has read it, with its own parentheses and names: the views of an original and of its print must
//! be the same, and so must those of the print under every SQL mode.

use crate::client::{Client, Kind, Login, QUERY};
use crate::grammar::{Generator, Predicates};
use crate::rng::Rng;
use crate::second_reader::{Shape, shape};
use serde::Serialize;
use std::collections::BTreeMap;

/// A printer: what is sent for a statement, or why nothing is.
pub type Printer<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, String> + 'a;

/// Under which a text may be read differently.
const MODES: &[&str] = &[
    "",
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "PIPES_AS_CONCAT",
    "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE",
    "MSSQL",
    "ORACLE",
];
/// Which have other functions in the place of these.
const ORACLE: &str = "ORACLE";
const OF_ORACLE: &[&str] =
    &["SUBSTR", "TRIM", "LPAD", "RPAD", "REPLACE", "CONCAT", "LENGTH", "DECODE", "CHR", "REGEXP", "NVL"];

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub generated: u64,
    pub printed: u64,
    /// Of which the server made a view.
    pub compared: u64,
    /// Which the other parser has read.
    pub read_twice: u64,
    pub differences: Vec<String>,
    /// Why nothing was printed, how often, and of what.
    pub refused: BTreeMap<String, (u64, String)>,
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
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let printed = match print(&original) {
            Ok(printed) => printed,
            Err(why) => {
                report.refused.entry(why).or_insert_with(|| (0, shown(&original))).0 += 1;
                continue;
            }
        };
        report.printed += 1;
        if let Some(why) = compare(&mut viewer, &original, &printed, print, &mut report)? {
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
    // In a CTE the server keeps USING and stars as they were written.
    let holds = |word: &str| original.windows(word.len()).any(|window| window == word.as_bytes());
    if original.starts_with(b"WITH") && ["USING", ".*", " * "].into_iter().any(holds) {
        return Ok(None);
    }
    // What the server cannot make a view of (two columns of one name) cannot be compared.
    let Ok(wanted) = viewer.body(original, "")? else { return Ok(None) };
    report.compared += 1;
    // The texts that pass are few, and views are slow: each mode has its turn.
    let turn = report.compared as usize % MODES.len();
    for mode in [MODES[0], MODES[turn]] {
        if mode == ORACLE && has_functions_of_oracle(printed) {
            continue;
        }
        match viewer.body(printed, mode)? {
            Err(why) => return Ok(Some(format!("the server does not read the print under '{mode}': {why}"))),
            // Backslashes are doubled, so that texts end at the same place even there; what they hold is another matter.
            Ok(body) if mode == "NO_BACKSLASH_ESCAPES" && is_same(&without_pairs(&wanted), &without_pairs(&body)) => {}
            Ok(body) if !is_same(&wanted, &body) => {
                return Ok(Some(format!("another view under '{mode}':\n  wanted {wanted}\n  made   {body}")));
            }
            Ok(_) => {}
        }
    }
    Ok(None)
}

/// Where nobody sees their names, a print may give them to expressions; hints fall away, and names are as the server spells them.
fn is_same(wanted: &str, made: &str) -> bool {
    const NAME: &str = " AS `";
    let (wanted, made) = (plain(wanted), plain(made));
    let (mut wanted, mut made) = (wanted.as_bytes(), made.as_bytes());
    loop {
        let same = wanted.iter().zip(made).take_while(|(left, right)| left == right).count();
        // The blank before it may be the one before what follows, too.
        let starts = [same, same.saturating_sub(1)];
        let Some(start) = starts.into_iter().find(|start| made[*start..].starts_with(NAME.as_bytes())) else {
            return wanted == made;
        };
        let name = &made[start + NAME.len()..];
        let Some(end) = name.iter().position(|byte| *byte == b'`') else { return false };
        (wanted, made) = (&wanted[start..], &name[end + 1..]);
    }
}

/// Without what does not matter: hints, the case of names, the character set of a text, and in a CTE, where the server keeps names
/// as they were written, the tables before them.
fn plain(body: &str) -> String {
    let body = body.replace("sql_no_cache ", "").replace("_utf8mb4'", "'");
    let has_cte = body.starts_with("with ");
    let mut plain = String::new();
    let mut parts = body.split('`').enumerate().peekable();
    while let Some((place, part)) = parts.next() {
        let is_name = place % 2 == 1;
        let is_before_a_dot = is_name && parts.peek().is_some_and(|(_, next)| *next == ".");
        if has_cte && is_before_a_dot {
            parts.next();
        } else if is_name {
            plain.extend(["`", &part.to_lowercase(), "`"]);
        } else {
            plain.push_str(part);
        }
    }
    plain
}

/// With each row of backslashes as one.
fn without_pairs(body: &str) -> String {
    let mut letters = Vec::from_iter(body.chars());
    letters.dedup_by(|left, right| (*left, *right) == ('\\', '\\'));
    letters.into_iter().collect()
}

fn has_functions_of_oracle(printed: &[u8]) -> bool {
    let capitals = String::from_utf8_lossy(printed).to_ascii_uppercase();
    OF_ORACLE.iter().any(|name| capitals.contains(name))
}

struct Viewer(Client);

impl Viewer {
    fn connect(server: &Login, database: &str) -> Result<Self, String> {
        let client =
            Client::connect(server, database, false).map_err(|lost| format!("{}: {lost:?}", server.address))?;
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

    /// The first row, from the view's own text on.
    fn ask(&mut self, statement: &[u8]) -> Result<Result<String, String>, String> {
        let answer = self.0.ask(QUERY, statement).map_err(|lost| format!("{lost:?}"))?;
        let row = answer.payloads().find(|(kind, _)| *kind == Kind::TextRow);
        let text = row.map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).unwrap_or_default();
        let body = text.split_once(" AS ").map_or(String::new(), |(_, body)| body.into());
        Ok(answer.error().map_or(Ok(body), Err))
    }
}

type WrongPrinter = fn(&[u8]) -> Result<Vec<u8>, String>;

/// Printers that are wrong in ways in which printers have been wrong, and one that changes nothing.
pub fn named(name: &str) -> Option<WrongPrinter> {
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

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn names_within_are_no_difference_and_all_else_is() {
        let wanted = "VIEW `v` AS select `a`.`x` AS `x` from `a` where exists(select sql_no_cache 1 from `b` limit 1)";
        let made = "VIEW `v` AS select `a`.`x` AS `x` from `a` where exists(select 1 AS `1` from `b` limit 1)";
        assert!(is_same(wanted, made) && is_same(made, made));
        assert!(!is_same(wanted, &made.replace("select 1", "select 2")));
        assert!(!is_same(wanted, &made.replace("`x` from", "`y` from")));
        assert!(!is_same(wanted, &made.replace(" limit 1", "")));
        assert!(!is_same(made, wanted), "the print may not lose one");
    }
}
