//! pgbench's data: the rows of its accounts, which do not depend on the seed, and the parameters of its transactions
//! (PostgreSQL's documentation, "pgbench"; pgbench.c, `initGenerateData`).

use base::Random;
use std::io::Write;

/// The number of tellers in each branch.
const TELLERS: u64 = 10;
/// The maximum amount by which a transaction increases or decreases a balance.
const MAX_DELTA: u64 = 5000;

/// The sizes of pgbench's tables in a run. pgbench has 100,000 accounts in each branch. Here any number of accounts is
/// possible, and they are spread evenly over the branches.
#[derive(Debug, Clone)]
pub struct Bank {
    accounts: u64,
    branches: u64,
}

/// The parameters of one transaction: the keys of its rows, counted from 1, and the change of the balances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub account: i64,
    pub teller: i64,
    pub branch: i64,
    /// The change of the balances, from -5,000 to 5,000.
    pub delta: i64,
}

impl Bank {
    /// Describe the tables for `accounts` accounts. `branches` is pgbench's scale factor.
    pub fn new(accounts: u64, branches: u64) -> Self {
        Bank { accounts, branches }
    }

    pub fn account(&self, random: &mut Random) -> i64 {
        random_key(self.accounts, random)
    }

    /// Draw the parameters of a transaction. Account, teller and branch are independent of each other, as in pgbench.
    pub fn transfer(&self, random: &mut Random) -> Transfer {
        Transfer {
            account: self.account(random),
            branch: random_key(self.branches, random),
            teller: random_key(self.branches * TELLERS, random),
            delta: random.below(2 * MAX_DELTA + 1) as i64 - MAX_DELTA as i64,
        }
    }

    /// Append account `record` (counted from 0) in COPY's text format: key, branch, balance, and an empty filler.
    pub fn append_row(&self, record: u64, text: &mut Vec<u8>) {
        let branch = record * self.branches / self.accounts;
        writeln!(text, "{}\t{}\t0\t", record + 1, branch + 1).expect("writing to memory does not fail");
    }
}

fn random_key(count: u64, random: &mut Random) -> i64 {
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
    fn accounts_belong_to_the_same_branches_as_in_pgbench() {
        let bank = Bank::new(200_000, 2);
        assert_eq!(row(&bank, 0), "1\t1\t0\t\n");
        assert_eq!(row(&bank, 99_999), "100000\t1\t0\t\n");
        assert_eq!(row(&bank, 100_000), "100001\t2\t0\t\n");
        assert_eq!(row(&bank, 199_999), "200000\t2\t0\t\n");
    }

    proptest! {
        #[test]
        fn pgbench_transaction_uses_only_existing_rows(accounts in 1..1_000_000_u64, branches in 1..100_u64, seed in any::<u64>()) {
            let bank = Bank::new(accounts, branches);
            let Transfer { account, teller, branch, delta } = bank.transfer(&mut Random::new(seed));
            prop_assert!((1..=accounts as i64).contains(&account));
            prop_assert!((1..=10 * branches as i64).contains(&teller));
            prop_assert!((1..=branches as i64).contains(&branch));
            prop_assert!((-5000..=5000).contains(&delta));
        }
    }
}
