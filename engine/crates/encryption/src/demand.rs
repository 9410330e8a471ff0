//! Columns that a client takes encrypted or not at all.

use base::error::{Class, Failure, Result};
use serde::Deserialize;

/// Such a column, `database.table.column`; case does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Demand([String; 3]);

impl Demand {
    pub fn means(&self, names: [&[u8]; 3]) -> bool {
        self.0.iter().zip(names).all(|(wanted, name)| String::from_utf8_lossy(name).to_lowercase() == *wanted)
    }
}

impl TryFrom<String> for Demand {
    type Error = Failure;

    fn try_from(written: String) -> Result<Self> {
        let names: Vec<_> = written.split('.').map(str::to_lowercase).collect();
        match <[String; 3]>::try_from(names) {
            Ok(names) if names.iter().all(|name| !name.is_empty() && !name.contains(['*', '`'])) => Ok(Demand(names)),
            _ => Err(Failure::new(
                Class::Plan,
                format!(
                    "must_be_encrypted: '{}' is not \"database.table.column\", without patterns or quotes",
                    written.escape_debug()
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_three_and_no_patterns() {
        let demand = Demand::try_from("Shop.People.ÄName".to_owned()).unwrap();
        assert!(demand.means([b"shop", b"PEOPLE", "äname".as_bytes()]));
        assert!(!demand.means([b"shop", b"people", b"name"]) && !demand.means([b"", b"people", "äname".as_bytes()]));
        for wrong in ["", "people.name", "d.people.*", "a.b.c.d", "d..name", "`d`.people.name", "d.people.\nname*"] {
            let failure = serde_json::from_value::<Demand>(wrong.into()).unwrap_err().to_string();
            assert!(failure.contains("is not \"database.table.column\"") && !failure.contains('\n'), "{failure}");
        }
    }
}
