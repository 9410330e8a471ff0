"""k6: requests and iterations a second, and their times, from its JSON summary.

Tested with k6 0.52.0, 1.8.1 and 2.2.0. According to k6's source code (https://github.com/grafana/k6), 0.31 and later
write the same formats. Times are in ms. The reader understands three formats: the file of --summary-export, the `data`
of `handleSummary`, and --new-machine-readable-summary.

A request counts as failed if its answer was unexpected: by default, a status below 200 or above 399. In the first two
formats the field `passes` of the metric http_req_failed is the number of failed requests. A script without HTTP has no
count of failures.
"""

from __future__ import annotations

from costof.instruments.commands.readers import (
    Figure,
    Reader,
    Report,
    UnreadableError,
    figures_at,
    number_at,
    objects_at,
    rate,
)

_DURATION = "http_req_duration"
#: Maps the names of percentiles in --new-machine-readable-summary to their names in k6's other two JSON formats.
_PERCENTILES = {"p90": "p(90)", "p95": "p(95)", "p99": "p(99)"}
FIGURES = {
    "requests_per_second": rate("HTTP requests a second", ("http_reqs", "rate"), headline=True),
    "latency_ms": Figure("latency of an HTTP request, without connecting", "ms", headline=True, at=(_DURATION, "avg")),
    "p50_ms": Figure("median of the latency", "ms", at=(_DURATION, "med")),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=(_DURATION, "p(95)")),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=(_DURATION, "p(99)")),
    "max_ms": Figure("longest latency", "ms", at=(_DURATION, "max")),
    "connect_ms": Figure("TCP connect, averaged over all requests", "ms", at=("http_req_connecting", "avg")),
    "tls_ms": Figure("TLS handshake, averaged over all requests", "ms", at=("http_req_tls_handshaking", "avg")),
    "iterations_per_second": rate("iterations of the script a second", ("iterations", "rate")),
    "iteration_ms": Figure("an iteration of the script, including pauses", "ms", at=("iteration_duration", "avg")),
    "failed_percent": Figure("failed HTTP requests", "percent"),
    "failed_checks_percent": Figure("failed checks of the script", "percent"),
}


def _report(document: dict[str, object], _: dict[str, float]) -> Report:
    """Return the report; for a script without HTTP, only the figures of its iterations.

    Raises `UnreadableError` if no iteration ended, or if there were HTTP requests and none was answered.
    """
    metrics = _metrics(document)
    figures = figures_at(metrics, FIGURES)
    if "iterations_per_second" not in figures:
        raise UnreadableError("there is no metric 'iterations'")
    # k6 records an unanswered request as 0 ms. If all times are 0, no request was answered.
    times = [number_at(metrics, (_DURATION, key)) for key in ("avg", "med", "min", "max", "p(90)", "p(95)", "p(99)")]
    if 0.0 in times and not any(times):
        raise UnreadableError("no request was answered")
    passed, not_passed = (number_at(metrics, ("checks", key)) or 0.0 for key in ("passes", "fails"))
    if passed + not_passed:
        figures["failed_checks_percent"] = 100 * not_passed / (passed + not_passed)
    if not figures.get("requests_per_second"):
        return Report.build(figures, number_at(metrics, ("iterations", "count")))
    failed, succeeded = (number_at(metrics, ("http_req_failed", key)) for key in ("passes", "fails"))
    missing = {"latency_ms": "the summary has no avg; add it to --summary-trend-stats"}
    if failed is None or succeeded is None:
        return Report.build(figures, number_at(metrics, ("http_reqs", "count")), missing=missing)
    return Report.build(figures, failed + succeeded, failed, missing)


def _metrics(document: dict[str, object]) -> dict[str, object]:
    """Return the values of each metric, by name, in the form of --summary-export, whatever the document's format."""
    listed = document.get("metrics")
    named = listed.items() if isinstance(listed, dict) else ()
    metrics = {name: each.get("values", each) for name, each in named if isinstance(each, dict)}
    seconds = number_at(document, ("config", "duration"))
    for each in objects_at(document, "results", "metrics") + objects_at(document, "results", "checks", "metrics"):
        listed = each.get("values")
        values = {_PERCENTILES.get(k, k): v for k, v in listed.items()} if isinstance(listed, dict) else {}
        count, matches, total = (number_at(values, (key,)) for key in ("count", "matches", "total"))
        if count is not None and seconds:
            values["rate"] = count / seconds
        if matches is not None and total is not None:
            values |= {"passes": matches, "fails": total - matches}
        metrics["checks" if each.get("name") == "checks_succeeded" else str(each.get("name"))] = values
    return metrics


READER = Reader(
    "k6",
    FIGURES,
    _report,
    'run --summary-export {output}, and for the 99th percentile --summary-trend-stats "avg,med,max,p(95),p(99)"',
    keys=("metrics", "results"),
    statuses={99: "thresholds of its script were crossed"},
)
