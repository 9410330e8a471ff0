//! The tables as the generator knows them: see `world::schema`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    Decimal,
    Date,
    DateTime,
}

/// What a statement may do with a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Clean,
    /// One protected column: it may be an output, compared with a literal, and stored into.
    Protected,
    /// Made from several: it may be an output.
    Computed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub guard: Guard,
}

impl Column {
    pub fn written(&self) -> String {
        written(&self.name)
    }
}

/// As a statement has it: names beyond ASCII must be quoted.
pub fn written(name: &str) -> String {
    if name.is_ascii() { name.into() } else { format!("`{name}`") }
}

pub struct Table {
    pub name: &'static str,
    pub is_view: bool,
    columns: &'static [(&'static str, Kind, Guard)],
    /// What INSERT may name.
    pub insertable: &'static [&'static str],
}

impl Table {
    pub fn columns(&self) -> Vec<Column> {
        self.columns
            .iter()
            .map(|(name, kind, guard)| Column { name: (*name).into(), kind: *kind, guard: *guard })
            .collect()
    }
}

use Guard::{Clean, Computed, Protected};
use Kind::{Date, DateTime, Decimal, Int, Text};

pub const TABLES: &[Table] = &[
    Table {
        name: "people",
        is_view: false,
        columns: &[
            ("id", Int, Clean),
            ("name", Text, Protected),
            ("salary", Int, Protected),
            ("city", Text, Clean),
            ("born", Date, Clean),
            ("rate", Decimal, Clean),
            ("initial", Text, Protected),
            ("hushed", Text, Protected),
        ],
        insertable: &["name", "salary", "city", "born", "rate"],
    },
    Table {
        name: "owners",
        is_view: false,
        columns: &[("id", Int, Clean), ("name", Text, Protected)],
        insertable: &["name"],
    },
    Table {
        name: "orders",
        is_view: false,
        columns: &[
            ("id", Int, Clean),
            ("person_name", Text, Protected),
            ("person_id", Int, Clean),
            ("total", Decimal, Clean),
            ("placed", DateTime, Clean),
        ],
        insertable: &["person_id", "total", "placed"],
    },
    Table {
        name: "badges",
        is_view: false,
        columns: &[
            ("id", Int, Clean),
            ("holder", Text, Protected),
            ("badge", Text, Protected),
            ("colour", Text, Clean),
        ],
        insertable: &["id", "colour"],
    },
    Table {
        name: "guesses",
        is_view: false,
        columns: &[("id", Int, Clean), ("word", Text, Clean), ("n", Int, Clean)],
        insertable: &["id", "word", "n"],
    },
    Table {
        name: "notes",
        is_view: false,
        columns: &[("id", Int, Clean), ("t", Text, Clean), ("n", Int, Clean)],
        insertable: &["id", "t", "n"],
    },
    // Beside these it has INVISIBLE ones, `hidden` and `lifted`.
    Table {
        name: "odd",
        is_view: false,
        columns: &[
            ("number", Int, Protected),
            ("id", Int, Clean),
            ("prénom", Text, Protected),
            ("copy", Text, Protected),
            ("bonus", Int, Protected),
            ("extra", Int, Clean),
            ("city", Text, Clean),
        ],
        insertable: &["id", "number", "prénom", "copy", "bonus", "extra", "city"],
    },
    Table {
        name: "moments",
        is_view: false,
        columns: &[
            ("id", Int, Clean),
            ("note", Int, Clean),
            ("at", DateTime, Protected),
            ("bits", Int, Protected),
            ("hour", Int, Protected),
        ],
        insertable: &["id", "note", "at", "bits"],
    },
    // Beside these it has INVISIBLE ones, `renewed` and `second`.
    Table {
        name: "kinds",
        is_view: false,
        columns: &[
            ("id", Int, Clean),
            ("note", Int, Clean),
            ("place", Text, Clean),
            ("address", Text, Protected),
            ("latin", Text, Protected),
            ("since", Text, Protected),
            ("amount", Decimal, Protected),
            ("padded", Int, Protected),
            ("until", DateTime, Protected),
        ],
        insertable: &["id", "note", "place", "address", "latin", "since", "padded", "until"],
    },
    Table {
        name: "grades",
        is_view: false,
        columns: &[("id", Int, Clean), ("bonus", Int, Clean)],
        insertable: &["id", "bonus"],
    },
    Table {
        name: "graded",
        is_view: false,
        columns: &[("id", Int, Clean), ("bonus", Int, Clean), ("cap", Int, Protected), ("total", Int, Protected)],
        insertable: &["id", "cap"],
    },
    Table { name: "names_v", is_view: true, columns: &[("x", Text, Protected)], insertable: &[] },
    Table { name: "deep_v", is_view: true, columns: &[("y", Text, Protected)], insertable: &[] },
    Table { name: "cities_v", is_view: true, columns: &[("id", Int, Clean), ("city", Text, Clean)], insertable: &[] },
    Table {
        name: "sums_v",
        is_view: true,
        columns: &[("city", Text, Clean), ("c", Int, Clean), ("m", Text, Computed)],
        insertable: &[],
    },
    Table {
        name: "joined_v",
        is_view: true,
        columns: &[("id", Int, Clean), ("city", Text, Protected), ("t", Text, Clean)],
        insertable: &[],
    },
    Table { name: "cased_v", is_view: true, columns: &[("x", Text, Protected)], insertable: &[] },
];
