//! Servers that do not answer in time when an arm is proved.

use base::error::{Class, Failure};
use record::{Phase, Timeline};

/// The same failure; a time-out says how long was waited, and after which step.
pub fn after_last_step(failure: Failure, timeline: &Timeline, timeout_ns: u64) -> Failure {
    if failure.class != Class::Timeout {
        return failure;
    }
    let seconds = timeout_ns as f64 / 1e9;
    let step = match timeline.spans().last().map(|span| span.phase) {
        None | Some(Phase::Delay | Phase::Resolve) => {
            return Failure::new(Class::Timeout, format!("no TCP connection within {seconds} s"));
        }
        Some(Phase::Tcp) => "the TCP handshake",
        Some(Phase::Greeting) => "its greeting",
        Some(Phase::TlsRequest) => "its yes to TLS",
        Some(Phase::Tls) => "the TLS handshake",
        Some(Phase::Hello) => "its hello",
        Some(_) => "the log-in",
    };
    Failure::new(Class::Timeout, format!("no answer within {seconds} s after {step}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Traffic;

    fn detail(phases: &[Phase]) -> String {
        let mut timeline = Timeline::default();
        timeline.start(Traffic::default());
        for phase in phases {
            timeline.end_phase(*phase, Traffic::default());
        }
        after_last_step(Failure::new(Class::Timeout, "late"), &timeline, 1_500_000_000).detail
    }

    #[test]
    fn a_time_out_names_the_last_step_and_the_limit() {
        assert_eq!(detail(&[]), "no TCP connection within 1.5 s");
        assert_eq!(detail(&[Phase::Resolve]), "no TCP connection within 1.5 s");
        assert_eq!(detail(&[Phase::Tcp]), "no answer within 1.5 s after the TCP handshake");
        assert_eq!(detail(&[Phase::Tcp, Phase::Greeting]), "no answer within 1.5 s after its greeting");
        assert_eq!(detail(&[Phase::Tcp, Phase::Tls]), "no answer within 1.5 s after the TLS handshake");
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let refused = Failure::new(Class::Refused, "nothing listens there");
        assert_eq!(after_last_step(refused.clone(), &Timeline::default(), 1), refused);
    }
}
