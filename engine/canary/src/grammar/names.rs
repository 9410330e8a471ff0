//! Names that one reader takes for another's: common tables under tables' names and within one another, aliases under
//! columns' names, and names that a server folds or strips.

use super::Generator;

/// Of which some reader may take two for one. Beyond ASCII servers fold letters; of an alias they strip what is before.
const ALIKE: &[&[&str]] = &[
    &["people", "PEOPLE", "`people`"],
    &["owners", "`owners `", "Owners"],
    &["iks", "`İks`", "IKS"],
    &["k", "`\u{212a}`", "K"],
    &["`é`", "`É`"],
    &["zzz", "` zzz`", "`\tzzz`", "`\u{1}zzz`", "`\u{a0}zzz`"],
    &["name", "` name`", "NAME"],
    &["salary", "`\nsalary`"],
    &["`prénom`", "`prÉnom`", "`PRÉNOM`"],
    &["hidden", "HIDDEN", "`hıdden`"],
    &["number", "`numbEr`"],
    &["_rowid", "`_ROWID`"],
];
/// Of which the first ones name common tables.
const OF_TABLES: usize = 6;
/// Tables that have `id` and `name`, which is protected.
const NAMED: &[&str] = &["people", "owners"];
/// A table, and a protected column of it.
const PROTECTED: &[(&str, &str)] = &[
    ("people", "name"),
    ("people", "salary"),
    ("owners", "name"),
    ("odd", "`prénom`"),
    ("odd", "number"),
    ("odd", "hidden"),
    ("odd JOIN notes USING (id)", "hidden"),
    ("odd NATURAL JOIN guesses", "hidden"),
];
/// Among the numbers of `odd`, and on one side of all that statements store there.
pub(super) const AMONG_NUMBERS: &str = "4000750000000000000";
/// Common tables within one another.
const DEEPEST: usize = 3;

impl Generator {
    pub(super) fn of_names(&mut self) -> String {
        match self.rng.weighted(&[45, 40, 8, 7]) {
            0 => self.of_common_tables(),
            1 => self.of_aliases(),
            2 => self.of_tables_aliases(),
            _ => self.of_sorted_aliases(),
        }
    }

    /// Of which each gives `id` and `name`, so that one stands for another.
    fn of_common_tables(&mut self) -> String {
        let query = self.common(&mut Vec::new(), 0);
        match self.rng.below(10) {
            0 => {
                self.hit("common tables: in EXISTS");
                format!("SELECT id FROM notes WHERE EXISTS (SELECT 1 FROM ({query}) q WHERE name > 'M')")
            }
            1 => {
                self.hit("common tables: stored");
                let id = 70 + self.rng.below(20);
                format!("INSERT INTO notes (id, t) VALUES ({id}, (SELECT MAX(name) FROM ({query}) q))")
            }
            2 => {
                self.hit("common tables: in a union");
                format!("SELECT 1 AS id, 'x' AS name UNION ALL ({query})")
            }
            _ => query,
        }
    }

    fn common(&mut self, known: &mut Vec<String>, depth: usize) -> String {
        let seen = known.len();
        let mut tables = Vec::new();
        for _ in 0..self.rng.weighted(&[25, 55, 20]) {
            self.hit(if depth == 0 { "common tables: WITH" } else { "common tables: WITH within another" });
            let body = self.body_of_a_common_table(known, depth);
            let like = self.rng.below(OF_TABLES);
            let name = (*self.rng.pick(ALIKE[like])).to_owned();
            if known.contains(&name) {
                continue;
            }
            tables.push(format!("{name} AS ({body})"));
            known.push(name);
        }
        let with = if tables.is_empty() { String::new() } else { format!("WITH {} ", tables.join(", ")) };
        let from = self.common_source(known, depth);
        known.truncate(seen);
        format!("{with}SELECT id, name FROM {from}")
    }

