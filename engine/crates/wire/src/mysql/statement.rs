//! Statements that a connection prepares once, with parameters of several types, and executes many times (MySQL
//! Internals, "COM_STMT_EXECUTE"): nothing on the way allocates once the buffers have grown.

use super::Session;
use super::channel::Channel;
use super::query::{Prepared, Width, prepare};
use mysql::command;

use super::result::Layout;
use super::row::Row;
use base::error::{Class, Failure, Result};
use mysql::bytes::append_text;
use mysql::packet;
use std::io::Write;
use workload::sql;
use workload::sql::{DateTime, Fill, Parameter, Statement};

/// A set of statements as one connection has prepared it; a statement is named by its place in the set.
pub struct PreparedSet {
    statements: &'static [Statement],
    prepared: Vec<Bound>,
    layout: Layout,
    sent: u64,
}

/// A server keeps the types of the last execution, so that they are sent once.
#[derive(Clone, Copy)]
struct Bound {
    prepared: Prepared,
    types_known: bool,
}

impl PreparedSet {
    /// Prepare all of them: a round trip each.
    /// Errors: `server`, where a table is missing or has other columns; `protocol`, those of a broken connection.
    pub async fn prepare(channel: &mut Channel, statements: &'static [Statement], without_eof: bool) -> Result<Self> {
        let mut prepared = Vec::with_capacity(statements.len());
        for statement in statements {
            let width = width(statement)?;
            let made = prepare(channel, statement.text.as_bytes(), width, without_eof).await?;
            prepared.push(Bound { prepared: made, types_known: false });
        }
        Ok(PreparedSet { statements, prepared, layout: Layout { binary: true, without_eof }, sent: 0 })
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Send a statement that has neither parameters nor a result, as text: `COMMIT`.
    pub async fn say(&mut self, channel: &mut Channel, text: &str) -> Result<()> {
        channel.command(command::QUERY).extend_from_slice(text.as_bytes());
        self.sent += 1;
        channel.send().await?;
        packet::changed_rows(channel.receive().await?)?;
        channel.io.check_idle()
    }

    /// Execute a statement without a result: how many rows it has changed.
    ///
    /// # Panics
    /// Where parameters of other types are given than the statement says; so it is with `select`.
    pub async fn change(&mut self, channel: &mut Channel, place: usize, fill: impl Fill<Session>) -> Result<u64> {
        self.send(channel, place, fill).await?;
        let changed = packet::changed_rows(channel.receive().await?)?;
        channel.io.check_idle()?;
        self.prepared[place].types_known = true;
        Ok(changed)
    }

    /// Execute a statement with a result, and look at each of its rows: how many there were.
    pub async fn select(
        &mut self,
        channel: &mut Channel,
        place: usize,
        fill: impl Fill<Session>,
        mut each: impl FnMut(&mut Row<'_>) -> Result<()>,
    ) -> Result<u64> {
        self.send(channel, place, fill).await?;
        let columns = self.statements[place].columns;
        let count = channel.receive_column_count().await?;
        if count != columns.len() as u64 {
            return Err(Failure::protocol(format!("{count} columns, where {} were asked for", columns.len())));
        }
        channel.receive_columns(count, self.layout.without_eof).await?;
        let mut rows = 0;
        while let Some(packet) = channel.receive_row(self.layout).await? {
            let mut row = Row::new(packet, columns)?;
            each(&mut row)?;
            row.end()?;
            rows += 1;
        }
        channel.io.check_idle()?;
        self.prepared[place].types_known = true;
        Ok(rows)
    }

    async fn send(&mut self, channel: &mut Channel, place: usize, fill: impl Fill<Session>) -> Result<()> {
        let (statement, bound): (&'static Statement, _) = (&self.statements[place], self.prepared[place]);
        append_execute(channel.command(command::STMT_EXECUTE), statement, bound, fill);
        self.sent += 1;
        channel.send().await
    }
}

fn width(statement: &Statement) -> Result<Width> {
    let short = |count: usize| {
        u16::try_from(count).map_err(|_| Failure::new(Class::Internal, "a statement has too many parameters"))
    };
    Ok(Width { columns: short(statement.columns.len())?, parameters: short(statement.parameters.len())? })
}

/// `MYSQL_TYPE_LONGLONG`, `…_NEWDECIMAL`, `…_VAR_STRING`, `…_DATETIME`.
fn type_number(parameter: Parameter) -> u8 {
    match parameter {
        Parameter::Integer => 0x08,
        Parameter::Decimal => 0xF6,
        Parameter::Text => 0xFD,
        Parameter::DateTime => 0x0C,
    }
}

fn append_execute(
    request: &mut Vec<u8>,
    statement: &'static Statement,
    Bound { prepared: Prepared(number), types_known }: Bound,
    fill: impl Fill<Session>,
) {
    request.extend_from_slice(&number.to_le_bytes());
    // No cursor; once.
    request.extend_from_slice(&[0, 1, 0, 0, 0]);
    let nulls = request.len();
    if !statement.parameters.is_empty() {
        request.resize(nulls + statement.parameters.len().div_ceil(8), 0);
        request.push(u8::from(!types_known));
        if !types_known {
            statement.parameters.iter().for_each(|parameter| request.extend_from_slice(&[type_number(*parameter), 0]));
        }
    }
    let taken = std::mem::take(request);
    let mut parameters = Parameters { request: taken, nulls, expected: &statement.parameters, given: 0 };
    fill(&mut parameters);
    *request = parameters.request;
    assert_eq!(parameters.given, statement.parameters.len(), "{}", statement.text);
}

/// A statement's parameters, given one after the other.
pub struct Parameters {
    request: Vec<u8>,
    nulls: usize,
    expected: &'static [Parameter],
    given: usize,
}

impl sql::Parameters for Parameters {
    fn integer(&mut self, number: i64) -> &mut Self {
        self.next(Parameter::Integer);
        self.request.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn cents(&mut self, cents: i64) -> &mut Self {
        self.next(Parameter::Decimal);
        let length_at = self.request.len();
        self.request.push(0);
        let sign = if cents < 0 { "-" } else { "" };
        let (whole, fraction) = (cents.unsigned_abs() / 100, cents.unsigned_abs() % 100);
        write!(self.request, "{sign}{whole}.{fraction:02}").expect("memory takes what is written");
        // At most 22 digits and signs: a length of one byte.
        self.request[length_at] = (self.request.len() - length_at - 1) as u8;
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.next(Parameter::Text);
        append_text(&mut self.request, text);
        self
    }

    fn datetime(&mut self, at: DateTime) -> &mut Self {
        self.next(Parameter::DateTime);
        let [low, high] = at.year.to_le_bytes();
        self.request.extend_from_slice(&[7, low, high, at.month, at.day, at.hour, at.minute, at.second]);
        self
    }

    fn null(&mut self) -> &mut Self {
        self.request[self.nulls + self.given / 8] |= 1 << (self.given % 8);
        self.given += 1;
        self
    }
}

impl Parameters {
    fn next(&mut self, kind: Parameter) {
        assert_eq!(self.expected[self.given], kind, "parameter {}", self.given);
        self.given += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::Value;
    use mysql_common::packets::ComStmtExecuteRequestBuilder;
    use mysql_common::proto::MySerialize;
    use proptest::prelude::*;
    use workload::sql::Parameters as _;

    /// One for each type, twice, so that the bitmap of NULLs has two bytes with one more.
    fn statement(parameters: Vec<Parameter>) -> &'static Statement {
        Box::leak(Box::new(Statement { text: String::new(), parameters, columns: &[] }))
    }

    fn executed(statement: &'static Statement, types_known: bool, fill: impl Fill<Session>) -> Vec<u8> {
        let mut request = vec![command::STMT_EXECUTE];
        append_execute(&mut request, statement, Bound { prepared: Prepared(7), types_known }, fill);
        request
    }

    #[test]
    fn money_goes_as_decimals() {
        let one = statement(vec![Parameter::Decimal]);
        for (cents, text) in
            [(0, &b"0.00"[..]), (-5, b"-0.05"), (123_456, b"1234.56"), (i64::MIN, b"-92233720368547758.08")]
        {
            let request = executed(one, false, |fill| fill.cents(cents));
            assert_eq!(request[10..14], *b"\x00\x01\xf6\x00");
            assert_eq!((request[14] as usize, &request[15..]), (text.len(), text));
        }
    }

    #[test]
    fn types_are_sent_once() {
        let one = statement(vec![Parameter::Integer]);
        let first = executed(one, false, |fill| fill.integer(5));
        let later = executed(one, true, |fill| fill.integer(5));
        assert_eq!(first, b"\x17\x07\0\0\0\x00\x01\0\0\0\x00\x01\x08\x00\x05\0\0\0\0\0\0\0");
        assert_eq!(later, b"\x17\x07\0\0\0\x00\x01\0\0\0\x00\x00\x05\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_statement_without_parameters_has_no_bitmap() {
        assert_eq!(executed(statement(vec![]), false, |fill| fill), b"\x17\x07\0\0\0\x00\x01\0\0\0");
    }

    #[derive(Debug, Clone)]
    enum Given {
        Integer(i64),
        Text(Vec<u8>),
        Second(u64),
        Null,
    }

    fn given() -> impl Strategy<Value = Given> {
        prop_oneof![
            any::<i64>().prop_map(Given::Integer),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(Given::Text),
            // Another implementation leaves out a time of midnight, which means the same.
            (0..20_000_u64, 1..86_400_u64).prop_map(|(day, second)| Given::Second(day * 86_400 + second)),
            Just(Given::Null),
        ]
    }

    proptest! {
        #[test]
        fn another_implementation_sends_the_same(values in prop::collection::vec(given(), 1..20)) {
            let kinds = values.iter().map(|value| match value {
                Given::Integer(_) => Parameter::Integer,
                Given::Text(_) | Given::Null => Parameter::Text,
                Given::Second(_) => Parameter::DateTime,
            });
            let ours = executed(statement(kinds.collect()), false, |fill| { for value in &values {
                match value {
                    Given::Integer(number) => fill.integer(*number),
                    Given::Text(text) => fill.text(text),
                    Given::Second(at) => fill.datetime(DateTime::from_unix(*at)),
                    Given::Null => fill.null(),
                };
            }; fill });
            let theirs: Vec<Value> = values.iter().map(|value| match value {
                Given::Integer(number) => Value::Int(*number),
                Given::Text(text) => Value::Bytes(text.clone()),
                Given::Second(at) => {
                    let DateTime { year, month, day, hour, minute, second } = DateTime::from_unix(*at);
                    Value::Date(year, month, day, hour, minute, second, 0)
                }
                Given::Null => Value::NULL,
            }).collect();
            let (request, _) = ComStmtExecuteRequestBuilder::new(7).build(&theirs);
            let mut expected = Vec::new();
            request.serialize(&mut expected);
            // NULL has a type of its own there; the server does not look at it.
            let types = 10 + values.len().div_ceil(8) + 1;
            for (place, value) in values.iter().enumerate() {
                if let Given::Null = value {
                    expected[types + 2 * place] = type_number(Parameter::Text);
                }
            }
            prop_assert_eq!(ours, expected);
        }
    }
}
