//! Times of phases (timed parts of an operation), as exact sums and as histograms. Each thread has one recorder, which
//! it uses for all slices (measured windows).

use super::Phase;
use super::timeline::{Span, Timeline, Traffic};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;
use std::collections::BTreeMap;

/// The maximum time in a histogram, above every operation timeout. A longer time is counted as this maximum in the
/// histogram, and exactly in the sum. `costof/statistics/histogram.py` has the same limit.
const LONGEST_NS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The times of all phases (timed parts of an operation) in a slice (a measured window).
#[derive(Default)]
pub struct Recorder {
    phases: [PhaseRecord; Phase::ALL.len()],
}

#[derive(Default)]
struct PhaseRecord {
    totals: Totals,
    /// The phase's histogram, allocated when the phase first occurs, because it takes a quarter of a megabyte.
    histogram: Option<Histogram<u64>>,
}

/// The exact count, sums, minimum and maximum of one phase (a timed part of an operation).
#[derive(Default)]
struct Totals {
    count: u64,
    sum_ns: u64,
    sum_squares_ns2: f64,
    min_ns: u64,
    max_ns: u64,
    traffic: Traffic,
}

/// The times of one phase (a timed part of an operation), as they are sent to Python.
#[derive(Debug, Serialize)]
pub struct PhaseAnswer {
    pub count: u64,
    pub sum_ns: u64,
    pub sum_squares_ns2: f64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub round_trips: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// A histogram of the times in nanoseconds with three significant digits: HdrHistogram V2, compressed, in base64.
    pub histogram: String,
}

impl Recorder {
    /// Record the phases of a successful operation. Also record totals of several phases, such as `connect`.
    pub fn record(&mut self, timeline: &Timeline) {
        let mut delay = Span::none(Phase::Request);
        let mut connect = Span::none(Phase::Connect);
        let mut processing = Span::none(Phase::Processing);
        let mut operation = Span::none(Phase::Operation);
        let (mut paced, mut connected, mut processed, mut steps) = (false, false, false, 0);
        for span in timeline.spans() {
            if span.phase != Phase::Operation {
                self.add(span);
            }
            match span.phase {
                // A timeline with the phase `Operation` has no other phase, except a delay before it.
                Phase::Operation => {
                    operation += *span;
                    steps = 1;
                }
                Phase::Tcp | Phase::Greeting | Phase::TlsRequest | Phase::Tls | Phase::Hello | Phase::Auth => {
                    connect += *span;
                    connected = true;
                }
                Phase::Waiting | Phase::Receiving => {
                    processing += *span;
                    processed = true;
                }
                Phase::Insert
                | Phase::Read
                | Phase::Update
                | Phase::Scan
                | Phase::NewOrder
                | Phase::Payment
                | Phase::OrderStatus
                | Phase::Delivery
                | Phase::StockLevel => {
                    operation += *span;
                    steps += 1;
                }
                Phase::Delay => {
                    delay += *span;
                    paced = true;
                }
                Phase::FirstOperation => {
                    let mut whole = Span { phase: Phase::ConnectAndFirstOperation, ..connect };
                    whole += *span;
                    self.add(&whole);
                }
                _ => {}
            }
        }
        if connected {
            self.add(&connect);
            if paced && !processed {
                let mut scheduled = Span { phase: Phase::ScheduledConnect, ..delay };
                scheduled += connect;
                self.add(&scheduled);
            }
        }
        if steps > 1 {
            // Only a read-modify-write consists of two steps: a read and an update.
            self.add(&Span { phase: Phase::ReadModifyWrite, ..operation });
        }
        if steps > 0 {
            let mut whole = Span { phase: Phase::Operation, ..delay };
            whole += operation;
            self.add(&whole);
        }
        if processed {
            self.add(&processing);
            let mut request = delay;
            request += connect;
            request += processing;
            self.add(&request);
        }
    }

    pub fn record_operation(&mut self, span: Span) {
        self.add(&Span { phase: Phase::Operation, ..span });
    }

    fn add(&mut self, span: &Span) {
        self.phases[span.phase as usize].add(span);
    }

    pub fn merge(&mut self, other: &Recorder) {
        for (ours, theirs) in self.phases.iter_mut().zip(&other.phases) {
            ours.merge(theirs);
        }
    }

    pub fn reset(&mut self) {
        self.phases.iter_mut().for_each(PhaseRecord::reset);
    }

    pub fn answer(&self) -> BTreeMap<&'static str, PhaseAnswer> {
        let records = Phase::ALL.iter().zip(&self.phases);
        records.filter_map(|(phase, record)| Some((phase.name(), record.answer()?))).collect()
    }
}

