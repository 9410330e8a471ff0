//! The data: two databases that differ in protected values alone, of equal lengths, in another order.

use crate::rng::Rng;

/// Of texts; unique ones of letters and digits, as no ciphertext, name or statement holds them.
pub const LENGTH: usize = 16;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const PEOPLE: usize = 8;
const OWNERS: usize = 4;
const ODD: usize = 5;
const MOMENTS: usize = 4;
/// Equal to no number of a statement: which rows that finds may be told.
const NO_LITERAL: u64 = 61_007;
/// Sums of up to 2,400 of such numbers have as many digits on both sides.
const LEAST_NUMBER: i64 = 4_000_000_000_000_000_000;
const NUMBERS: u64 = 1_000_000_000_000_000;
const MIDDLE: i64 = LEAST_NUMBER + NUMBERS as i64 / 2;

/// Values that are the same on both sides, and that statements may hold.
pub const GUESSES: &[&str] = &["guess", "Alice", "O'Hara", "Zoë"];
pub const SMALL_SALARIES: &[i64] = &[5000, 7000];

/// What may come to no client.
#[derive(Debug, Clone, Default)]
pub struct Canaries {
    pub texts: Vec<[u8; LENGTH]>,
    pub numbers: Vec<i64>,
}

/// An address, a text of latin1, a time of the day, an approximate number, a padded one, and a moment that may be past: of as many
/// bytes on both sides, but not as values of another type. The padded ones are no literal, and no bits of `NO_LITERAL` either:
/// which of these are equal may be told.
const KINDS: [&[[&str; 6]]; 2] = [
    &[
        ["fe800000000000000000000000000001", "Zoëqqqqqqqqqqqqq", "20:00:00", "1.1", "71011", "2100-01-01 10:00:09.6"],
        [
            "fe800000000000000000000000000002",
            "qqqqqqqqqqqqqqqqq",
            "30:00:00",
            "1.75",
            "710110000",
            "2001-01-01 10:00:08.2",
        ],
    ],
    &[
        [
            "fe801111222233334444555566667777",
            "qqqqqqqqqqqqqqqqz",
            "30:00:00",
            "1.7",
            "710110000",
            "2001-01-01 10:00:08.2",
        ],
        ["fe801111222233334444555566668888", "Zoëqqqqqqqqqqqqz", "20:00:00", "1.25", "71011", "2100-01-01 10:00:09.6"],
    ],
];
/// With what statements store a sum of them is one of its type, or none.
const CAPS: [&[i64]; 2] =
    [&[4_700_000_000_000_000_000, 5_700_000_000_000_000_000], &[5_700_000_000_000_000_000, 4_700_000_000_000_000_000]];

/// One side's protected values.
pub struct World {
    names: Vec<[u8; LENGTH]>,
    salaries: Vec<i64>,
    owners: Vec<[u8; LENGTH]>,
    holders: Vec<[u8; LENGTH]>,
    numbers: Vec<i64>,
    first_names: Vec<[u8; LENGTH]>,
    hidden: Vec<[u8; LENGTH]>,
    /// Hours of moments, and numbers of other lengths.
    hours: Vec<usize>,
    bits: Vec<u64>,
    /// Of each kind one; by `side`.
    kinds: &'static [[&'static str; 6]],
    caps: &'static [i64],
}

