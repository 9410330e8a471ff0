"""oha: requests a second, and latency, from its JSON report.

Tested with oha 0.5.4 and 1.16.0 (https://github.com/hatoo/oha, schema.json). Times are in seconds. oha's `successRate`
counts every answer, whatever its status.

A request counts as failed if it got no answer, or a status of 400 or above.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, number, rate

_TAIL = "latencyPercentiles"
FIGURES = {
    "requests_per_second": rate("requests a second", ("summary", "requestsPerSec"), headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=("summary", "average"), printed_unit="s"),
    "p50_ms": Figure("median of the latency", "ms", at=(_TAIL, "p50"), printed_unit="s"),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=(_TAIL, "p95"), printed_unit="s"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=(_TAIL, "p99"), printed_unit="s"),
    "max_ms": Figure("longest latency", "ms", at=("summary", "slowest"), printed_unit="s"),
    "connect_ms": Figure("resolving and connecting", "ms", at=("details", "DNSDialup", "average"), printed_unit="s"),
    "failed_percent": Figure("requests without an answer, or with a status of 400 and above", "percent"),
}
#: oha's error for requests that were unfinished when the duration (-z) was over. Such requests do not count as failed.
_AT_THE_END = "aborted due to deadline"


def _report(document: dict[str, object], figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if there is no rate, or if no request was answered."""
    if "requests_per_second" not in figures:
        raise UnreadableError("there is no 'requestsPerSec' in its 'summary'")
    if "latency_ms" not in figures:
        raise UnreadableError("no request was answered")
    statuses, errors = _counts(document, "statusCodeDistribution"), _counts(document, "errorDistribution")
    unanswered = sum(count for error, count in errors.items() if error != _AT_THE_END)
    refused = sum(count for status, count in statuses.items() if (number(status) or 0) >= 400)
    return Report.build(figures, (unanswered + sum(statuses.values())) or None, unanswered + refused)


def _counts(document: dict[str, object], name: str) -> dict[str, float]:
    counts = document.get(name)
    return {each: abs(number(count) or 0.0) for each, count in counts.items()} if isinstance(counts, dict) else {}


READER = Reader("oha", FIGURES, _report, "--no-tui --output-format json (older versions: --json)", keys=("summary",))