impl PhaseRecord {
    fn add(&mut self, span: &Span) {
        self.totals.merge(&Totals {
            count: 1,
            sum_ns: span.nanos,
            sum_squares_ns2: span.nanos as f64 * span.nanos as f64,
            min_ns: span.nanos,
            max_ns: span.nanos,
            traffic: span.traffic,
        });
        self.histogram.get_or_insert_with(new_histogram).saturating_record(span.nanos);
    }

    fn merge(&mut self, other: &PhaseRecord) {
        if let Some(theirs) = other.histogram.as_ref().filter(|_| other.totals.count > 0) {
            self.totals.merge(&other.totals);
            self.histogram.get_or_insert_with(new_histogram).add(theirs).expect("all histograms have the same bounds");
        }
    }

    fn reset(&mut self) {
        if self.totals.count > 0 {
            self.totals = Totals::default();
            self.histogram.iter_mut().for_each(Histogram::reset);
        }
    }

    fn answer(&self) -> Option<PhaseAnswer> {
        let histogram = self.histogram.as_ref().filter(|_| self.totals.count > 0)?;
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory does not fail");
        let Totals { count, sum_ns, sum_squares_ns2, min_ns, max_ns, traffic } = self.totals;
        Some(PhaseAnswer {
            count,
            sum_ns,
            sum_squares_ns2,
            min_ns,
            max_ns,
            round_trips: traffic.round_trips,
            bytes_sent: traffic.bytes_sent,
            bytes_received: traffic.bytes_received,
            histogram: base64::engine::general_purpose::STANDARD.encode(bytes),
        })
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).expect("the bounds are valid")
}

impl Totals {
    fn merge(&mut self, other: &Totals) {
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.sum_squares_ns2 += other.sum_squares_ns2;
        self.traffic += other.traffic;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::clock;

    fn timeline() -> Timeline {
        timeline_of(&[Phase::Resolve, Phase::Tcp, Phase::Tls, Phase::Hello, Phase::Auth, Phase::FirstOperation])
    }

    fn timeline_of(phases: &[Phase]) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.start(Traffic::default());
        for (round_trips, phase) in phases.iter().enumerate() {
            timeline.end_phase(*phase, Traffic { round_trips: round_trips as u64, ..Traffic::default() });
        }
        timeline
    }

    #[test]
    fn sum_of_phase_times_equals_the_connection_time_to_the_nanosecond() {
        let mut recorder = Recorder::default();
        (0..100).for_each(|_| recorder.record(&timeline()));
        let phases = recorder.answer();
        let sum = |names: &[&str]| names.iter().map(|name| phases[name].sum_ns).sum::<u64>();
        assert_eq!(phases["connect"].sum_ns, sum(&["tcp", "tls", "hello", "auth"]));
        assert_eq!(phases["connect_and_first_operation"].sum_ns, sum(&["connect", "first_operation"]));
        assert_eq!(phases["connect"].round_trips, 400);
        assert_eq!(phases["connect_and_first_operation"].round_trips, 500);
        assert!(!phases.contains_key("operation"));
    }

    #[test]
    fn connection_without_operation_has_only_connect_time() {
        let mut recorder = Recorder::default();
        recorder.record(&timeline_of(&[Phase::Tcp, Phase::Greeting, Phase::Auth]));
        let phases = recorder.answer();
        let sum: u64 = ["tcp", "greeting", "auth"].iter().map(|name| phases[*name].sum_ns).sum();
        assert_eq!(phases["connect"].sum_ns, sum);
        assert!(!phases.contains_key("connect_and_first_operation"));
    }

    #[test]
    fn request_time_is_the_sum_of_connecting_waiting_and_receiving() {
        let mut recorder = Recorder::default();
        recorder.record(&timeline_of(&[Phase::Waiting, Phase::Receiving]));
        assert!(!recorder.answer().contains_key("connect") && !recorder.answer().contains_key("delay"));
        let mut timeline = Timeline::default();
        timeline.schedule(clock::now());
        timeline.start(Traffic::default());
        for phase in [Phase::Tcp, Phase::Tls, Phase::Waiting, Phase::Receiving] {
            timeline.end_phase(phase, Traffic::default());
        }
        recorder.record(&timeline);
        let phases = recorder.answer();
        let sum = |names: &[&str]| names.iter().map(|name| phases[name].sum_ns).sum::<u64>();
        assert_eq!((phases["request"].count, phases["connect"].count), (2, 1));
        assert_eq!(phases["connect"].sum_ns, sum(&["tcp", "tls"]));
        assert_eq!(phases["processing"].sum_ns, sum(&["waiting", "receiving"]));
        assert_eq!(phases["request"].sum_ns, sum(&["delay", "connect", "processing"]));
        assert!(!phases.contains_key("connect_and_first_operation"));
    }

