"""nghttp2's h2load: requests a second, their latency, and the time to connect.

Tested with h2load 1.52.0. A request counts as failed if it got a status of 400 or above, was reset, or timed out.
"""

from __future__ import annotations

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, number_at, rate

_TIME = rf"{NUMBER}(?P<unit>us|ms|s)\b"
#: h2load's lines about times have five columns: min, max, mean, standard deviation, and the percentage of values that
#: are within one standard deviation of the mean.
_MEAN, _MAX = rf": +\S+ +\S+ +{_TIME}", rf": +\S+ +{_TIME}"
FIGURES = {
    "requests_per_second": rate("requests a second", rf"^finished in \S+, {NUMBER} req/s", headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=rf"^time for request{_MEAN}"),
    "max_ms": Figure("longest latency", "ms", at=rf"^time for request{_MAX}"),
    "connect_ms": Figure("a new connection", "ms", at=rf"^time for connect{_MEAN}"),
    "first_byte_ms": Figure("from a new connection to its first byte", "ms", at=rf"^time to 1st byte{_MEAN}"),
    "failed_percent": Figure("requests that failed or got a status of 400 and above", "percent"),
}


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no request was answered."""
    succeeded, failed = (number_at(text, rf"^requests: .* (\d+) {count}\b") for count in ("succeeded", "failed"))
    if succeeded is None or failed is None:
        raise UnreadableError("there is no line 'requests: …'")
    if failed >= 2**63:
        # h2load computes failures as requests minus answers. With a duration it may count more answers than requests,
        # and then prints the negative difference as a huge unsigned number.
        failed = 0.0
    if not figures.get("requests_per_second") or not succeeded + failed:
        raise UnreadableError("no request was answered")
    # Leave out times of 0, with which h2load means that it measured nothing, for example no new connection.
    figures = {name: value for name, value in figures.items() if value or not name.endswith("_ms")}
    return Report.build(figures, succeeded + failed, failed)


READER = Reader(
    "h2load",
    FIGURES,
    _report,
    "-n",
    begins=r"^starting benchmark",
    line="finished in",
)
