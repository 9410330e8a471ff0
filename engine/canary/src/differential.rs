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
use std::ops::Range;

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
    // In a CTE the server keeps USING, stars, and groups that rows are ordered by, as they were written.
    let holds = |word: &str| original.windows(word.len()).any(|window| window == word.as_bytes());
    if original.starts_with(b"WITH") && ["USING", ".*", " * ", "ORDER BY g"].into_iter().any(holds) {
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

/// Where nobody sees their names, a print may give them to expressions, and others to tables and columns; outputs that rows are
/// ordered by may be told by their places; hints fall away, and names are as the server spells them.
fn is_same(wanted: &str, made: &str) -> bool {
    const NAME: &str = " AS `";
    let (wanted, made) = (plain(wanted), plain(made));
    let wanted = with_places(&wanted, &made);
    let (mut wanted, mut made) = (wanted.as_bytes(), made.as_bytes());
    let mut own_names = BTreeMap::new();
    loop {
        let same = wanted.iter().zip(made).take_while(|(left, right)| left == right).count();
        if let Some((own_name, name)) = made_name(wanted, made, same)
            && *own_names.entry(&made[name.clone()]).or_insert(&wanted[own_name.clone()]) == &wanted[own_name.clone()]
        {
            (wanted, made) = (&wanted[own_name.end + 1..], &made[name.end + 1..]);
            continue;
        }
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

/// Where two texts differ in a name that the gateway makes: where the name in its place is, and where it is.
fn made_name(wanted: &[u8], made: &[u8], place: usize) -> Option<(Range<usize>, Range<usize>)> {
    let start = 1 + made[..place].iter().rposition(|byte| *byte == b'`')?;
    let is_open = made[..start].iter().filter(|byte| **byte == b'`').count() % 2 == 1;
    let name = |text: &[u8]| Some(start..start + text[start..].iter().position(|byte| *byte == b'`')?);
    let (own_name, name) = (name(wanted)?, name(made)?);
    let is_made = made[name.clone()].strip_prefix(b"__").is_some_and(|number| number.iter().all(u8::is_ascii_digit));
    (is_open && is_made).then_some((own_name, name))
}

/// A text with the places by which another one orders or groups rows in the place of what is named there.
fn with_places(wanted: &str, made: &str) -> String {
    const BY: &str = " by ";
    if wanted.matches(BY).count() != made.matches(BY).count() {
        return wanted.into();
    }
    let with_place = |(wanted, made): (&str, &str)| {
        let (items, places) = (items(wanted), items(made));
        let mut text = String::new();
        let mut end = 0;
        for (item, place) in items.iter().zip(&places).filter(|_| items.len() == places.len()) {
            let place = &made[place.clone()];
            if place.bytes().all(|byte| byte.is_ascii_digit()) && !place.is_empty() {
                text.extend([&wanted[end..item.start], place]);
                end = item.end;
            }
        }
        text + &wanted[end..]
    };
    wanted.split(BY).zip(made.split(BY)).map(with_place).collect::<Vec<_>>().join(BY)
}

/// Where the items of a list are that a text begins with, without their directions.
fn items(text: &str) -> Vec<Range<usize>> {
    const BEHIND: [&str; 9] =
        [" desc", " limit ", " having ", " union ", " except ", " intersect ", " with ", " order", " for "];
    let (mut items, mut start, mut depth) = (Vec::new(), Some(0), 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b',' if depth == 0 => {
                items.extend(start.map(|start| start..at));
                start = Some(at + 1);
            }
            b' ' | b')' if depth == 0 => {
                let rest = &text[at..];
                if byte == b')' || BEHIND.iter().any(|word| rest.starts_with(word)) {
                    items.extend(start.take().map(|start| start..at));
                    if !rest.starts_with(" desc") {
                        return items;
                    }
                }
            }
            _ => {}
        }
    }
    items.extend(start.map(|start| start..text.len()));
    items
}

/// Without what does not matter: hints, the case of names, the character set of a text, and in a CTE, where the server keeps names
/// as they were written, the tables before them. Names of CTEs get the quotes that the server leaves out.
fn plain(body: &str) -> String {
    let body = body.replace("sql_no_cache ", "").replace("_utf8mb4'", "'");
    let has_cte = body.starts_with("with ");
    let body = if has_cte { with_quotes(&body) } else { body };
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

/// With quotes around the words where a CTE's name may be: behind `with` or the CTE before, and before its columns or AS.
fn with_quotes(body: &str) -> String {
    let mut quoted = String::new();
    let mut rest = body;
    while let Some(start) = ["with ", "),"].iter().filter_map(|word| Some(rest.find(word)? + word.len())).min() {
        let (before, behind) = rest.split_at(start);
        let end = behind.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(behind.len());
        let (word, behind) = behind.split_at(end);
        quoted.push_str(before);
        match behind.starts_with('(') || behind.starts_with(" as (") {
            true => quoted.extend(["`", word, "`"]),
            false => quoted.push_str(word),
        }
        rest = behind;
    }
    quoted + rest
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

    #[test]
    fn made_names_stand_for_one_name_each() {
        let wanted = "select `t`.`x` AS `x` from (select `n`.`x` AS `x`,`o`.`y` AS `y` from `n` join `o`) `t`";
        let made = wanted.replace("`n`.", "`__1`.").replace("`o`.", "`__2`.").replace("`t`", "`__3`");
        let made = made.replace("from `n` join `o`", "from `__1` join `__2`");
        assert!(is_same(wanted, &made) && is_same(wanted, wanted));
        assert!(!is_same(wanted, &made.replace("`__2`.", "`__1`.")));
        assert!(!is_same(wanted, &made.replace("`__2`.", "`p`.")));
    }

    #[test]
    fn common_tables_have_a_name_each() {
        let wanted = "with a as (select 1 AS `x`),b(`y`) as (select 2)select `c`.`x` AS `x` from `a` `c` join `b`";
        let made = wanted
            .replace("with a", "with __1")
            .replace(",b(", ",__2(")
            .replace("`a`", "`__1`")
            .replace("`b`", "`__2`");
        assert!(is_same(wanted, &made) && !is_same(wanted, &made.replace("`__2`", "`__1`")));
    }

    #[test]
    fn places_stand_for_outputs() {
        let wanted =
            "select `a` + 1 AS `n`,`b` AS `b` from `t` group by `a` + 1 order by `a` + 1 desc,-(`n`),concat(`b`,1)";
        let made = "select `a` + 1 AS `n`,`b` AS `b` from `t` group by 1 order by 1 desc,-(`n`),concat(`b`,1)";
        assert!(is_same(wanted, made));
        assert!(!is_same(wanted, &made.replace(" desc", "")) && !is_same(wanted, &made.replace("-(", "+(")));
        assert!(is_same(
            "select 1 AS `a` union all select 2 order by `a` limit 1",
            "select 1 AS `a` union all select 2 order by 1 limit 1"
        ));
    }
}