    #[test]
    fn connect_time_excludes_the_delay_after_the_scheduled_start() {
        let mut recorder = Recorder::default();
        let mut timeline = Timeline::default();
        timeline.schedule(clock::now() - 1_000_000_000);
        timeline.start(Traffic::default());
        timeline.end_phase(Phase::Tcp, Traffic::default());
        timeline.end_phase(Phase::FirstOperation, Traffic::default());
        recorder.record(&timeline);
        let phases = recorder.answer();
        assert!(phases["delay"].sum_ns >= 1_000_000_000);
        assert_eq!(phases["connect"].sum_ns, phases["tcp"].sum_ns);
        assert_eq!(phases["scheduled_connect"].sum_ns, phases["delay"].sum_ns + phases["connect"].sum_ns);
        let whole = phases["tcp"].sum_ns + phases["first_operation"].sum_ns;
        assert_eq!(phases["connect_and_first_operation"].sum_ns, whole);
        assert!(!phases.contains_key("request"));
    }

    #[test]
    fn operation_time_includes_the_delay_after_the_scheduled_start() {
        let mut recorder = Recorder::default();
        let mut timeline = Timeline::default();
        timeline.schedule(clock::now() - 1_000_000_000);
        timeline.start(Traffic::default());
        timeline.end_phase(Phase::Operation, Traffic::default());
        recorder.record(&timeline);
        let phases = recorder.answer();
        assert!(phases["operation"].sum_ns >= 1_000_000_000);
        assert_eq!((phases["operation"].count, phases["delay"].count), (1, 1));
        assert!(!phases.contains_key("read_modify_write"));
    }

    #[test]
    fn read_and_update_of_a_record_count_as_one_operation() {
        let mut recorder = Recorder::default();
        recorder.record(&timeline_of(&[Phase::Read, Phase::Update]));
        recorder.record(&timeline_of(&[Phase::Read]));
        recorder.record(&timeline_of(&[Phase::Insert]));
        let phases = recorder.answer();
        let counts = |names: [&str; 5]| names.map(|name| phases.get(name).map_or(0, |phase| phase.count));
        assert_eq!(counts(["read", "update", "insert", "read_modify_write", "operation"]), [2, 1, 1, 1, 3]);
        let sum: u64 = ["read", "update", "insert"].iter().map(|name| phases[*name].sum_ns).sum();
        assert_eq!(phases["operation"].sum_ns, sum);
        assert!(!phases.contains_key("scan") && !phases.contains_key("connect"));
    }

    #[test]
    fn each_transaction_counts_as_one_operation() {
        let mut recorder = Recorder::default();
        recorder.record(&timeline_of(&[Phase::NewOrder]));
        recorder.record(&timeline_of(&[Phase::Delivery]));
        let phases = recorder.answer();
        let sum = phases["new_order"].sum_ns + phases["delivery"].sum_ns;
        assert_eq!((phases["operation"].count, phases["operation"].sum_ns), (2, sum));
        assert!(!phases.contains_key("read_modify_write"));
    }

    #[test]
    fn recorders_can_be_merged_and_reset() {
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        one.record(&timeline());
        other.record(&timeline());
        let expected = one.answer()["tcp"].sum_ns + other.answer()["tcp"].sum_ns;
        let shortest = one.answer()["tcp"].min_ns.min(other.answer()["tcp"].min_ns);
        one.merge(&other);
        let merged = &one.answer()["tcp"];
        assert_eq!((merged.count, merged.sum_ns, merged.min_ns), (2, expected, shortest));
        one.reset();
        assert!(one.answer().is_empty());
        one.record(&timeline());
        assert_eq!(one.answer()["tcp"].count, 1);
    }

    #[test]
    fn sum_of_times_is_exact_even_above_the_histogram_maximum() {
        let mut record = PhaseRecord::default();
        record.add(&Span { phase: Phase::Operation, nanos: LONGEST_NS * 3, traffic: Traffic::default() });
        let answer = record.answer().unwrap();
        assert_eq!((answer.count, answer.sum_ns, answer.max_ns), (1, LONGEST_NS * 3, LONGEST_NS * 3));
        assert_eq!(record.histogram.unwrap().len(), 1);
    }
}
