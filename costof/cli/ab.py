"""`costof ab`: measure one URL with the options of ApacheBench (`ab`), and print a report in its layout."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click
from pydantic import SecretStr

from costof.errors import EXIT_ANSWERED, EXIT_PARTIAL, CostofError, ErrorText, WarningText
from costof.messages.answers import ClassifiedError
from costof.messages.plan import PLAIN, Arm, Plan, Transport, Workload
from costof.messages.process import engine
from costof.programs.access import check_ca_file
from costof.programs.http import HttpSettings
from costof.results.ab_figures import PERCENTILES, AbFigures, ab_figures, without_lengths
from costof.urls import UrlError, ascii_name, check_without_login, encoded, host_shown

ARM = "url"
WORKLOAD = "request"
PORTS = {"http": 80, "https": 443}
#: ab's default number of requests (-n) if the user gives a time (-t).
REQUESTS_WITHIN_TIME = 50_000
#: ab's default timeout of a response.
TIMEOUT_SECONDS = 30
LONGEST_TIMEOUT_SECONDS = 86_400
MOST_CONCURRENT = 20_000
#: Warnings for options of ab that have no effect in costof.
WITHOUT_EFFECT = {
    "-v": "-v is ignored: requests and responses are never printed, and errors always are",
    "-T": "-T is ignored: requests have no body without -p, as in ab",
}
#: The time limit if -t is not given. It is so long that the measurement always ends after its number of requests.
NO_LIMIT_SECONDS = 7 * 86_400.0


@dataclass(frozen=True)
class AbOptions:
    """The options of `costof ab`, most of them named as in ab.

    `verify` and `tls_ca` exist only in costof, because ab verifies no certificate. `without_effect` has a warning for
    each option of ab that the user gave and that has no effect in costof.
    """

    url: str
    requests: int | None = None
    concurrency: int = 1
    keep_alive: bool = False
    seconds: int | None = None
    headers: Sequence[str] = field(default=(), repr=False)
    cookies: Sequence[str] = field(default=(), repr=False)
    login: str | None = field(default=None, repr=False)
    timeout_seconds: int = TIMEOUT_SECONDS
    variable_length: bool = False
    verify: bool = True
    tls_ca: Path | None = None
    without_effect: Sequence[str] = ()

    @property
    def operations(self) -> int:
        """Return the number of requests: the value of -n, or else ab's default, which is higher if the user gave -t."""
        if self.requests is not None:
            return self.requests
        return 1 if self.seconds is None else REQUESTS_WITHIN_TIME

    @property
    def all_headers(self) -> list[str]:
        """Return the headers that -H, -A and -C add to each request."""
        headers = [*self.headers]
        if self.login is not None:
            headers.append(f"Authorization: Basic {b64encode(self.login.encode()).decode()}")
        if self.cookies:
            # All cookies are sent in one header (RFC 6265, 5.4).
            headers.append(f"Cookie: {'; '.join(self.cookies)}")
        return headers


@dataclass(frozen=True)
class AbReport:
    figures: AbFigures
    text: str
    warnings: list[str]
    exit_status: int


def measure_url(options: AbOptions) -> AbReport:
    """Measure the URL, and report as ab does. Raises `CostofError` for invalid options and for an unreachable URL."""
    url = _checked(options)
    with engine() as instrument:
        ready = instrument.plan(_plan(options, url))
        refused = next((arm.error for arm in ready.arms if arm.error is not None), None)
        if refused is not None:
            raise _unanswered(options, refused)
        seconds = options.seconds or NO_LIMIT_SECONDS
        answer = instrument.slice(1, ARM, WORKLOAD, options.operations, seconds)
    figures = ab_figures(ARM, WORKLOAD, options.concurrency, [answer])
    if figures is None:
        raise _unanswered(options, *answer.errors[:1])
    # ab counts a response as failed if its length differs from the length of the first response. The report shows such
    # responses as failed, but they do not change costof's exit status.
    failed = any(count for name, count in figures.failed.items() if name != "length")
    if options.variable_length:
        figures = without_lengths(figures)
    is_tls, tls = url.scheme == "https", None
    if is_tls:
        tls = ",".join(str(fact) for name in ("protocol", "cipher", "key") if (fact := answer.evidence.get(name)))
    request = AbRequest(
        host=url.hostname or "",
        port=url.port or PORTS[url.scheme],
        path=_path(url),
        keep_alive=options.keep_alive,
        variable_length=options.variable_length,
        software=answer.evidence.get("software"),
        tls=tls,
        server_name=url.hostname if is_tls else None,
    )
    unverified = is_tls and not options.verify
    return AbReport(
        figures=figures,
        text=render_ab(request, figures),
        warnings=[
            *([WarningText.NOT_VERIFIED.text(arms=url.hostname, how="--insecure")] if unverified else []),
            *options.without_effect,
            *(f"{error.count:,} × {error.error_class}; the first: {error.detail}" for error in answer.errors),
        ],
        exit_status=EXIT_PARTIAL if failed else EXIT_ANSWERED,
    )


