//! What of a plan's workloads of TPC-C can be refused before any server is asked.

use crate::border::{Kind, Plan, TpccPhase, Workload};
use crate::error::Result;
use crate::process::wrong;

/// More would be 10 GB of data for each hundred of them, and no number of a unit overflows.
const MOST_WAREHOUSES: u32 = 100_000;

/// Refuse what belongs to another kind, and settings that cannot be.
///
/// # Errors
/// `plan`.
pub fn check(plan: &Plan) -> Result<()> {
    for Workload { name, kind, tpcc, pace, .. } in &plan.workloads {
        let refuse = |what: &str| Err(wrong(&format!("workload '{name}': {what}")));
        let Some(settings) = tpcc else { continue };
        if *kind != Kind::Tpcc {
            return refuse("tpcc is a matter of kind tpcc alone");
        }
        if !(1..=MOST_WAREHOUSES).contains(&settings.warehouses) {
            return refuse("warehouses is a number from 1 to 100,000");
        }
        if settings.keying && (pace.is_some() || settings.phase == TpccPhase::Load) {
            return refuse("keying is a matter of phase run, and of terminals without a pace of their own");
        }
    }
    Ok(())
}

/// Whether it is transactions that this workload does.
pub fn runs(workload: &Workload) -> bool {
    let phase = workload.tpcc.as_ref().map_or(TpccPhase::Run, |settings| settings.phase);
    workload.kind == Kind::Tpcc && phase == TpccPhase::Run
}
