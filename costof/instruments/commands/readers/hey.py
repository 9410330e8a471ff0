"""hey: requests a second, and latency, from its text summary.

Tested with hey 0.1.5. According to hey's source code (https://github.com/rakyll/hey, requester/print.go), 0.1.0 and
later print the same. Times are in seconds with four decimal places, so the resolution is 0.1 ms.

A request counts as failed if it got no answer, or a status of 400 or above. hey does not notice truncated answers.
"""

from __future__ import annotations

import re

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, rate

_S = rf"{NUMBER} sec(?P<unit>s)"
#: hey prints percentiles with two percent signs, such as '50%% in 0.0012 secs', hence `%+` below.
FIGURES = {
    "requests_per_second": rate("requests a second", rf"^ +Requests/sec:\s+{NUMBER}", headline=True),
    "latency_ms": Figure("latency of a request, to 0.1 ms", "ms", headline=True, at=rf"^ +Average:\s+{_S}"),
    "p50_ms": Figure("median of the latency", "ms", at=rf"^ +50%+ in {_S}"),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=rf"^ +95%+ in {_S}"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=rf"^ +99%+ in {_S}"),
    "max_ms": Figure("longest latency", "ms", at=rf"^ +Slowest:\s+{_S}"),
    "connect_ms": Figure("connect and TLS handshake, averaged over all requests", "ms", at=rf"^ +DNS\+dialup:\s+{_S}"),
    "failed_percent": Figure("requests without an answer, or with a status of 400 and above", "percent"),
}
_ANSWERS = re.compile(r"^ +\[(\d{3})\]\s+(\d{1,15}) responses", re.MULTILINE | re.ASCII)
_ERRORS = re.compile(r"^ +\[(\d{1,15})\]\s", re.MULTILINE | re.ASCII)


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no request was answered."""
    if "latency_ms" not in figures:
        raise UnreadableError("no request was answered")
    answers, _, errors = text.partition("Error distribution:")
    counts = [(int(status), int(count)) for status, count in _ANSWERS.findall(answers)]
    unanswered = sum(int(count) for count in _ERRORS.findall(errors))
    refused = sum(count for status, count in counts if status >= 400)
    operations = float(unanswered + sum(count for _, count in counts)) or None
    return Report.build(figures, operations, float(unanswered + refused))


READER = Reader("hey", FIGURES, _report, "no -o", begins=r"^Summary:", line="Requests/sec:")
