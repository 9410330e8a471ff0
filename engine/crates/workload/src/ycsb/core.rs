//! YCSB's settings after validation, converted to the distributions from which operations are drawn.

use super::records::{LONGEST_KEY, MAX_DIGITS};
use super::{
    FieldLengthDistribution, Fields, KeyNames, Lengths, RequestDistribution, Requests, ScanLengthDistribution,
    ScrambledZipfian, Sequence, SequentialPosition, Settings, Shape, Shared, Values, YcsbPhase, Zipfian,
};
use crate::Share;
use crate::settings::Kind;
use base::Random;
use base::lines::invalid_command;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of records if `record_count` is 0: as in YCSB, `Integer.MAX_VALUE` (`Client.DEFAULT_RECORD_COUNT`).
const ALL_RECORDS: u64 = i32::MAX as u64;
/// The maximum number of records. Up to this number `f64` is exact and sums do not overflow.
const MAX_RECORDS: u64 = 1 << 53;
/// The maximum size of a record in bytes, which is that of a MongoDB document.
const LONGEST_RECORD: u64 = 16 << 20;
/// YCSB's "fudge factor" for the expected number of inserted records: a run may insert more than expected.
const ROOM_FOR_NEW: f64 = 2.0;

/// A workload's validated settings. Each worker has a copy, whose Zipfian distribution grows with the table.
#[derive(Debug, Clone)]
pub struct Core {
    pub mix: Mix,
    pub requests: Requests,
    pub keys: KeyNames,
    pub scan_lengths: Lengths,
    /// The number of the first record that this workload inserts.
    pub begins_at: u64,
    field_count: u32,
    field_lengths: Lengths,
    reads_all: bool,
    writes_all: bool,
}

impl Core {
    /// Validate the settings and convert them. Errors: the reason why the settings are invalid.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let records = Records::from_settings(settings)?;
        check_fields(settings)?;
        check_scans(settings)?;
        check_keys(settings)?;
        let mix = mix(settings)?;
        let requests = match settings.phase {
            YcsbPhase::Run => requests(settings, &records)?,
            // A load does not read, so this distribution is never used.
            YcsbPhase::Load => Requests::Uniform(0..1),
        };
        let (least, most) = (u64::from(settings.min_field_length), u64::from(settings.field_length));
        Ok(Core {
            mix,
            requests,
            keys: KeyNames {
                prefix: settings.key_prefix.clone(),
                zero_padding: settings.zero_padding,
                order: settings.insert_order,
            },
            scan_lengths: match settings.scan_length_distribution {
                ScanLengthDistribution::Uniform => Lengths::uniform(settings.min_scan_length, settings.max_scan_length),
                ScanLengthDistribution::Zipfian => Lengths::zipfian(settings.min_scan_length, settings.max_scan_length),
            },
            begins_at: match settings.phase {
                YcsbPhase::Load => settings.insert_start,
                YcsbPhase::Run => records.count,
            },
            field_count: settings.field_count,
            field_lengths: match settings.field_length_distribution {
                FieldLengthDistribution::Constant => Lengths::Constant(most),
                FieldLengthDistribution::Uniform => Lengths::uniform(least, most),
                FieldLengthDistribution::Zipfian => Lengths::zipfian(least, most),
            },
            reads_all: settings.read_all_fields,
            writes_all: settings.write_all_fields,
        })
    }

    pub fn shape(&self) -> Shape {
        let both = self.mix.has(Operation::ReadModifyWrite);
        Shape {
            fields: self.field_count,
            reads_all: self.reads_all,
            writes_all: self.writes_all,
            inserts: self.mix.has(Operation::Insert),
            reads: both || self.mix.has(Operation::Read),
            updates: both || self.mix.has(Operation::Update),
            scans: self.mix.has(Operation::Scan),
        }
    }

    pub fn read_fields(&self, random: &mut Random) -> Fields {
        self.all_or_one(self.reads_all, random)
    }

    pub fn updated<'a>(&'a self, random: &'a mut Random) -> Values<'a> {
        let fields = self.all_or_one(self.writes_all, random);
        Values::new(fields, self.field_count, &self.field_lengths, random)
    }

    pub fn inserted<'a>(&'a self, random: &'a mut Random) -> Values<'a> {
        Values::new(Fields::All, self.field_count, &self.field_lengths, random)
    }

    fn all_or_one(&self, all: bool, random: &mut Random) -> Fields {
        if all { Fields::All } else { Fields::One(random.below(u64::from(self.field_count)) as u32) }
    }
}