impl World {
    /// `side` 0 or 1.
    pub fn new(seed: u64, side: u64) -> Self {
        let mut rng = Rng::new(seed, 1 + side);
        let texts = |rng: &mut Rng, count| (0..count).map(|_| text(rng)).collect::<Vec<_>>();
        let numbers = |rng: &mut Rng, count| -> Vec<i64> {
            (0..count).map(|_| LEAST_NUMBER + (rng.next() % NUMBERS) as i64).collect()
        };
        let mut world = World {
            names: texts(&mut rng, PEOPLE),
            salaries: numbers(&mut rng, PEOPLE),
            owners: texts(&mut rng, OWNERS),
            holders: texts(&mut rng, OWNERS),
            numbers: numbers(&mut rng, ODD),
            first_names: texts(&mut rng, ODD),
            hidden: texts(&mut rng, ODD),
            hours: (0..MOMENTS).map(|id| if side == 0 { 13 + id } else { 22 - id }).collect(),
            bits: (0..MOMENTS as u32).map(|id| NO_LITERAL * 10_u64.pow(if side == 0 { id } else { 8 - id })).collect(),
            kinds: KINDS[side as usize],
            caps: CAPS[side as usize],
        };
        // A key needs an index, and by a covering index a server may give rows in its order: that is known, and no find. So
        // the order of these is the same on both sides, also among what statements add.
        world.owners.iter_mut().for_each(|owner| owner[..2].copy_from_slice(b"zz"));
        world.owners.sort_by_key(|owner| owner.to_ascii_lowercase());
        // A primary key's, for the same reason; and above what statements store.
        world.numbers.iter_mut().for_each(|number| *number = MIDDLE + (*number - LEAST_NUMBER) / 2);
        world.numbers.sort_unstable();
        // As a number each is another one, so that a comparison with a number tells them apart.
        world.names[0][..2].copy_from_slice(if side == 0 { b"1q" } else { b"5q" });
        // Order is another on the other side.
        world.names.sort_by_key(|name| name.to_ascii_lowercase());
        world.salaries.sort_unstable();
        if side == 1 {
            world.names.reverse();
            world.salaries.rotate_left(3);
        }
        // Equality is the same.
        world.names[6] = world.names[2];
        world.salaries[5] = world.salaries[1];
        world
    }

    pub fn canaries(&self) -> Canaries {
        let texts = [&self.names, &self.owners, &self.holders, &self.first_names, &self.hidden];
        let numbers = self.salaries.iter().chain(&self.numbers).copied().collect();
        Canaries { texts: texts.into_iter().flatten().copied().collect(), numbers }
    }

    /// Statements that empty the tables of a database, whatever was in them.
    pub fn empty(database: &str, thoroughly: bool) -> Vec<String> {
        // TRUNCATE takes 30 ms, but only after it do rows get the same numbers again.
        let verb = if thoroughly { "TRUNCATE" } else { "DELETE FROM" };
        let mut empty = vec!["SET foreign_key_checks = 0, sql_mode = 'STRICT_TRANS_TABLES'".to_owned(), "BEGIN".into()];
        empty.extend(TABLES_OF_DATA.iter().map(|table| format!("{verb} {database}.{table}")));
        empty
    }

    /// Statements that fill them.
    pub fn fill(&self, database: &str) -> Vec<String> {
        let mut fill = Vec::new();
        let mut people = Vec::new();
        for (place, (name, salary)) in self.names.iter().zip(&self.salaries).enumerate() {
            people.push(person(place + 1, &quoted(name), &salary.to_string()));
        }
        people.push(person(9, "NULL", "NULL"));
        for (place, (guess, salary)) in GUESSES.iter().zip(SMALL_SALARIES.iter().cycle()).enumerate() {
            people.push(person(10 + place, &quoted(guess.as_bytes()), &salary.to_string()));
        }
        insert(database, "people (id, name, salary, city, born, rate)", &people, &mut fill);
        let owners: Vec<_> =
            self.owners.iter().enumerate().map(|(id, name)| format!("({}, {})", id + 1, quoted(name))).collect();
        insert(database, "owners (id, name)", &owners, &mut fill);
        let orders = (1..=6).map(|id| {
            let owner = quoted(&self.owners[id % OWNERS]);
            format!("({id}, {owner}, {id}, {id}0.50, '2024-01-{id:02} 10:00:00')")
        });
        insert(database, "orders (id, person_name, person_id, total, placed)", &orders.collect::<Vec<_>>(), &mut fill);
        let badges = self.holders.iter().enumerate().map(|(id, holder)| {
            let holder = quoted(holder);
            format!("({}, {holder}, {holder}, 'colour-{id}')", id + 1)
        });
        insert(database, "badges (id, holder, badge, colour)", &badges.collect::<Vec<_>>(), &mut fill);
        let odd = self.numbers.iter().zip(&self.first_names).zip(&self.hidden).enumerate();
        let odd = odd.map(|(id, ((number, first), hidden))| {
            format!("({number}, {}, {}, {}, 0, 'city-{id}')", id + 1, quoted(first), quoted(hidden))
        });
        insert(database, "odd (number, id, prénom, hidden, bonus, city)", &odd.collect::<Vec<_>>(), &mut fill);
        let guesses: Vec<_> = GUESSES
            .iter()
            .enumerate()
            .map(|(id, word)| format!("({id}, {}, {})", quoted(word.as_bytes()), id * 7))
            .collect();
        insert(database, "guesses (id, word, n)", &guesses, &mut fill);
        let moments = self.hours.iter().zip(&self.bits).enumerate();
        let moments = moments.map(|(id, (hour, bits))| format!("({id}, 0, '2024-03-05 {hour}:00:00', {bits:013})"));
        insert(database, "moments (id, note, at, bits)", &moments.collect::<Vec<_>>(), &mut fill);
        let kinds = self.kinds.iter().enumerate().map(|(id, [address, latin, since, amount, padded, until])| {
            format!("({id}, 0, '::{id}', X'{address}', '{latin}', '{since}', {amount}, {padded}, '{until}')")
        });
        let columns = "kinds (id, note, place, address, latin, since, amount, padded, until)";
        insert(database, columns, &kinds.collect::<Vec<_>>(), &mut fill);
        insert(database, "grades (id, bonus)", &["(1, 0)".into(), "(2, 1)".into()], &mut fill);
        let graded = self.caps.iter().enumerate().map(|(id, cap)| format!("({id}, {id}, {cap})"));
        insert(database, "graded (id, bonus, cap)", &graded.collect::<Vec<_>>(), &mut fill);
        let notes: Vec<_> = (1..=5).map(|id| format!("({id}, 'note {id}', {})", id * 3)).collect();
        insert(database, "notes (id, t, n)", &notes, &mut fill);
        fill.push("COMMIT".into());
        fill
    }
}