def _checked(options: AbOptions) -> SplitResult:
    """Check the options, and return the parts of the URL. Raises `CostofError` for invalid options."""
    if options.operations < options.concurrency:
        raise CostofError(ErrorText.AB_CONCURRENCY)
    for header in options.all_headers:
        name, colon, _ = header.partition(":")
        if not colon or not name.strip() or any(sign in header for sign in "\r\n"):
            raise CostofError(ErrorText.AB_HEADER, text=name if colon and name.strip() else "the text of -H")
    check_ca_file(options.tls_ca)
    return _split(options.url)


def _split(text: str) -> SplitResult:
    """Return the URL's parts in ASCII: the host in IDNA, path and query percent-encoded."""
    try:
        check_without_login(text)
        url = urlsplit(text)
        host, _ = ascii_name(url.hostname or ""), url.port
    except UrlError as error:
        hint = "; to log in, use -A user:password" if "@" in text else ""
        raise CostofError(ErrorText.AB_URL, detail=f"{error}{hint}") from None
    except ValueError:
        raise CostofError(
            ErrorText.AB_URL, detail="the text after // is not host:port, with an IPv6 address in brackets"
        ) from None
    if url.scheme not in PORTS or not host:
        raise CostofError(ErrorText.AB_URL, detail="it must begin with http:// or https:// and name a host")
    place = host_shown(host, url.port or PORTS[url.scheme])
    return url._replace(netloc=place, path=encoded(url.path), query=encoded(url.query))


def _host(url: SplitResult) -> str:
    """Return the host, with brackets around an IPv6 address."""
    host = url.hostname or ""
    return f"[{host}]" if ":" in host else host