/// `count` is the table's number of records, `loaded` are the records that this workload loads or reads.
struct Records {
    count: u64,
    loaded: std::ops::Range<u64>,
}

impl Records {
    fn from_settings(settings: &Settings) -> Result<Self, String> {
        let &Settings { insert_start, record_count, phase, .. } = settings;
        if phase == YcsbPhase::Run && record_count == 0 {
            return Err("record_count must be the number of loaded records, at least 1".into());
        }
        let count = if record_count == 0 { ALL_RECORDS } else { record_count };
        let insert_count = settings.insert_count.unwrap_or(count.saturating_sub(insert_start));
        if insert_count == 0 {
            return Err("insert_count must be at least 1, and insert_start below record_count".into());
        }
        let end = insert_start.checked_add(insert_count).filter(|end| *end <= count && count <= MAX_RECORDS);
        let end =
            end.ok_or("insert_start plus insert_count must be at most record_count, and record_count at most 2^53")?;
        Ok(Records { count, loaded: insert_start..end })
    }
}

fn check_fields(settings: &Settings) -> Result<(), String> {
    let &Settings { field_count, field_length, min_field_length, field_length_distribution, .. } = settings;
    if field_count == 0 || field_length == 0 {
        return Err("field_count and field_length must be at least 1".into());
    }
    if min_field_length > field_length && field_length_distribution != FieldLengthDistribution::Constant {
        return Err("min_field_length must be at most field_length".into());
    }
    if u64::from(field_count) * (u64::from(field_length) + 20) > LONGEST_RECORD {
        return Err("field_count times field_length exceeds the 16 MB of a record".into());
    }
    Ok(())
}

fn check_scans(settings: &Settings) -> Result<(), String> {
    if settings.min_scan_length == 0 || settings.max_scan_length < settings.min_scan_length {
        return Err("min_scan_length must be at least 1 and at most max_scan_length".into());
    }
    if settings.max_scan_length > i32::MAX as u64 {
        return Err("max_scan_length must be at most 2147483647".into());
    }
    Ok(())
}

fn check_keys(settings: &Settings) -> Result<(), String> {
    if settings.key_prefix.len().saturating_add(settings.zero_padding.max(MAX_DIGITS)) > LONGEST_KEY {
        return Err(format!("key_prefix or zero_padding is too long: a key has at most {LONGEST_KEY} bytes"));
    }
    if settings.key_prefix.contains('\0') {
        return Err("key_prefix must not contain a zero byte".into());
    }
    Ok(())
}

fn mix(settings: &Settings) -> Result<Mix, String> {
    if settings.phase == YcsbPhase::Load {
        return Ok(Mix::new([(Operation::Insert, 1.0)]));
    }
    let weights = [
        (Operation::Read, settings.read_proportion),
        (Operation::Update, settings.update_proportion),
        (Operation::Insert, settings.insert_proportion),
        (Operation::Scan, settings.scan_proportion),
        (Operation::ReadModifyWrite, settings.read_modify_write_proportion),
    ];
    if weights.iter().any(|(_, weight)| !(0.0..=1e9).contains(weight)) {
        return Err("each proportion must be a number from 0 to 1e9".into());
    }
    let mix = Mix::new(weights);
    if mix.is_empty() { Err("all proportions are 0; set at least one".into()) } else { Ok(mix) }
}

