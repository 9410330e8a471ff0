"""wrk and wrk2: requests a second, and latency as printed with `--latency`.

Tested with wrk 4.1.0 and wrk2 4.0.0. According to wrk's source code (https://github.com/wg/wrk, src/wrk.c), 2.0 to
4.2.0 print the same lines. wrk2 (https://github.com/giltene/wrk2) prints two distributions of latency. The reader uses
the first distribution, in which a latency counts from the time at which the request was due.

A request counts as failed if it got a status of 400 or above, a socket error, or a timeout. In wrk 4 a timeout is an
answer that came after --timeout. wrk2 and older versions of wrk instead check every two seconds which connections still
wait for an answer, and count each of them as a timeout.
"""

from __future__ import annotations

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, number_at, rate

_TIME = rf"{NUMBER}(?P<unit>us|ms|s|m|h)\b"
#: The label of a percentile is a whole number in wrk ('50%'), and has three decimal places in wrk2 ('50.000%').
FIGURES = {
    "requests_per_second": rate("requests a second", rf"^Requests/sec: +{NUMBER}", headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=rf"^ +Latency +{_TIME}"),
    "p50_ms": Figure("median of the latency", "ms", at=rf"^ *50(?:\.000)?% +{_TIME}"),
    "p90_ms": Figure("90th percentile of the latency", "ms", at=rf"^ *90(?:\.000)?% +{_TIME}"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=rf"^ *99(?:\.000)?% +{_TIME}"),
    "p999_ms": Figure("99.9th percentile of the latency", "ms", at=rf"^ *99\.900% +{_TIME}"),
    "max_ms": Figure("longest latency", "ms", at=rf"^ +Latency +\S+ +\S+ +{_TIME}"),
    "failed_percent": Figure("requests with a socket error, a timeout, or a status of 400 and above", "percent"),
    "socket_errors": Figure("socket errors and timeouts", "errors"),
}


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no request was answered."""
    answers = number_at(text, r"^ +(\d+) requests in ")
    if not figures.get("requests_per_second") or not answers:
        raise UnreadableError("no request was answered")
    # wrk omits its lines about bad statuses and about socket errors if there were none.
    refused = number_at(text, r"^ +Non-2xx or 3xx responses: (\d+)") or 0.0
    kinds = {kind: rf"^ +Socket errors: .*\b{kind} (\d+)" for kind in ("connect", "read", "write", "timeout")}
    errors = {kind: number_at(text, place) or 0.0 for kind, place in kinds.items()}
    figures["socket_errors"] = sum(errors.values())
    missing = {}
    if not figures.get("latency_ms"):
        figures = {name: value for name, value in figures.items() if not name.endswith("_ms")}
        late = errors["timeout"] >= answers
        missing["latency_ms"] = (
            "every answer came after wrk's timeout" if late else "wrk measured the latency of no answer"
        )
    # wrk counts an answer after its timeout twice: as an answer and as a timeout. Count it only once.
    operations = answers + figures["socket_errors"] - errors["timeout"]
    return Report.build(figures, operations, refused + figures["socket_errors"], missing)


READER = Reader(
    "wrk",
    FIGURES,
    _report,
    "--latency, for percentiles",
    begins=r"^Running \S+ test @ ",
    line="Requests/sec:",
)
