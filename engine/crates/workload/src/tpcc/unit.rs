//! The units in which the data is loaded: each is one operation, and the same whatever came before it.

use super::{DISTRICTS, ITEMS};

/// Rows of `stock` or of `item`.
pub const ROWS: u32 = 1000;
const PARTS: u64 = (ITEMS / ROWS) as u64;

/// What one operation of a load writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A district with its customers, their history, and its orders.
    District {
        /// From 1.
        warehouse: u32,
        /// From 1.
        district: u32,
    },
    Stock {
        /// From 1.
        warehouse: u32,
        /// The first item, from 1.
        from: u32,
    },
    Items {
        /// The first, from 1.
        from: u32,
    },
    Warehouse {
        /// From 1.
        warehouse: u32,
    },
}

impl Unit {
    /// The unit of this number, from 0; None, where there are no more. The largest come first, so that workers end
    /// together.
    pub fn of(number: u64, warehouses: u32) -> Option<Unit> {
        let all = u64::from(warehouses);
        let districts = all * u64::from(DISTRICTS);
        let first = |part: u64| (part % PARTS) as u32 * ROWS + 1;
        let warehouse = |number: u64| number as u32 + 1;
        if number < districts {
            let per = u64::from(DISTRICTS);
            return Some(Unit::District { warehouse: warehouse(number / per), district: (number % per) as u32 + 1 });
        }
        let number = number - districts;
        if number < all * PARTS {
            return Some(Unit::Stock { warehouse: warehouse(number / PARTS), from: first(number) });
        }
        let number = number - all * PARTS;
        if number < PARTS {
            return Some(Unit::Items { from: first(number) });
        }
        let number = number - PARTS;
        (number < all).then(|| Unit::Warehouse { warehouse: warehouse(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_part_is_in_one_unit() {
        for warehouses in [1, 3] {
            let units: Vec<_> = (0..).map_while(|number| Unit::of(number, warehouses)).collect();
            assert_eq!(units.len() as u32, 111 * warehouses + 100);
            assert_eq!(units.iter().collect::<HashSet<_>>().len(), units.len());
            assert_eq!(units[0], Unit::District { warehouse: 1, district: 1 });
            assert_eq!(units.last(), Some(&Unit::Warehouse { warehouse: warehouses }));
            assert!(units.contains(&Unit::Stock { warehouse: warehouses, from: 99_001 }));
            assert!(units.contains(&Unit::Items { from: 1 }));
        }
        assert_eq!(Unit::of(u64::MAX, u32::MAX), None);
    }
}
