//! YCSB: its data and its core workloads (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), by
//! the definitions of YCSB 0.17 (`site.ycsb.workloads.CoreWorkload`, `site.ycsb.generator`). What is drawn has YCSB's
//! distributions; the random numbers are our own, since Java's differ from run to run too.

mod core;
mod key;
mod length;
mod mix;
mod operations;
mod request;
mod resolve;
mod sequence;
mod settings;
mod table;
mod values;
mod zipfian;

pub use core::Core;
pub use key::{Key, KeyNames, fnv_hash};
pub use length::Lengths;
pub use mix::{Mix, Operation};
pub use operations::{Shared, Ycsb};
pub use request::{Requests, Turn};
pub use resolve::{Resolved, TablePlace, resolve};
pub use sequence::Sequence;
pub use settings::{
    FieldLengthDistribution, InsertOrder, RequestDistribution, ScanLengthDistribution, Settings, YcsbPhase,
};
pub use table::Table;
pub use values::{Fields, Shape, Values};
pub use zipfian::{ScrambledZipfian, Zipfian};