fn requests(settings: &Settings, records: &Records) -> Result<Requests, String> {
    let loaded = records.loaded.clone();
    match settings.request_distribution {
        RequestDistribution::Uniform => Ok(Requests::Uniform(loaded)),
        RequestDistribution::Sequential => Ok(Requests::Sequential(loaded)),
        RequestDistribution::Latest => Ok(Requests::Latest(Zipfian::new(records.count - 1))),
        RequestDistribution::Zipfian => {
            let new = (settings.operation_count as f64 * settings.insert_proportion * ROOM_FOR_NEW) as u64;
            // YCSB adds 1 to the number of records, so add 1 here too.
            let items = (loaded.end - loaded.start).saturating_add(new).saturating_add(1);
            Ok(Requests::Zipfian(ScrambledZipfian::new(loaded.start, items)))
        }
        RequestDistribution::Exponential => exponential(settings, records.count),
        RequestDistribution::Hotspot => hotspot(settings, loaded),
    }
}

fn exponential(settings: &Settings, records: u64) -> Result<Requests, String> {
    let &Settings { exponential_percentile: percentile, exponential_fraction: fraction, .. } = settings;
    if !(percentile > 0.0 && percentile < 100.0 && fraction > 0.0 && fraction.is_finite()) {
        return Err("exponential_percentile must lie between 0 and 100, and exponential_fraction above 0".into());
    }
    Ok(Requests::exponential(percentile, records as f64 * fraction))
}

fn hotspot(settings: &Settings, loaded: std::ops::Range<u64>) -> Result<Requests, String> {
    let &Settings { hotspot_data_fraction: data, hotspot_operation_fraction: operations, .. } = settings;
    if !(0.0..=1.0).contains(&data) || !(0.0..=1.0).contains(&operations) {
        return Err("hotspot_data_fraction and hotspot_operation_fraction must be numbers from 0 to 1".into());
    }
    let hot_end = loaded.start + ((loaded.end - loaded.start) as f64 * data) as u64;
    let (hot, cold) = (loaded.start..hot_end, hot_end..loaded.end);
    if hot.is_empty() && operations > 0.0 || cold.is_empty() && operations < 1.0 {
        return Err("with this hotspot_data_fraction there is no record for some of the operations".into());
    }
    Ok(Requests::Hotspot { hot, cold, operations })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

#[derive(Debug, Clone)]
pub struct Mix(Vec<(Operation, f64)>);

impl Mix {
    /// Create a mix from weights, which need not add up to 1. Operations with weight 0 are left out.
    pub fn new(weights: impl IntoIterator<Item = (Operation, f64)>) -> Self {
        let weights: Vec<_> = weights.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        Mix(weights.into_iter().map(|(operation, weight)| (operation, weight / sum)).collect())
    }

    pub fn has(&self, operation: Operation) -> bool {
        self.0.iter().any(|(known, _)| *known == operation)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next(&self, random: &mut Random) -> Operation {
        let mut rest = random.fraction();
        for (operation, share) in &self.0 {
            if rest < *share {
                return *operation;
            }
            rest -= share;
        }
        // Because of rounding, the probabilities may add up to slightly less than 1. The last operation gets the rest.
        self.0[self.0.len() - 1].0
    }
}

/// The validated YCSB workloads. The outer index is the arm (variant of the experiment), the inner one the workload.
/// None for workloads that are not YCSB, and for arms whose service has no table of records.
pub type Resolved = Vec<Vec<Option<(Core, Shared)>>>;

/// The location of a table: the servers' addresses, the database, and the name of the table or collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TablePlace<'a> {
    pub addresses: &'a [String],
    pub database: &'a str,
    pub table: &'a str,
}

/// Validate the workloads and create the state that their workers share. Call this once for all workers, because
/// preparing a Zipfian distribution (its constant zeta) takes long for a large table.
///
/// `arms` contains the table of each arm (variant of the experiment). Arms with the same table share one sequence of
/// new records. This host inserts only records whose numbers belong to `share`.
/// Errors: class `plan` if a setting is invalid.
pub fn resolve<'a>(
    workloads: &[crate::Settings],
    share: Share,
    arms: impl Iterator<Item = Option<TablePlace<'a>>>,
) -> base::error::Result<Resolved> {
    let most_workers = workloads.iter().filter(|workload| workload.kind == Kind::Ycsb).map(|workload| workload.workers);
    // Divide the new records in the same way for all workloads, so that two hosts never insert the same record.
    let numbers = share.divided_into(most_workers.max().unwrap_or(1) as u64).unwrap_or_default();
    let cores = workloads.iter().map(core).collect::<base::error::Result<Vec<_>>>()?;
    let mut sequences: HashMap<TablePlace<'_>, Arc<Sequence>> = HashMap::new();
    let resolve_arm = |place: Option<TablePlace<'a>>| {
        let sequence =
            place.map(|place| sequences.entry(place).or_insert_with(|| Arc::new(Sequence::new(numbers))).clone());
        let shared = |(core, workload): (&Option<Core>, &crate::Settings)| {
            let position = SequentialPosition::new(share.for_workload(workload).unwrap_or_default());
            Some((core.clone()?, Shared { sequence: sequence.clone()?, position: Arc::new(position) }))
        };
        cores.iter().zip(workloads).map(shared).collect()
    };
    Ok(arms.map(resolve_arm).collect())
}

