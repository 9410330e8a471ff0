//! What a plan's workloads of YCSB share across threads, slices and arms.

use super::{Core, Sequence, Shared};
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
    /// Of the servers.
    pub addresses: &'a [String],
    /// On them.
    pub database: &'a str,
    /// A table or collection.
    pub table: &'a str,
}

/// Resolve the workloads, for arms whose records are at these places: once for all workers, since adding up a large
/// table's zeta takes its time. Arms with the same place have the same table, and number its new records together.
///
/// # Errors
/// `plan`, where a setting cannot be.
pub fn resolve<'a>(workloads: &[Settings], arms: impl Iterator<Item = Option<TablePlace<'a>>>) -> Result<Resolved> {
    let cores = workloads.iter().map(core).collect::<Result<Vec<_>>>()?;
    let mut sequences: HashMap<TablePlace<'_>, Arc<Sequence>> = HashMap::new();
    let of_arm = |place: Option<TablePlace<'a>>| {
        let sequence = place.map(|place| sequences.entry(place).or_default().clone());
        let share = |core: &Option<Core>| {
            let sequence = sequence.clone()?;
            Some((core.clone()?, Shared { sequence, turn: Arc::default() }))
        };
        cores.iter().map(share).collect()
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
