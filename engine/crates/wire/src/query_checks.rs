//! Checks of query results, with the same messages for every protocol.

use base::error::{Class, Failure, Result};

/// Check that a query for one key returned one row. Errors: class `server` for no row; `protocol` for several.
pub fn check_one_row(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        0 => Err(Failure::new(Class::Server, "the query found no row: is the data loaded?")),
        rows => Err(Failure::protocol(format!("the server returned {rows} rows for one key"))),
    }
}

/// Check that a scan returned 1 to `limit` records. `record` is the word for a record in error messages, such as "row".
/// Errors: class `server` for no record; `protocol` for more than `limit`.
pub fn check_scan(count: u64, limit: u64, record: &str) -> Result<()> {
    match count {
        0 => Err(Failure::new(Class::Server, format!("the scan found no {record}: is the data loaded?"))),
        count if count > limit => {
            Err(Failure::protocol(format!("the scan returned {count} {record}s instead of at most {limit}")))
        }
        _ => Ok(()),
    }
}

/// Check that the next key of a scan is not less than `last`, and copy it to `last`. Errors: class `protocol` if the
/// key is less.
pub fn check_order(key: &[u8], last: &mut Vec<u8>) -> Result<()> {
    if key < &last[..] {
        return Err(Failure::protocol("the rows of a scan are out of order"));
    }
    last.clear();
    last.extend_from_slice(key);
    Ok(())
}
