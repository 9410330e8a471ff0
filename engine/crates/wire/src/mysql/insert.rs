//! Writing rows in batches, as sysbench's `prepare` does: one INSERT with many rows.

use super::channel::Channel;
use super::query::quoted;
use mysql::command;

use crate::mysql::Settings;
use base::error::{Class, Failure, Result};
use mysql::packet;
use std::ops::Range;
use workload::sysbench::Table;

/// An INSERT without its rows.
pub struct BulkInsert {
    text: Vec<u8>,
}

impl BulkInsert {
    pub fn new(settings: &Settings) -> Self {
        let text = format!("INSERT INTO {} (id, k, c, pad) VALUES ", quoted(&settings.table));
        BulkInsert { text: text.into_bytes() }
    }

    /// Write these records.
    /// Errors: `server`, also where not all of them were written; `protocol`, those of a broken connection.
    pub async fn write(&self, channel: &mut Channel, table: &Table, records: Range<u64>) -> Result<()> {
        let expected = records.end - records.start;
        self.append(table, records, channel.command(command::QUERY));
        let written = finish(channel).await?;
        if written == expected {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("{written} rows of {expected} were written")))
    }

    fn append(&self, table: &Table, records: Range<u64>, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.text);
        let first = records.start;
        for record in records {
            if record > first {
                request.push(b',');
            }
            table.append_row(record, request);
        }
    }
}

/// Write rows that are SQL already, after what begins an INSERT: how many were written.
pub async fn write_rows(channel: &mut Channel, into: &[u8], rows: &[u8]) -> Result<u64> {
    let request = channel.command(command::QUERY);
    request.extend_from_slice(into);
    request.extend_from_slice(rows);
    finish(channel).await
}

async fn finish(channel: &mut Channel) -> Result<u64> {
    channel.send().await?;
    let written = packet::changed_rows(channel.receive().await?)?;
    channel.io.check_idle()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_separated_by_commas() {
        let insert = BulkInsert { text: b"INSERT INTO `t` (id, k, c, pad) VALUES ".to_vec() };
        let mut request = Vec::new();
        insert.append(&Table::new(10, 1), 3..5, &mut request);
        let text = String::from_utf8(request).unwrap();
        let rows = text.strip_prefix("INSERT INTO `t` (id, k, c, pad) VALUES ").unwrap();
        assert!(rows.starts_with("(4,") && rows.contains("'),(5,") && rows.ends_with("')"), "{rows}");
    }
}
