//! INSERT, REPLACE, UPDATE and DELETE. What is stored is made of literals, parameters and clean columns.

use super::names::AMONG_NUMBERS;
use super::{Generator, Scope, Source};
use crate::schema::{Column, Guard, TABLES, Table, written};

impl Generator {
    pub(super) fn insert(&mut self) -> String {
        let table = self.writable();
        let columns = self.columns_of_an_insert(table);
        let names: Vec<String> = columns.iter().map(Column::written).collect();
        let replaces = self.rng.percent(15);
        self.hit(if replaces { "REPLACE" } else { "INSERT" });
        let verb = if replaces { "REPLACE" } else { *self.rng.pick(&["INSERT", "INSERT", "INSERT IGNORE"]) };
        let body = if self.rng.percent(20) {
            self.hit("INSERT SET");
            let pairs: Vec<_> =
                columns.iter().map(|column| format!("{} = {}", column.written(), self.stored(column))).collect();
            format!("SET {}", pairs.join(", "))
        } else {
            let rows: Vec<_> = (0..1 + self.rng.below(2)).map(|_| self.row(&columns)).collect();
            format!("({}) VALUES {}", names.join(", "), rows.join(", "))
        };
        let on_duplicate = if !replaces && self.rng.percent(25) { self.on_duplicate(table) } else { String::new() };
        let returning = self.returning(table, 20);
        format!("{verb} INTO {} {body}{on_duplicate}{returning}", table.name)
    }

    pub(super) fn update(&mut self) -> String {
        self.hit("UPDATE");
        let table = self.writable();
        let scope = vec![Source { alias: table.name.into(), columns: table.columns() }];
        if self.rng.percent(15) {
            return self.joined_update(table);
        }
        let sets: Vec<_> = (0..1 + self.rng.below(2)).map(|_| self.assignment(table, &scope)).collect();
        let condition = self.where_clause(&scope);
        let limit = self.limit_by_id();
        format!("UPDATE {} SET {}{condition}{limit}", table.name, sets.join(", "))
    }

    fn joined_update(&mut self, table: &Table) -> String {
        self.hit("UPDATE of a join");
        let scope = vec![
            Source { alias: "u".into(), columns: table.columns() },
            Source { alias: "v".into(), columns: TABLES[5].columns() },
        ];
        let assignment = self.assignment(table, &scope);
        format!("UPDATE {} u JOIN notes v ON u.id = v.id SET u.{assignment}", table.name)
    }

    pub(super) fn delete(&mut self) -> String {
        self.hit("DELETE");
        let table = self.writable();
        let scope = vec![Source { alias: table.name.into(), columns: table.columns() }];
        if self.rng.percent(10) {
            self.hit("DELETE of a join");
            let name = table.name;
            return format!("DELETE u FROM {name} u JOIN notes v ON u.id = v.id WHERE v.id = 3");
        }
        let condition = self.where_clause(&scope);
        let limit = self.limit_by_id();
        let returning = self.returning(table, 40);
        format!("DELETE FROM {}{condition}{limit}{returning}", table.name)
    }

    fn writable(&mut self) -> &'static Table {
        let place = self.rng.weighted(&[36, 10, 13, 5, 13, 13, 10, 6, 6, 3, 3]);
        &TABLES[place]
    }

    fn limit_by_id(&mut self) -> &'static str {
        if self.rng.percent(15) {
            self.hit("write: ORDER BY and LIMIT");
            " ORDER BY id DESC LIMIT 1"
        } else {
            ""
        }
    }

    fn columns_of_an_insert(&mut self, table: &Table) -> Vec<Column> {
        let mut columns: Vec<Column> =
            table.columns().into_iter().filter(|column| table.insertable.contains(&column.name.as_str())).collect();
        while columns.len() > 1 && self.rng.percent(30) {
            let place = self.rng.below(columns.len());
            // A key of its own stays: rows without one would be alike.
            if columns[place].name != "id" {
                columns.remove(place);
            }
        }
        columns
    }

    fn row(&mut self, columns: &[Column]) -> String {
        let values: Vec<_> = columns.iter().map(|column| self.stored(column)).collect();
        format!("({})", values.join(", "))
    }

    fn stored(&mut self, column: &Column) -> String {
        if self.rng.percent(4) {
            self.hit("DEFAULT");
            return "DEFAULT".into();
        }
        match column.guard {
            Guard::Clean if self.rng.percent(85) => self.literal(column.kind),
            Guard::Clean => self.value(column.kind, &Scope::new(), 1),
            _ => self.plain_literal(column),
        }
    }

    /// `column = value`.
    fn assignment(&mut self, table: &Table, scope: &Scope) -> String {
        let columns = table.columns();
        let settable: Vec<&Column> =
            columns.iter().filter(|column| table.insertable.contains(&column.name.as_str())).collect();
        let column = *self.rng.pick(&settable);
        let value = match column.guard {
            _ if self.rng.percent(4) => {
                self.hit("assignment: DEFAULT");
                "DEFAULT".into()
            }
            // Among what it is weighed against.
            _ if ["bonus", "extra"].contains(&&column.name[..]) => AMONG_NUMBERS.into(),
            Guard::Clean => {
                self.hit("assignment: clean");
                self.value(column.kind, scope, 1)
            }
            _ if self.loose && self.rng.percent(50) => self.value(column.kind, scope, 1),
            _ => {
                self.hit("assignment: protected");
                self.plain_literal(column)
            }
        };
        format!("{} = {value}", column.written())
    }

    fn on_duplicate(&mut self, table: &Table) -> String {
        self.hit("ON DUPLICATE KEY UPDATE");
        let scope = vec![Source { alias: table.name.into(), columns: table.columns() }];
        let settable = written(table.insertable[self.rng.below(table.insertable.len())]);
        if self.rng.percent(50) {
            self.hit("VALUES()");
            return format!(" ON DUPLICATE KEY UPDATE {settable} = VALUES({settable})");
        }
        format!(" ON DUPLICATE KEY UPDATE {}", self.assignment(table, &scope))
    }

    fn returning(&mut self, table: &Table, share: usize) -> String {
        if !self.rng.percent(share) {
            return String::new();
        }
        self.hit("RETURNING");
        let scope = vec![Source { alias: table.name.into(), columns: table.columns() }];
        let list: Vec<_> = (0..1 + self.rng.below(3))
            .map(|_| match self.any_column(&scope, |_, _| true) {
                Some((text, _)) if self.rng.percent(80) => text,
                _ => self.value(crate::schema::Kind::Int, &scope, 1),
            })
            .collect();
        format!(" RETURNING {}", list.join(", "))
    }
}