fn person(id: usize, name: &str, salary: &str) -> String {
    format!("({id}, {name}, {salary}, 'city-{}', '19{}0-02-1{}', {}.25)", id % 4, id % 9, id % 9, id * 11)
}

fn insert(database: &str, into: &str, rows: &[String], fill: &mut Vec<String>) {
    fill.push(format!("INSERT INTO {database}.{into} VALUES {}", rows.join(", ")));
}

fn quoted(text: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''"))
}

fn text(rng: &mut Rng) -> [u8; LENGTH] {
    std::array::from_fn(|_| *rng.pick(LETTERS))
}

const TABLES_OF_DATA: &[&str] =
    &["orders", "people", "owners", "badges", "guesses", "notes", "odd", "moments", "kinds", "graded", "grades"];

/// Statements that make a database. `initial`, `hushed`, `hour`: generated; `person_name`: by a foreign key; `badge`, `bonus`: by a
/// CHECK; `extra`: weighed by a CHECK of what is generated from it; `copy`: by its default. There is no index on a protected column but those of keys.
pub fn schema(database: &str) -> Vec<String> {
    let d = database;
    vec![
        format!("DROP DATABASE IF EXISTS {d}"),
        format!("DROP DATABASE IF EXISTS other_{d}"),
        format!("CREATE DATABASE {d} CHARACTER SET utf8mb4"),
        format!("CREATE DATABASE other_{d} CHARACTER SET utf8mb4"),
        format!(
            "CREATE TABLE {d}.people (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(64), salary BIGINT, city VARCHAR(64), \
             born DATE, rate DECIMAL(12,2), initial CHAR(1) AS (LEFT(name, 1)), hushed VARCHAR(64) AS (LOWER(name)) STORED, \
             KEY city_idx (city))"
        ),
        format!("CREATE TABLE {d}.owners (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(64) UNIQUE)"),
        format!(
            "CREATE TABLE {d}.orders (id INT PRIMARY KEY AUTO_INCREMENT, person_name VARCHAR(64), person_id INT, \
             total DECIMAL(10,2), placed DATETIME, FOREIGN KEY (person_name) REFERENCES {d}.owners (name))"
        ),
        format!(
            "CREATE TABLE {d}.badges (id INT PRIMARY KEY, holder VARCHAR(64), badge VARCHAR(64), colour VARCHAR(64), \
             CHECK (badge = holder))"
        ),
        format!("CREATE TABLE {d}.guesses (id INT PRIMARY KEY, word VARCHAR(64), n INT)"),
        format!("CREATE TABLE {d}.notes (id INT PRIMARY KEY, t VARCHAR(255), n INT)"),
        format!(
            "CREATE TABLE {d}.odd (number BIGINT PRIMARY KEY, id INT NOT NULL UNIQUE, prénom VARCHAR(64), hidden VARCHAR(64) INVISIBLE, \
             copy VARCHAR(64) DEFAULT (prénom), bonus BIGINT, extra BIGINT, city VARCHAR(64), \
             lifted BIGINT AS (extra) INVISIBLE, CHECK (bonus <= number), CHECK (lifted <= number))"
        ),
        format!(
            "CREATE TABLE {d}.moments (id INT PRIMARY KEY, note INT, at TIMESTAMP NULL, bits BIT(64), \
             hour INT AS (HOUR(at)), CHECK (at > '2024-03-05 07:00:00'))"
        ),
        format!(
            "CREATE TABLE {d}.kinds (id INT PRIMARY KEY, note INT, place INET6, address VARBINARY(16), \
             latin VARCHAR(64) CHARACTER SET latin1, since TIME, amount FLOAT, padded BIGINT(19) ZEROFILL, \
             until DATETIME(1) NOT NULL, renewed DATETIME ON UPDATE CURRENT_TIMESTAMP INVISIBLE, \
             day VARCHAR(10) AS (DAYNAME(since)) INVISIBLE, second INT AS (SECOND(CAST(until AS DATETIME))) INVISIBLE, \
             CHECK (renewed <= until))"
        ),
        format!("CREATE TABLE {d}.grades (id INT PRIMARY KEY, bonus BIGINT UNIQUE)"),
        format!(
            "CREATE TABLE {d}.graded (id INT PRIMARY KEY, bonus BIGINT, cap BIGINT, total BIGINT AS (bonus + cap), \
             FOREIGN KEY (bonus) REFERENCES {d}.grades (bonus) ON UPDATE CASCADE)"
        ),
        // Of which one is a view, where names have case.
        format!("CREATE TABLE {d}.Cased_v (id INT PRIMARY KEY)"),
        format!("CREATE VIEW {d}.cased_v AS SELECT name AS x FROM {d}.people"),
        format!("CREATE VIEW {d}.names_v AS SELECT name AS x FROM {d}.people"),
        format!("CREATE VIEW {d}.deep_v AS SELECT x AS y FROM {d}.names_v"),
        format!("CREATE VIEW {d}.cities_v AS SELECT id, city FROM {d}.people"),
        format!("CREATE VIEW {d}.sums_v AS SELECT city, COUNT(*) AS c, MAX(name) AS m FROM {d}.people GROUP BY city"),
        format!(
            "CREATE VIEW {d}.joined_v AS SELECT p.id, p.name AS city, n.t FROM {d}.people p JOIN {d}.notes n ON n.id = p.id"
        ),
        format!("CREATE FUNCTION {d}.f(word TEXT) RETURNS TEXT DETERMINISTIC RETURN CONCAT(word, '')"),
        format!("CREATE PROCEDURE {d}.p() SELECT CONCAT(name, '') FROM {d}.people"),
        format!("CREATE SEQUENCE {d}.numbers"),
        format!("CREATE TABLE other_{d}.people (id INT PRIMARY KEY, town VARCHAR(64))"),
        format!("INSERT INTO other_{d}.people VALUES (1, 'town-1'), (2, 'town-2')"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn two_sides_differ_in_order_and_values_and_not_in_equality_and_length() {
        let (left, right) = (World::new(5, 0), World::new(5, 1));
        let pattern = |names: &[[u8; LENGTH]]| -> Vec<usize> {
            names.iter().map(|name| names.iter().position(|other| other == name).unwrap()).collect()
        };
        assert_eq!(pattern(&left.names), pattern(&right.names));
        assert!(left.names.iter().all(|name| !right.names.contains(name)));
        let order = |names: &[[u8; LENGTH]]| {
            let mut places: Vec<usize> = (0..names.len()).collect();
            places.sort_by_key(|place| names[*place].to_ascii_lowercase());
            places
        };
        assert_ne!(order(&left.names), order(&right.names));
        assert_eq!(order(&left.owners), order(&right.owners));
        let lengths = |world: &World| -> Vec<usize> { world.fill("d").iter().map(String::len).collect() };
        assert_eq!(lengths(&left), lengths(&right));
        let unique: HashSet<_> = left.canaries().texts.into_iter().chain(right.canaries().texts).collect();
        assert_eq!(unique.len(), 2 * (PEOPLE - 1 + 2 * OWNERS + 2 * ODD));
    }
}
