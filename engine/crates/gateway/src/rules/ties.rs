//! Columns that tell of one another: a foreign key's ends hold the same values, and what is generated from a column, or
//! checked or partitioned with it, tells a part of them.

use super::Predicates;
use super::catalogue::Protection;
use std::collections::{BTreeMap, BTreeSet};

/// Database, table and column, as the catalogue spells them.
pub type Names = [String; 3];

/// What makes columns tell of one another.
#[derive(Debug)]
pub enum Tie {
    /// A foreign key: both ends hold one value.
    Key([Names; 2]),
    /// A CHECK or a partitioning: each of its columns tells a part of the others.
    Expression(Vec<Names>),
    /// A generated column, or one whose default is an expression: it tells a part of its sources, and they nothing of it.
    Made { column: Names, from: Vec<Names>, is_default: bool },
}

/// Where columns have their values from.
#[derive(Debug, Default)]
pub struct Sources<'t> {
    generated: BTreeMap<&'t Names, &'t [Names]>,
    keys: BTreeMap<&'t Names, Vec<&'t Names>>,
}

/// Of which rules' columns a column tells, by the numbers of their protections.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Told {
    /// It holds their values.
    whole: BTreeSet<usize>,
    /// It is known to go along with their values.
    parts: BTreeSet<usize>,
}

impl Told {
    /// The column that a rule means.
    pub fn itself(number: usize) -> Self {
        Told { whole: BTreeSet::from([number]), parts: BTreeSet::new() }
    }

    /// How such a column is kept, by what the rules say of those that it tells of. A part of a value may be equal where the
    /// value is not: to compare it for equality would tell more than a guess does.
    pub fn protection(&self, by_rule: &[Protection], name: String) -> Option<Protection> {
        let of = |number: &usize| &by_rule[*number];
        let strictest = self.whole.iter().chain(&self.parts).map(of).min_by_key(|rule| rule.predicates)?;
        let tells_a_part = self.parts.difference(&self.whole).any(|number| of(number).predicates != Predicates::Allow);
        let predicates = if tells_a_part { Predicates::Refuse } else { strictest.predicates };
        Some(Protection { predicates, name, algorithm: strictest.algorithm, is_by_clock: false })
    }
}

/// Carry what columns tell over all ties, until nothing changes: ties form chains and rings.
pub fn spread(ties: &[Tie], told: &mut BTreeMap<Names, Told>) {
    loop {
        let mut has_changed = false;
        for tie in ties {
            has_changed |= tie.carry(told);
        }
        if !has_changed {
            return;
        }
    }
}

impl<'t> Sources<'t> {
    /// As ties have it.
    pub fn of(ties: &'t [Tie]) -> Self {
        let mut sources = Sources::default();
        for tie in ties {
            match tie {
                Tie::Key([referring, referred]) => sources.keys.entry(referring).or_default().push(referred),
                Tie::Made { column, from, is_default: false } => {
                    sources.generated.insert(column, from);
                }
                Tie::Made { is_default: true, .. } | Tie::Expression(_) => {}
            }
        }
        sources
    }

    /// What a statement can write of these columns: in place of a generated one those that it is generated from.
    pub fn written(&self, columns: &'t [Names]) -> BTreeSet<&'t Names> {
        let mut met = BTreeSet::new();
        let mut left: Vec<_> = columns.iter().collect();
        while let Some(column) = left.pop() {
            if met.insert(column) {
                left.extend(self.generated.get(column).copied().unwrap_or_default());
            }
        }
        met.retain(|column| !self.generated.contains_key(column));
        met
    }

    /// The columns whose change may cascade to this one.
    pub fn cascading(&self, column: &Names) -> BTreeSet<&'t Names> {
        let mut met = BTreeSet::new();
        let mut left = self.keys.get(column).cloned().unwrap_or_default();
        while let Some(referred) = left.pop() {
            for written in self.written(std::slice::from_ref(referred)) {
                if met.insert(written) {
                    left.extend(self.keys.get(written).into_iter().flatten());
                }
            }
        }
        met
    }
}

impl Tie {
    /// Whether anything has changed.
    fn carry(&self, told: &mut BTreeMap<Names, Told>) -> bool {
        let mut carried = Told::default();
        let (from, is_whole): (&[Names], bool) = match self {
            Tie::Key(ends) => (ends, true),
            Tie::Expression(columns) => (columns, false),
            Tie::Made { from, .. } => (from, false),
        };
        for Told { whole, parts } in from.iter().filter_map(|names| told.get(names)) {
            if is_whole { &mut carried.whole } else { &mut carried.parts }.extend(whole);
            carried.parts.extend(parts);
        }
        if carried == Told::default() {
            return false;
        }
        let to = match self {
            Tie::Key(ends) => ends,
            Tie::Expression(columns) => &columns[..],
            Tie::Made { column, .. } => std::slice::from_ref(column),
        };
        let mut has_changed = false;
        for names in to {
            has_changed |= told.entry(names.clone()).or_default().add(&carried);
        }
        has_changed
    }
}

impl Told {
    /// Whether it told less before.
    fn add(&mut self, more: &Told) -> bool {
        let before = (self.whole.len(), self.parts.len());
        self.whole.extend(&more.whole);
        self.parts.extend(&more.parts);
        before != (self.whole.len(), self.parts.len())
    }
}
