"""ab's own report of one URL, in its layout, so that eyes and scripts that know it find everything in its place.

Times are whole milliseconds as ab prints them; `sd` has one decimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costof.results.ab_figures import PERCENTILES, AbFigures, AbTimes

LABEL = 24
"""Width of ab's column of labels."""


@dataclass(frozen=True)
class Asked:
    """What was asked for, and what the server says of itself; `tls` is None for http."""

    host: str
    port: int
    path: str
    keep_alive: bool
    software: str | None
    tls: str | None
    variable_length: bool = False
    server_name: str | None = None


def render_ab(asked: Asked, figures: AbFigures) -> str:
    """The whole report, ending with a newline."""
    blocks = [_server(asked), _document(asked, figures), _totals(asked, figures), _times(figures)]
    if figures.complete > 1:
        blocks.append(_percentiles(figures))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _line(label: str, text: str) -> str:
    return f"{label + ':':<{LABEL}}{text}"


def _server(asked: Asked) -> Iterator[str]:
    yield _line("Server Software", asked.software or "")
    yield _line("Server Hostname", asked.host)
    yield _line("Server Port", str(asked.port))
    if asked.tls is not None:
        yield _line("SSL/TLS Protocol", asked.tls)
    if asked.server_name is not None:
        yield _line("TLS Server Name", asked.server_name)


def _document(asked: Asked, figures: AbFigures) -> Iterator[str]:
    yield _line("Document Path", asked.path)
    yield _line("Document Length", "Variable" if asked.variable_length else f"{figures.document_bytes or 0} bytes")


def _totals(asked: Asked, figures: AbFigures) -> Iterator[str]:
    yield _line("Concurrency Level", str(figures.concurrency))
    yield _line("Time taken for tests", f"{figures.seconds:.3f} seconds")
    yield _line("Complete requests", str(figures.complete))
    failed = sum(figures.failed.values())
    yield _line("Failed requests", str(failed))
    if failed:
        kinds = ", ".join(f"{name.capitalize()}: {count}" for name, count in figures.failed.items())
        yield f"   ({kinds})"
    if figures.not_2xx:
        yield _line("Non-2xx responses", str(figures.not_2xx))
    if asked.keep_alive:
        yield _line("Keep-Alive requests", str(figures.keep_alive))
    yield _line("Total transferred", f"{figures.transferred_bytes} bytes")
    yield _line("HTML transferred", f"{figures.html_bytes} bytes")
    yield _line("Requests per second", f"{figures.requests_per_second:.2f} [#/sec] (mean)")
    yield _line("Time per request", f"{figures.ms_per_request:.3f} [ms] (mean)")
    across = f"{figures.ms_across_all:.3f} [ms] (mean, across all concurrent requests)"
    yield _line("Time per request", across)
    yield _line("Transfer rate", f"{figures.kbytes_per_second:.2f} [Kbytes/sec] received")


def _times(figures: AbFigures) -> Iterator[str]:
    yield "Connection Times (ms)"
    yield "              min  mean[+/-sd] median   max"
    for name, times in figures.times.items():
        yield f"{name.capitalize() + ':':<12}{_row(times)}"


def _row(times: AbTimes) -> str:
    return f"{times.min:5.0f} {times.mean:4.0f} {times.sd:5.1f} {times.median:6.0f} {times.max:7.0f}"


def _percentiles(figures: AbFigures) -> Iterator[str]:
    yield "Percentage of the requests served within a certain time (ms)"
    for percent in PERCENTILES:
        longest = " (longest request)" if percent == 100 else ""
        yield f" {percent:>3}%  {figures.percentiles[str(percent)]:5.0f}{longest}"
