"""ab (ApacheBench): requests a second, and latency.

Tested with ab 2.3 of Apache httpd 2.4. According to the source code, all versions since httpd 2.0 print the same lines
(support/ab.c). The mean latency has three decimal places. Connect times and percentiles are printed in whole ms.

A request counts as failed if it could not connect, lost its connection, or got a status other than 2xx. Without -l it
also counts as failed if its answer differs in length from the first answer: the answer may be truncated, or the page's
length may vary, and ab does not say which. With -l, the length of answers does not matter.
"""

from __future__ import annotations

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, number_at, rate

FIGURES = {
    "requests_per_second": rate("requests a second", rf"^Requests per second: +{NUMBER} ", headline=True),
    # ab prints two lines with this beginning. The second one, "across all concurrent requests", is only the inverse of
    # the rate.
    "latency_ms": Figure(
        "latency of a request", "ms", headline=True, at=rf"^Time per request: +{NUMBER} .ms. \(mean\)"
    ),
    "p50_ms": Figure("median of the latency, in whole ms", "ms", at=rf"^ +50% +{NUMBER}"),
    "p95_ms": Figure("95th percentile of the latency, in whole ms", "ms", at=rf"^ +95% +{NUMBER}"),
    "p99_ms": Figure("99th percentile of the latency, in whole ms", "ms", at=rf"^ +99% +{NUMBER}"),
    "max_ms": Figure("longest latency, in whole ms", "ms", at=rf"^ +100% +{NUMBER} \(longest"),
    "connect_ms": Figure("connecting, including TLS, in whole ms", "ms", at=rf"^Connect: +\d+ +{NUMBER}"),
    "failed_percent": Figure("failed requests, including answers whose length differs from the first", "percent"),
    "non_2xx_percent": Figure("answers with a status other than 2xx", "percent"),
}


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no request was completed."""
    complete = number_at(text, r"^Complete requests: +(\d+)")
    if not complete:
        raise UnreadableError("no request was completed")
    # ab prints no line for a kind of error with the count 0.
    connect, receive, length, exceptions = (
        number_at(text, rf"^ +\(.*\b{kind}: (\d+)") or 0.0 for kind in ("Connect", "Receive", "Length", "Exceptions")
    )
    written, refused = (number_at(text, rf"^{kind}: +(\d+)") or 0.0 for kind in ("Write errors", "Non-2xx responses"))
    figures["non_2xx_percent"] = min(100.0, 100 * refused / complete)
    # A truncated answer, or one with an error status, usually differs in length and then occurs in two counts. Use the
    # larger count, so that the answer counts only once.
    failed = connect + exceptions + max(length, receive + written + refused)
    counted = number_at(text, r"^Failed requests: +(\d+)")
    return Report.build(figures, complete + connect, None if counted is None else failed)


READER = Reader(
    "ab",
    FIGURES,
    _report,
    "no option, or with -l if the page's length varies, which ab counts as a failure",
    begins=r"^Server Software:",
    line="Requests per second:",
)
