//! What a plan's workloads of YCSB share across threads, slices and arms.

use super::{Core, Sequence, Shared, Turn};
use crate::Share;
use crate::settings::{Kind, Settings};
use base::error::Result;
use base::lines::wrong;
use std::collections::HashMap;
use std::sync::Arc;

/// By arm, then workload; None for another kind.
pub type Resolved = Vec<Vec<Option<(Core, Shared)>>>;

/// Where records are: addresses, database, table or collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TablePlace<'a> {
    pub addresses: &'a [String],
    pub database: &'a str,
    /// A table or collection.
    pub table: &'a str,
}

/// Resolve the workloads, for arms whose records are at these places: once for all workers, since adding up a large
/// table's zeta takes its time. Arms with the same place have the same table, and number its new records together, of all
/// hosts' numbers with this host's share.
/// Errors: `plan`, where a setting cannot be.
pub fn resolve<'a>(
    workloads: &[Settings],
    share: Share,
    arms: impl Iterator<Item = Option<TablePlace<'a>>>,
) -> Result<Resolved> {
    let most_workers = workloads.iter().filter(|workload| workload.kind == Kind::Ycsb).map(|workload| workload.workers);
    // One division for all that insert into a table: by several ones two hosts would insert the same.
    let numbers = share.among(most_workers.max().unwrap_or(1) as u64).unwrap_or_default();
    let cores = workloads.iter().map(core).collect::<Result<Vec<_>>>()?;
    let mut sequences: HashMap<TablePlace<'_>, Arc<Sequence>> = HashMap::new();
    let of_arm = |place: Option<TablePlace<'a>>| {
        let sequence =
            place.map(|place| sequences.entry(place).or_insert_with(|| Arc::new(Sequence::new(numbers))).clone());
        let shared = |(core, workload): (&Option<Core>, &Settings)| {
            let turn = Turn::new(share.of(workload).unwrap_or_default());
            Some((core.clone()?, Shared { sequence: sequence.clone()?, turn: Arc::new(turn) }))
        };
        cores.iter().zip(workloads).map(shared).collect()
    };
    Ok(arms.map(of_arm).collect())
}

fn core(workload: &Settings) -> Result<Option<Core>> {
    if workload.kind != Kind::Ycsb {
        return Ok(None);
    }
    let core = Core::new(&workload.ycsb.clone().unwrap_or_default());
    core.map(Some).map_err(|what| wrong(&format!("workload '{}': {what}", workload.name)))
}