fn core(workload: &crate::Settings) -> base::error::Result<Option<Core>> {
    if workload.kind != Kind::Ycsb {
        return Ok(None);
    }
    let core = Core::new(&workload.ycsb.clone().unwrap_or_default());
    core.map(Some).map_err(|reason| invalid_command(&format!("workload '{}': {reason}", workload.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POPULAR: [(&str, f64); 5] = [
        ("user1216410116386979545", 8.93),
        ("user8286453822882270944", 2.52),
        ("user764837236214422120", 1.94),
        ("user7712851511483378091", 1.42),
        ("user6866854930298366413", 1.20),
    ];

    fn core(settings: serde_json::Value) -> Result<Core, String> {
        Core::new(&serde_json::from_value(settings).unwrap())
    }

    #[test]
    fn default_settings_equal_the_defaults_of_ycsb() {
        let core = core(json!({"record_count": 1000})).unwrap();
        assert!(core.mix.has(Operation::Read) && core.mix.has(Operation::Update));
        assert!(!core.mix.has(Operation::Insert) && !core.mix.has(Operation::Scan));
        assert!(matches!(&core.requests, Requests::Uniform(records) if *records == (0..1000)));
        assert_eq!(core.begins_at, 1000);
        let mut random = Random::new(1);
        assert_eq!(core.read_fields(&mut random), Fields::All);
        assert_eq!(core.inserted(&mut random).fields(), 0..10);
        assert_eq!(core.updated(&mut random).fields().len(), 1);
    }

    #[test]
    fn load_phase_begins_at_the_configured_record_number() {
        let core = core(json!({"phase": "load", "insert_start": 500, "record_count": 1000})).unwrap();
        assert_eq!(core.begins_at, 500);
        assert!(core.mix.has(Operation::Insert) && !core.mix.has(Operation::Read));
        assert!(core.shape().inserts && !core.shape().reads);
    }

    #[test]
    fn fields_have_the_configured_distribution_of_lengths() {
        let lengths = |distribution: &str| {
            let settings = json!({"record_count": 10, "field_length": 300, "min_field_length": 200,
                "field_length_distribution": distribution});
            core(settings).unwrap().field_lengths
        };
        assert!(matches!(lengths("constant"), Lengths::Constant(300)));
        assert!(matches!(lengths("uniform"), Lengths::Uniform { minimum: 200, maximum: 300 }));
        assert!(matches!(lengths("zipfian"), Lengths::Zipfian { minimum: 200, .. }));
    }

    /// The expected values are the five most popular records of YCSB 0.17.0 and the percentage of requests for each,
    /// from three runs of
    /// `site.ycsb.Client -t -db site.ycsb.BasicDB -p recordcount=1000 -p operationcount=200000 -p readproportion=0.95
    /// -p updateproportion=0 -p insertproportion=0.05 -p requestdistribution=zipfian -p basicdb.verbose=true`.
    #[test]
    fn zipfian_requests_read_the_same_popular_records_as_ycsb() {
        let settings = json!({"record_count": 1000, "operation_count": 200_000, "insert_proportion": 0.05,
            "read_proportion": 0.95, "update_proportion": 0, "request_distribution": "zipfian"});
        let mut core = core(settings).unwrap();
        let (position, mut random) = (SequentialPosition::default(), Random::new(3));
        let (mut readable, mut counts) = (1000, HashMap::<u64, f64>::new());
        for operation in 1..=200_000 {
            if operation % 20 == 0 {
                readable += 1;
            } else {
                *counts.entry(core.requests.next(readable, &position, &mut random)).or_default() += 100.0 / 190_000.0;
            }
        }
        let mut popular: Vec<_> = counts.into_iter().collect();
        popular.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        for ((record, share), (key, expected)) in popular.into_iter().zip(POPULAR) {
            assert_eq!(String::from_utf8_lossy(core.keys.key(record).as_bytes()), key);
            assert!((share - expected).abs() < 0.05 * expected, "{key}: {share}");
        }
    }

    #[test]
    fn invalid_settings_are_rejected_with_a_message_of_one_line() {
        for (settings, word) in [
            (json!({}), "record_count"),
            (json!({"record_count": 10, "insert_start": 5, "insert_count": 6}), "insert_start"),
            (json!({"record_count": 10, "insert_start": 10}), "insert_start"),
            (json!({"record_count": 10, "insert_count": 0}), "insert_count"),
            (json!({"record_count": 1_u64 << 60}), "2^53"),
            (json!({"record_count": 10, "read_proportion": 0, "update_proportion": 0}), "proportions"),
            (json!({"record_count": 10, "read_proportion": -0.5}), "proportion"),
            (json!({"record_count": 10, "field_length": 0}), "field_length"),
            (json!({"record_count": 10, "field_count": 0}), "field_count"),
            (json!({"record_count": 10, "field_count": 1_000_000}), "16 MB"),
            (
                json!({"record_count": 10, "min_field_length": 101, "field_length_distribution": "uniform"}),
                "min_field_length",
            ),
            (json!({"record_count": 10, "min_scan_length": 0}), "min_scan_length"),
            (json!({"record_count": 10, "min_scan_length": 2000}), "max_scan_length"),
            (json!({"record_count": 10, "zero_padding": 252}), "zero_padding"),
            (json!({"record_count": 10, "key_prefix": "a\0"}), "key_prefix"),
            (
                json!({"record_count": 10, "request_distribution": "exponential", "exponential_percentile": 100}),
                "percentile",
            ),
            (json!({"record_count": 10, "request_distribution": "hotspot", "hotspot_data_fraction": 1.5}), "hotspot"),
            (json!({"record_count": 3, "request_distribution": "hotspot"}), "no record"),
        ] {
            let refused = core(settings.clone()).err().unwrap_or_default();
            assert!(refused.contains(word) && !refused.contains('\n'), "{settings}: {refused}");
        }
        assert!(serde_json::from_value::<Settings>(json!({"insert_order": "random"})).is_err());
        assert!(serde_json::from_value::<Settings>(json!({"recordcount": 5})).is_err());
    }

    #[test]
    fn each_kind_of_operation_is_drawn_as_often_as_its_weight_says() {
        let mix = Mix::new([(Operation::Read, 1.9), (Operation::Insert, 0.1), (Operation::Scan, 0.0)]);
        assert!(mix.has(Operation::Insert) && !mix.has(Operation::Scan) && !mix.has(Operation::Update));
        let mut random = Random::new(6);
        let drawn: Vec<_> = (0..100_000).map(|_| mix.next(&mut random)).collect();
        let inserts = drawn.iter().filter(|operation| **operation == Operation::Insert).count();
        // 5,000 inserts are expected, with a standard deviation of 69.
        assert!((4655..5345).contains(&inserts), "{inserts}");
        assert!(drawn.iter().all(|operation| matches!(operation, Operation::Read | Operation::Insert)));
        assert!(Mix::new([(Operation::Read, 0.0)]).is_empty());
    }
}