def _path(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _plan(options: AbOptions, url: SplitResult) -> Plan:
    headers, hosts = [], []
    for header in options.all_headers:
        name, _, value = header.partition(":")
        if name.strip().lower() == "host":
            hosts.append(value.strip())
        else:
            headers.append(SecretStr(header.strip()))
    port, transport = url.port or PORTS[url.scheme], PLAIN
    if url.scheme == "https":
        ca_file = options.tls_ca and options.tls_ca.absolute()
        transport = Transport(kind="tls", ca_file=ca_file, verify="full" if options.verify else "none")
    service = HttpSettings(
        addresses=[f"{_host(url)}:{port}"],
        host=hosts[-1] if hosts else _host(url) if port == PORTS[url.scheme] else f"{_host(url)}:{port}",
        path=_path(url),
        headers=headers,
        requests_per_connection=None if options.keep_alive else 1,
        any_status=True,
    )
    return Plan(
        operation_timeout_ms=options.timeout_seconds * 1000,
        arms=[Arm(name=ARM, service=service, transport=transport)],
        workloads=[Workload(name=WORKLOAD, kind="request", workers=options.concurrency)],
    )


def _unanswered(options: AbOptions, error: ClassifiedError | None = None) -> CostofError:
    detail = f"{error.error_class}: {error.detail}" if error else "no request was answered within the time limit"
    parts = urlsplit(options.url)
    url = f"{parts.scheme}://{_host(parts)}:{parts.port or PORTS[parts.scheme]}{parts.path or '/'}"
    return CostofError(ErrorText.AB_UNANSWERED, url=url, detail=detail)


@click.command("ab")
@click.argument("url")
@click.option(
    "-n", "requests", type=click.IntRange(1, 1_000_000_000), help="Number of requests; 1 by default, 50000 with -t."
)
@click.option(
    "-c", "concurrency", type=click.IntRange(1, MOST_CONCURRENT), default=1, help="Number of simultaneous requests."
)
@click.option("-k", "keep_alive", is_flag=True, help="Keep connections alive; by default each request opens a new one.")
@click.option(
    "-t", "seconds", type=click.IntRange(1, 604_800), help="Maximum measuring time in seconds; implies -n 50000."
)
@click.option(
    "-s",
    "timeout",
    type=click.IntRange(1, LONGEST_TIMEOUT_SECONDS),
    help="Timeout of a request in seconds; 30 by default.",
)
@click.option("-l", "variable_length", is_flag=True, help="Do not count responses of different length as failed.")
@click.option("-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="An additional header; may be repeated.")
@click.option("-C", "cookies", multiple=True, metavar="NAME=VALUE", help="A cookie; may be repeated.")
@click.option("-A", "login", metavar="USER:PASSWORD", help="Log in with HTTP Basic authentication.")
@click.option(
    "-r",
    "continue_on_errors",
    is_flag=True,
    help="Accepted without effect: costof always continues after socket errors.",
)
@click.option("-q", "quiet", is_flag=True, help="Accepted without effect: costof never prints progress here.")
@click.option("-v", "verbosity", type=int, help="Accepted without effect: requests and responses are never printed.")
@click.option("-p", "post_file", hidden=True)
@click.option("-T", "content_type", hidden=True)
@click.option("--insecure", is_flag=True, help="Do not verify the server's certificate (ab never verifies it).")
@click.option("--tls-ca", type=click.Path(path_type=Path), help="CA file (PEM) to verify the server's certificate.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of ab's report.")
def ab(
    timeout: int | None,
    continue_on_errors: bool,
    quiet: bool,
    verbosity: int | None,
    post_file: str | None,
    content_type: str | None,
    insecure: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure one URL with the options and the report of Apache's ab: HTTP/1.1 GET requests in a closed loop.

    Do not put an important password after -A, -C or -H on a machine with other users: they can read the command line
    for a moment.
    """
    if post_file is not None:
        raise CostofError(ErrorText.AB_POST)
    without_effect = {"-v": verbosity is not None, "-T": content_type is not None}
    report = measure_url(
        AbOptions(
            timeout_seconds=timeout or TIMEOUT_SECONDS,
            verify=not insecure,
            without_effect=[WITHOUT_EFFECT[name] for name, is_set in without_effect.items() if is_set],
            **options,
        )
    )
    for warning in report.warnings:
        click.echo(f"costof: {warning}", err=True)
    click.echo(report.figures.model_dump_json(indent=2) + "\n" if as_json else report.text, nl=False)
    sys.exit(report.exit_status)


LABEL_WIDTH = 24


@dataclass(frozen=True)
class AbRequest:
    host: str
    port: int
    path: str
    keep_alive: bool
    software: str | None
    tls: str | None
    variable_length: bool = False
    server_name: str | None = None


def render_ab(request: AbRequest, figures: AbFigures) -> str:
    """Return the report in ab's layout: times in whole milliseconds, standard deviations (`sd`) with one decimal."""
    server = [
        _line("Server Software", request.software or ""),
        _line("Server Hostname", request.host),
        _line("Server Port", str(request.port)),
    ]
    if request.tls is not None:
        server.append(_line("SSL/TLS Protocol", request.tls))
    if request.server_name is not None:
        server.append(_line("TLS Server Name", request.server_name))
    length = "Variable" if request.variable_length else f"{figures.document_bytes or 0} bytes"
    document = [_line("Document Path", request.path), _line("Document Length", length)]
    times = ["Connection Times (ms)", "              min  mean[+/-sd] median   max"]
    for name, each in figures.times.items():
        row = f"{each.min:5.0f} {each.mean:4.0f} {each.sd:5.1f} {each.median:6.0f} {each.max:7.0f}"
        times.append(f"{name.capitalize() + ':':<12}{row}")
    blocks = [server, document, [*_totals(request, figures)], times]
    if figures.complete > 1:
        percentiles = ["Percentage of the requests served within a certain time (ms)"]
        for percent in PERCENTILES:
            longest = " (longest request)" if percent == 100 else ""
            percentiles.append(f" {percent:>3}%  {figures.percentiles[str(percent)]:5.0f}{longest}")
        blocks.append(percentiles)
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _line(label: str, text: str) -> str:
    return f"{label + ':':<{LABEL_WIDTH}}{text}"


def _totals(request: AbRequest, figures: AbFigures) -> Iterator[str]:
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
    if request.keep_alive:
        yield _line("Keep-Alive requests", str(figures.keep_alive))
    yield _line("Total transferred", f"{figures.transferred_bytes} bytes")
    yield _line("HTML transferred", f"{figures.html_bytes} bytes")
    yield _line("Requests per second", f"{figures.requests_per_second:.2f} [#/sec] (mean)")
    yield _line("Time per request", f"{figures.ms_per_request:.3f} [ms] (mean)")
    across = f"{figures.ms_across_all:.3f} [ms] (mean, across all concurrent requests)"
    yield _line("Time per request", across)
    yield _line("Transfer rate", f"{figures.kbytes_per_second:.2f} [Kbytes/sec] received")
