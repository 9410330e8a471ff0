//! pgbench's data: the rows of its four tables, the same whatever the seed, and what its transactions are about (PostgreSQL's
//! documentation, "pgbench"; pgbench.c, `initGenerateData`).

use base::Random;
use std::io::Write;

/// Of each branch.
const TELLERS: u64 = 10;
/// What a transaction takes from an account or gives to it, at most.
const MOST: u64 = 5000;

/// The tables of a run. pgbench has 100,000 accounts in each branch; here any number is spread over the branches.
#[derive(Debug, Clone)]
pub struct Bank {
    accounts: u64,
    branches: u64,
}

/// What one transaction is about: keys, counted from 1, and by how much balances change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub account: i64,
    pub teller: i64,
    pub branch: i64,
    /// From -5,000 to 5,000.
    pub delta: i64,
}

impl Bank {
    /// With so many accounts, in so many branches: pgbench's scale.
    pub fn new(accounts: u64, branches: u64) -> Self {
        Bank { accounts, branches }
    }

    pub fn account(&self, random: &mut Random) -> i64 {
        one_of(self.accounts, random)
    }

    /// What a transaction is about: account, teller and branch are independent of each other, as pgbench has them.
    pub fn transfer(&self, random: &mut Random) -> Transfer {
        Transfer {
            account: self.account(random),
            branch: one_of(self.branches, random),
            teller: one_of(self.branches * TELLERS, random),
            delta: random.below(2 * MOST + 1) as i64 - MOST as i64,
        }
    }

    /// Append an account's row, counted from 0, as COPY's text has it: key, branch, balance, and an empty filler.
    pub fn append_row(&self, record: u64, text: &mut Vec<u8>) {
        let branch = record * self.branches / self.accounts;
        writeln!(text, "{}\t{}\t0\t", record + 1, branch + 1).expect("memory takes what is written");
    }
}

fn one_of(count: u64, random: &mut Random) -> i64 {
    1 + random.below(count) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(bank: &Bank, record: u64) -> String {
        let mut text = Vec::new();
        bank.append_row(record, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn accounts_are_spread_over_branches_as_pgbench_spreads_them() {
        let bank = Bank::new(200_000, 2);
        assert_eq!(row(&bank, 0), "1\t1\t0\t\n");
        assert_eq!(row(&bank, 99_999), "100000\t1\t0\t\n");
        assert_eq!(row(&bank, 100_000), "100001\t2\t0\t\n");
        assert_eq!(row(&bank, 199_999), "200000\t2\t0\t\n");
    }

    proptest! {
        #[test]
        fn a_transaction_is_about_what_is_there(accounts in 1..1_000_000_u64, branches in 1..100_u64, seed in any::<u64>()) {
            let bank = Bank::new(accounts, branches);
            let Transfer { account, teller, branch, delta } = bank.transfer(&mut Random::new(seed));
            prop_assert!((1..=accounts as i64).contains(&account));
            prop_assert!((1..=10 * branches as i64).contains(&teller));
            prop_assert!((1..=branches as i64).contains(&branch));
            prop_assert!((-5000..=5000).contains(&delta));
        }
    }
}
