"""oha: requests a second, and latency, of its JSON.

oha 0.5.4 and 1.16.0 were run (https://github.com/hatoo/oha, schema.json): times are in seconds. Its `successRate` is of
requests that had an answer, whatever its status.

Failed are requests without an answer, and statuses of 400 and above.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, number, rate

_TAIL = "latencyPercentiles"
FIGURES = {
    "requests_per_second": rate("requests a second", ("summary", "requestsPerSec"), headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=("summary", "average"), given="s"),
    "p50_ms": Figure("median of the latency", "ms", at=(_TAIL, "p50"), given="s"),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=(_TAIL, "p95"), given="s"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=(_TAIL, "p99"), given="s"),
    "max_ms": Figure("longest latency", "ms", at=("summary", "slowest"), given="s"),
    "connect_ms": Figure("resolving and connecting", "ms", at=("details", "DNSDialup", "average"), given="s"),
    "failed_percent": Figure("requests without an answer, or with a status of 400 and above", "percent"),
}
#: The class of requests that were under way when the time of -z was over: no failures of the service.
_AT_THE_END = "aborted due to deadline"


def _report(document: dict[str, object], figures: dict[str, float]) -> Report:
    """Raises `UnreadableError` without a rate, and if no request was answered."""
    if "requests_per_second" not in figures:
        raise UnreadableError("there is no 'requestsPerSec' in its 'summary'")
    if "latency_ms" not in figures:
        raise UnreadableError("no request was answered")
    statuses, errors = _counts(document, "statusCodeDistribution"), _counts(document, "errorDistribution")
    lost = sum(count for error, count in errors.items() if error != _AT_THE_END)
    refused = sum(count for status, count in statuses.items() if (number(status) or 0) >= 400)
    return Report.build(figures, (lost + sum(statuses.values())) or None, lost + refused)


def _counts(document: dict[str, object], name: str) -> dict[str, float]:
    counts = document.get(name)
    return {each: abs(number(count) or 0.0) for each, count in counts.items()} if isinstance(counts, dict) else {}


READER = Reader("oha", FIGURES, _report, "--no-tui --output-format json (older versions: --json)", keys=("summary",))
