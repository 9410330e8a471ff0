//! Whether what was found answers the question: in every protocol by the same words.

use base::error::{Class, Failure, Result};

/// What a query for one key has found.
/// Errors: `server`, where it was nothing; `protocol`, where it was more.
pub fn check_one_row(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        0 => Err(Failure::new(Class::Server, "the query found no row: is the data loaded?")),
        rows => Err(Failure::protocol(format!("{rows} rows for one key"))),
    }
}

/// What a scan has found; `record` is what the server calls one.
/// Errors: `server`, where it was nothing; `protocol`, where it was more than was asked for.
pub fn check_scan(found: u64, most: u64, record: &str) -> Result<()> {
    match found {
        0 => Err(Failure::new(Class::Server, format!("the scan found no {record}: is the data loaded?"))),
        found if found > most => Err(Failure::protocol(format!("{found} {record}s, where {most} were asked for"))),
        _ => Ok(()),
    }
}

/// The next key of a scan, which `last` is then.
/// Errors: `protocol`, where it is before the last.
pub fn check_order(key: &[u8], last: &mut Vec<u8>) -> Result<()> {
    if key < &last[..] {
        return Err(Failure::protocol("the rows of a scan are out of order"));
    }
    last.clear();
    last.extend_from_slice(key);
    Ok(())
}
