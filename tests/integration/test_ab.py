"""`costof ab` against a test server: its counts agree with the server's and with ApacheBench's."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.results.ab_figures import AbFigures
from tests.support.command import Outcome, costof
from tests.support.programs import eventually

pytestmark = pytest.mark.servers
WAIT_MS = 20
REQUESTS, AT_ONCE = 60, 5
COUNTED = ("Document Length", "Complete requests", "Non-2xx responses", "Total transferred", "HTML transferred")


class Served(BaseHTTPRequestHandler):
    """A handler of HTTP requests that waits and then responds; connections stay open, and unknown paths get 404."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
        time.sleep(WAIT_MS / 1e3)  # a known service time, which the report must show
        match = self.path.startswith("/?")
        body = b"OK" if match else b"not here"
        if self.path == "/growing":
            body *= len(self.server.requests)  # type: ignore[attr-defined]
        self.send_response(200 if match else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "served/1"

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Thu, 01 Jan 1970 00:00:00 GMT"

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.requests: list[tuple[str, dict[str, str]]] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect during a handshake because they reject the certificate."""


@dataclass
class Site:
    http: str
    requests: list[tuple[str, dict[str, str]]]
    https: str
    ca_file: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    authority = Authority(folder)
    file = authority.issue("server", "rsa-2048", ["localhost", "127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    plain, tls = Server(("127.0.0.1", 0), Served), Server(("127.0.0.1", 0), Served)
    tls.socket = context.wrap_socket(tls.socket, server_side=True, do_handshake_on_connect=False)
    threads = [threading.Thread(target=server.serve_forever) for server in (plain, tls)]
    for thread in threads:
        thread.start()
    yield Site(
        f"http://127.0.0.1:{plain.server_address[1]}",
        plain.requests,
        f"https://localhost:{tls.server_address[1]}",
        authority.ca_file,
    )
    for server in (plain, tls):
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


def ab(*arguments: str) -> Outcome:
    return costof("ab", *arguments, cwd=Path.cwd())


def figure(report: str, label: str) -> str:
    match = re.search(rf"^{re.escape(label)}: +(.*)$", report, re.MULTILINE)
    return match[1] if match else "0"


def total_mean_ms(report: str) -> float:
    match = re.search(r"^Total: +\d+ +(\d+)", report, re.MULTILINE)
    assert match is not None
    return float(match[1])


@pytest.mark.parametrize(("path", "kept"), [("/?wait=20", True), ("/elsewhere", False)])
def test_costof_ab_counts_the_requests_that_the_server_answered(site: Site, path: str, kept: bool) -> None:
    result = ab("-n", str(REQUESTS), "-c", str(AT_ONCE), *(["-k"] if kept else []), site.http + path)
    assert (result.status, result.err) == (0, "")
    assert figure(result.out, "Server Software") == "served/1"
    assert figure(result.out, "Complete requests") == str(REQUESTS)
    assert figure(result.out, "Failed requests") == "0"
    assert figure(result.out, "Non-2xx responses") == ("0" if path.startswith("/?") else str(REQUESTS))
    assert figure(result.out, "Keep-Alive requests") == (str(REQUESTS) if kept else "0")
    assert figure(result.out, "HTML transferred") == f"{(2 if path.startswith('/?') else 8) * REQUESTS} bytes"
    assert total_mean_ms(result.out) >= WAIT_MS


def test_options_of_apachebench_are_accepted(site: Site) -> None:
    site.requests.clear()
    options = ["-l", "-r", "-q", "-s", "60", "-A", "me:S3cret", "-C", "a=1", "-C", "b=2", "-n", "3"]
    result = ab(*options, f"{site.http}/größe?q=ö")
    assert (result.status, result.err) == (0, "")
    assert {path for path, _ in site.requests} == {"/gr%C3%B6%C3%9Fe?q=%C3%B6"}
    assert all(sent["Authorization"] == "Basic bWU6UzNjcmV0" for _, sent in site.requests)
    assert all(sent["Cookie"] == "a=1; b=2" for _, sent in site.requests)
    assert figure(result.out, "Document Path") == "/gr%C3%B6%C3%9Fe?q=%C3%B6"
    assert figure(result.out, "Document Length") == "Variable"
    assert "S3cret" not in result.out + result.err


def test_responses_of_different_length_count_as_failed_without_option_l(site: Site) -> None:
    growing = f"{site.http}/growing"
    assert figure(ab("-n", "4", growing).out, "Failed requests") == "4"
    as_json = AbFigures.model_validate_json(ab("-n", "4", "-l", growing, "--json").out)
    assert (as_json.complete, sum(as_json.failed.values())) == (4, 0)


def test_options_without_effect_are_reported(site: Site) -> None:
    result = ab("-v", "4", "-T", "text/plain", f"{site.http}/?wait=20")
    assert result.status == 0
    assert [line.split()[1] for line in result.error_lines] == ["-v", "-T"]


@pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed")
def test_report_of_costof_ab_has_the_layout_and_counts_of_apachebench(site: Site) -> None:
    arguments = ["-n", str(REQUESTS), "-c", str(AT_ONCE), f"{site.http}/?wait=20"]
    theirs = subprocess.run(["ab", "-q", *arguments], capture_output=True, text=True, check=True).stdout
    ours = ab(*arguments).out
    # ab sends HTTP/1.0 requests, `costof ab` HTTP/1.1. The counts agree, as the server's responses are the same.
    assert {label: figure(ours, label) for label in COUNTED} == {label: figure(theirs, label) for label in COUNTED}
    # The server waits WAIT_MS before it responds, so neither report may show a shorter time.
    assert total_mean_ms(ours) >= WAIT_MS
    assert total_mean_ms(theirs) >= WAIT_MS
    assert layout(ours) == layout(theirs[theirs.index("Server Software") :])


def layout(report: str) -> list[list[str]]:
    """Return the words of each line of the report, without numbers and without ab's note on a skewed distribution."""
    warning = ("WARNING: The median and mean", "ERROR: The median and mean", "These results are")
    lines = [line for line in report.split("\n") if not line.strip().startswith(warning)]
    return [re.sub(r"[\d.]+", "#", line).split() for line in lines]


def test_certificates_are_verified_by_default(site: Site) -> None:
    url = f"{site.https}/?wait=20"
    refused = ab(url)
    assert refused.status == 1
    assert "tls_certificate_untrusted" in refused.err
    assert len(refused.err.strip().splitlines()) == 1
    trusted = ab("--tls-ca", str(site.ca_file), "-n", "3", url)
    assert (trusted.status, trusted.err) == (0, "")
    assert figure(trusted.out, "SSL/TLS Protocol").startswith("TLSv1.3,")
    bare = ab("--insecure", "-n", "3", url)
    assert bare.status == 0
    assert "no certificate was verified with localhost" in bare.err


def test_unreachable_url_is_reported_in_one_line() -> None:
    for url, message in (("http://127.0.0.1:1/", "refused"), ("http://no.such.host.invalid/", "resolve")):
        result = ab(url)
        assert (result.status, result.out) == (1, "")
        assert message in result.err
        assert len(result.err.strip().splitlines()) == 1


def test_option_t_ends_the_run_after_the_given_time(site: Site) -> None:
    def requests_were_served() -> bool:
        result = ab("-t", "1", "-c", "2", "-k", f"{site.http}/?wait=20")
        served = int(figure(result.out, "Complete requests"))
        assert served < 50_000
        # If the machine pauses, the time may end before the first response or while requests are in flight. Then
        # `eventually` repeats the run.
        return result.status == 0 and served > 0

    eventually("requests within the time", requests_were_served)
