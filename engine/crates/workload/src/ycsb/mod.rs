//! YCSB's data and core workloads (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), as
//! defined by YCSB 0.17 (`site.ycsb.workloads.CoreWorkload`, `site.ycsb.generator`). The distributions are the same as
//! YCSB's. The random numbers differ from YCSB's, just as those of two runs of YCSB do.

mod core;
mod distributions;
mod operations;
mod records;
mod requests;

pub use core::{Core, Mix, Operation, Resolved, TablePlace, resolve};
pub use distributions::{Lengths, ScrambledZipfian, Zipfian};
pub use operations::{Shared, Ycsb};
pub use records::{Fields, Key, KeyNames, Shape, Table, Values, fnv_hash};
pub use requests::{Requests, Sequence, SequentialPosition};

use serde::Deserialize;

/// The settings of a workload of kind `ycsb`. All of its fields are optional.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Ycsb")]
pub struct Settings {
    pub phase: YcsbPhase,
    /// The number of records after loading. Phase `run` numbers the records that it inserts from `record_count` on.
    pub record_count: u64,
    pub insert_start: u64,
    /// The number of records to load or read, from `insert_start` on. If absent, all records up to `record_count` are
    /// loaded or read.
    pub insert_count: Option<u64>,
    /// The number of operations in the whole run. With the request distribution `zipfian`, the number of records that
    /// the run will insert is estimated from this number.
    pub operation_count: u64,
    pub insert_order: InsertOrder,
    /// The minimum number of digits in a key. Shorter numbers are padded with zeros.
    pub zero_padding: usize,
    pub key_prefix: String,
    pub field_count: u32,
    /// The number of bytes in a field, or the maximum number if lengths vary.
    pub field_length: u32,
    /// The minimum number of bytes in a field if lengths vary.
    pub min_field_length: u32,
    pub field_length_distribution: FieldLengthDistribution,
    pub read_proportion: f64,
    pub update_proportion: f64,
    pub insert_proportion: f64,
    pub scan_proportion: f64,
    pub read_modify_write_proportion: f64,
    pub request_distribution: RequestDistribution,
    pub exponential_percentile: f64,
    pub exponential_fraction: f64,
    pub hotspot_data_fraction: f64,
    pub hotspot_operation_fraction: f64,
    pub min_scan_length: u64,
    pub max_scan_length: u64,
    pub scan_length_distribution: ScanLengthDistribution,
    /// True if reads and scans return all fields. Otherwise they return one random field.
    pub read_all_fields: bool,
    pub write_all_fields: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            phase: YcsbPhase::Run,
            record_count: 0,
            insert_start: 0,
            insert_count: None,
            operation_count: 0,
            insert_order: InsertOrder::Hashed,
            zero_padding: 1,
            key_prefix: "user".into(),
            field_count: 10,
            field_length: 100,
            min_field_length: 1,
            field_length_distribution: FieldLengthDistribution::Constant,
            read_proportion: 0.95,
            update_proportion: 0.05,
            insert_proportion: 0.0,
            scan_proportion: 0.0,
            read_modify_write_proportion: 0.0,
            request_distribution: RequestDistribution::Uniform,
            exponential_percentile: 95.0,
            exponential_fraction: 0.857_142_857_1,
            hotspot_data_fraction: 0.2,
            hotspot_operation_fraction: 0.8,
            min_scan_length: 1,
            max_scan_length: 1000,
            scan_length_distribution: ScanLengthDistribution::Uniform,
            read_all_fields: true,
            write_all_fields: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum YcsbPhase {
    Load,
    Run,
}

/// The number in a record's key: a hash of the record's number (`hashed`), or the number itself (`ordered`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertOrder {
    Hashed,
    Ordered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLengthDistribution {
    Constant,
    Uniform,
    Zipfian,
}

/// The distribution of the records that operations read, update or scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestDistribution {
    Uniform,
    Zipfian,
    Latest,
    Sequential,
    Exponential,
    Hotspot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanLengthDistribution {
    Uniform,
    Zipfian,
}