    fn body_of_a_common_table(&mut self, known: &mut Vec<String>, depth: usize) -> String {
        match self.rng.below(6) {
            0 | 1 => "SELECT 7 AS id, 'zz' AS name".into(),
            2 => "SELECT id, city AS name FROM people".into(),
            3 => format!("SELECT id, name FROM {} LIMIT 100", self.rng.pick(NAMED)),
            _ if depth < DEEPEST => self.common(known, depth + 1),
            _ => "SELECT id, colour AS name FROM badges".into(),
        }
    }

    fn common_source(&mut self, known: &mut Vec<String>, depth: usize) -> String {
        if depth < DEEPEST && self.rng.percent(40) {
            let query = self.common(known, depth + 1);
            return format!("({query}) {}", self.alias());
        }
        match known.is_empty() || self.rng.percent(15) {
            // Which may be a common table's name by now.
            true => (*self.rng.pick(NAMED)).into(),
            false => {
                let name = self.rng.pick(known).clone();
                self.one_like(&name)
            }
        }
    }

    fn one_like(&mut self, name: &str) -> String {
        let alike = ALIKE.iter().find(|alike| alike.contains(&name)).expect("a name of the list");
        if self.rng.percent(70) { name.to_owned() } else { (*self.rng.pick(alike)).to_owned() }
    }

    /// An output under a name that a nested query has, or gives, too.
    fn of_aliases(&mut self) -> String {
        self.hit("aliases: HAVING with a nested query");
        let alias = self.rng.pick(&ALIKE[OF_TABLES - 1..])[0];
        let (table, column) = *self.rng.pick(PROTECTED);
        let (written, read) = (self.one_like(alias), self.one_like(alias));
        let (output, given) = if self.rng.percent(60) { (column, alias) } else { ("1", "one") };
        let given = if given == alias { self.one_like(alias) } else { given.to_owned() };
        let number = ["salary", "number", "_rowid"].contains(&alias) || ["salary", "number"].contains(&column);
        let literal = match number {
            true if column == "salary" => "4000500000000000000",
            true => AMONG_NUMBERS,
            false => "'M'",
        };
        let compared = format!("{read} {} {literal}", self.rng.pick(&[">", "<", ">=", "<>"]));
        let id = 1 + self.rng.below(4);
        let nested = match self.rng.below(4) {
            0 => format!("SELECT {output} AS {given} FROM {table} WHERE id = {id} AND {compared}"),
            1 => format!("SELECT {output} AS {given} FROM {table} GROUP BY {read} HAVING COUNT(*) > 1"),
            _ => format!("SELECT {output} AS {given} FROM {table} WHERE id = {id} HAVING {compared}"),
        };
        let clean = if number { "4000600000000000000" } else { "'m'" };
        let test =
            if self.rng.percent(80) { format!("EXISTS ({nested})") } else { format!("({nested} LIMIT 1) IS NULL") };
        format!("SELECT id, {clean} AS {written} FROM notes HAVING {test}")
    }

    /// Two tables under names that may be one.
    fn of_tables_aliases(&mut self) -> String {
        self.hit("aliases: of two tables");
        let like = self.rng.below(OF_TABLES);
        let alike = ALIKE[like];
        let (outer, inner) = (*self.rng.pick(alike), *self.rng.pick(alike));
        let read = *self.rng.pick(alike);
        format!(
            "SELECT 1 FROM (SELECT 'a' AS name, 1 AS id) AS {outer} WHERE EXISTS \
             (SELECT 1 FROM people AS {inner} WHERE {inner}.id = 1 AND {read}.name > 'M')"
        )
    }

    /// A clean output under a protected column's name.
    fn of_sorted_aliases(&mut self) -> String {
        self.hit("aliases: sorted by");
        let (table, column) = *self.rng.pick(PROTECTED);
        let (given, read) = (self.one_like(column), self.one_like(column));
        match self.rng.below(3) {
            0 => format!("SELECT COUNT(*) AS {given}, 1 AS one FROM {table} GROUP BY {read}"),
            1 => format!("SELECT id, city AS {given} FROM odd ORDER BY {read}"),
            _ => format!("SELECT id, 1 AS {given} FROM {table} ORDER BY {read}"),
        }
    }
}
