//! What a plan's workloads of YCSB share across threads, slices and arms.

use crate::border::{Kind, Plan, Service, Statements, Workload};
use crate::error::Result;
use crate::process::wrong;
use crate::workload::ycsb::{Core, Sequence, Shared};
use std::collections::HashMap;
use std::sync::Arc;

/// By arm, then workload; None for another kind.
pub type Resolved = Vec<Vec<Option<(Core, Shared)>>>;

/// Refuse what belongs to another kind, before any server is asked.
///
/// # Errors
/// `plan`.
pub fn check(plan: &Plan) -> Result<()> {
    for Workload { name, kind, ycsb, .. } in &plan.workloads {
        if ycsb.is_some() && *kind != Kind::Ycsb {
            return Err(wrong(&format!("workload '{name}': ycsb is a matter of kind ycsb alone")));
        }
    }
    let text =
        |service: &Service| matches!(service, Service::Mysql(settings) if settings.statements == Statements::Text);
    match plan.arms.iter().find(|arm| text(&arm.service)) {
        Some(arm) if plan.workloads.iter().any(|workload| workload.kind == Kind::Ycsb) => {
            let name = &arm.name;
            Err(wrong(&format!("arm '{name}': YCSB's statements are prepared, so statements cannot be 'text'")))
        }
        _ => Ok(()),
    }
}

/// Resolve the workloads: once for all workers, since adding up a large table's zeta takes its time.
///
/// # Errors
/// `plan`, where a setting cannot be.
pub fn resolve(plan: &Plan) -> Result<Resolved> {
    let cores = plan.workloads.iter().map(core).collect::<Result<Vec<_>>>()?;
    let mut sequences: HashMap<Table<'_>, Arc<Sequence>> = HashMap::new();
    let mut resolved = Vec::new();
    for arm in &plan.arms {
        let sequence = table(&arm.service).map(|table| sequences.entry(table).or_default().clone());
        let share = |core: &Option<Core>| {
            let sequence = sequence.clone()?;
            Some((core.clone()?, Shared { sequence, turn: Arc::default() }))
        };
        resolved.push(cores.iter().map(share).collect());
    }
    Ok(resolved)
}

fn core(workload: &Workload) -> Result<Option<Core>> {
    if workload.kind != Kind::Ycsb {
        return Ok(None);
    }
    let core = Core::new(&workload.ycsb.clone().unwrap_or_default());
    core.map(Some).map_err(|what| wrong(&format!("workload '{}': {what}", workload.name)))
}

/// Where records are: addresses, database, table or collection.
type Table<'a> = (&'a [String], &'a str, &'a str);

fn table(service: &Service) -> Option<Table<'_>> {
    match service {
        Service::Mongodb(settings) => Some((&settings.addresses, &settings.database, &settings.collection)),
        Service::Mysql(settings) => Some((&settings.addresses, &settings.database, &settings.table)),
        Service::Http(_) => None,
    }
}
