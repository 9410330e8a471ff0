"""Comparison of the engine with load generators for HTTP: wrk, ab, h2load and oha.

All are measured alternately, over 50 connections to one nginx process on loopback that answers `OK`. The table shows
medians. With TLS each request has a new connection with a full TLS 1.3 handshake and the same cipher suite.
Certificates are not verified, because wrk, ab and h2load cannot verify them. All programs have one thread, except oha,
which has one for each core. A program's CPU time is that of its whole process.

Builds of the engine with other TLS libraries are compared too, if `make tls-libraries` has made them. These builds are
measured with their default key exchange groups, and with X25519 only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benches import oha
from benches.table import OURS, Usage, alternate, print_table
from costof.errors import CostofError
from costof.lab.certificates import Authority
from costof.lab.program import find_program
from costof.messages.plan import PLAIN, Arm, Plan, Transport, Workload
from costof.messages.process import Instrument, engine, process_cpu_seconds
from costof.programs.http import HttpSettings

TURNS = 5
SECONDS = 2
CONNECTIONS = 50
# Limit h2load by a number of requests. With a time limit it never ends if it opens new connections.
REQUESTS_OF_H2LOAD = {"plain": 100_000, "tls": 3_000}
CLOSE = "Connection: close"
SETTINGS = {"plain": f"keep-alive, {CONNECTIONS}", "tls": "new TLS connections", "x25519": "only X25519"}
LIBRARIES = ("openssl-3.5", "aws-lc")

Count = tuple[int, float]
"""The number of successful requests, and the duration of the measurement in seconds."""


@dataclass(frozen=True)
class Nginx:
    pid: int
    urls: dict[str, str]

    def address(self, arm: str) -> str:
        return self.urls.get(arm, self.urls["tls"]).split("//")[1].rstrip("/")


@dataclass(frozen=True)
class Peer:
    """A load generator: functions that return the command line for an arm and a URL, and that read the output."""

    name: str
    argv: Callable[[str, str], list[str]]
    read: Callable[[str], Count]

    def measure(self, nginx: Nginx, arm: str) -> Usage:
        server = process_cpu_seconds(nginx.pid)
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(self.argv(arm, nginx.urls[arm]), stdout=output, stderr=output)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        if child.returncode:
            sys.exit(f"{self.name} ended with status {child.returncode}: {text.strip()[-300:]}")
        requests, seconds = self.read(text)
        used = process_cpu_seconds(nginx.pid) - server
        return Usage.from_totals(requests, seconds, usage.ru_utime + usage.ru_stime, used)


def main() -> None:
    """Measure all programs and print the table. A missing program is skipped with a note."""
    try:
        program = find_program("nginx", "nginx-light")
    except CostofError as error:
        sys.stdout.write(f"HTTP: skipped ({error})\n")
        return
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        nginx = stack.enter_context(_nginx(program, Path(folder)))
        engines, peers, measured = _engines(nginx, stack), _peers(), []
        for arm, conditions in SETTINGS.items():
            # Measure only one engine without TLS, since the engines differ only in their TLS libraries.
            compared = {OURS: engines[OURS]} if arm == "plain" else engines
            clients = {name: partial(_engine, nginx, wire, arm) for name, wire in compared.items()}
            clients |= {peer.name: partial(peer.measure, nginx, arm) for peer in peers if arm in nginx.urls}
            measured.append(alternate(conditions, clients, TURNS))
    print_table("nginx: requests over open and over new connections", measured)


def _engines(nginx: Nginx, stack: contextlib.ExitStack) -> dict[str, Instrument]:
    """Start the installed engine, and the engines built with other TLS libraries. Return them by their names."""
    engines = {}
    for library in ("", *LIBRARIES):
        try:
            wire = stack.enter_context(engine(library=library))
        except CostofError as error:
            sys.stdout.write(f"HTTP: skipped ({error})\n")
            continue
        ready = wire.plan(_plan(nginx))
        assert all(arm.error is None for arm in ready.arms), ready
        engines[f"{OURS}, {ready.tls_library}" if library else OURS] = wire
    return engines


def _peers() -> list[Peer]:
    peers = []
    for peer in (Peer("wrk", _wrk, _read_wrk), Peer("ab", _ab, _read_ab), Peer("h2load", _h2load, _read_h2load)):
        if shutil.which(peer.name) is None:
            sys.stdout.write(f"HTTP: {peer.name} skipped (not installed)\n")
        else:
            peers.append(peer)
    if (built := oha.program()) is None:
        sys.stdout.write("HTTP: oha skipped (not installed)\n")
    else:
        peers.append(Peer("oha", lambda arm, url: _oha(built, arm, url), _read_oha))
    return peers


def _engine(nginx: Nginx, wire: Instrument, arm: str) -> Usage:
    server = process_cpu_seconds(nginx.pid)
    answer = wire.slice(1, arm, "request", 100_000_000, SECONDS)
    used = process_cpu_seconds(nginx.pid) - server
    return Usage.from_slice(answer, used)


def _plan(nginx: Nginx) -> Plan:
    def arm(name: str, transport: Transport, requests_per_connection: int | None = None) -> Arm:
        each = requests_per_connection
        service = HttpSettings(addresses=[nginx.address(name)], path="/", requests_per_connection=each)
        return Arm(name=name, service=service, transport=transport)

    tls = Transport(kind="tls", verify="none")
    return Plan(
        arms=[
            arm("plain", PLAIN),
            arm("tls", tls, requests_per_connection=1),
            arm("x25519", tls.model_copy(update={"group": "x25519"}), requests_per_connection=1),
        ],
        workloads=[Workload(name="request", kind="request", workers=CONNECTIONS)],
    )


@contextlib.contextmanager
def _nginx(program: Path, folder: Path) -> Iterator[Nginx]:
    ports = _free_ports(2)
    identity = Authority(folder).issue("nginx", "ecdsa-p256", ["127.0.0.1"])
    (folder / "nginx.conf").write_text(_configuration(identity, *ports))
    argv = [str(program), "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        for port in ports:
            _wait_for(port, process)
        urls = {"plain": f"http://127.0.0.1:{ports[0]}/", "tls": f"https://127.0.0.1:{ports[1]}/"}
        yield Nginx(process.pid, urls)
    finally:
        process.terminate()
        process.wait()


def _configuration(identity: Path, plain_port: int, tls_port: int) -> str:
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return f"""
daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    {" ".join(f"{name}_temp_path {name};" for name in folders)}
    keepalive_requests 1000000000;
    ssl_certificate {identity};
    ssl_certificate_key {identity};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    ssl_session_cache off;
    ssl_session_tickets off;
    server {{
        listen 127.0.0.1:{plain_port} backlog=4096;
        listen 127.0.0.1:{tls_port} ssl backlog=4096;
        location / {{ return 200 "OK"; }}
    }}
}}
"""


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            sys.exit(f"nginx ended with status {process.returncode}")
        time.sleep(0.01)


def _wrk(arm: str, url: str) -> list[str]:
    return ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}", *(["-H", CLOSE] if arm == "tls" else []), url]


def _read_wrk(text: str) -> Count:
    assert "Non-2xx" not in text, text
    found = _find(r"(\d+) requests in ([\d.]+)(s|m)", text)
    return int(found[1]), float(found[2]) * {"s": 1, "m": 60}[found[3]]


def _ab(arm: str, url: str) -> list[str]:
    # Put -t before -n, since -t also sets -n.
    limits = ["-t", str(SECONDS), "-n", "1000000", "-c", str(CONNECTIONS)]
    return ["ab", "-q", *limits, *([] if arm == "tls" else ["-k"]), url]


def _read_ab(text: str) -> Count:
    assert _find(r"Failed requests:\s+(\d+)", text)[1] == "0", text
    seconds = float(_find(r"Time taken for tests:\s+([\d.]+)", text)[1])
    return int(_find(r"Complete requests:\s+(\d+)", text)[1]), seconds


def _h2load(arm: str, url: str) -> list[str]:
    limits = [f"-n{REQUESTS_OF_H2LOAD[arm]}", f"-c{CONNECTIONS}", "-t1"]
    return ["h2load", "--h1", *limits, *(["-H", CLOSE] if arm == "tls" else []), url]


def _read_h2load(text: str) -> Count:
    seconds, unit = _find(r"finished in ([\d.]+)(ms|s)", text).groups()
    requests = int(_find(r"(\d+) succeeded, 0 failed", text)[1])
    return requests, float(seconds) / {"s": 1, "ms": 1000}[unit]


def _oha(program: Path, arm: str, url: str) -> list[str]:
    new = ["--disable-keepalive", "--insecure"] if arm == "tls" else []
    output = ["--no-tui", "--output-format", "json"]
    return [str(program), "-c", str(CONNECTIONS), "-z", f"{SECONDS}s", *output, *new, url]


def _read_oha(text: str) -> Count:
    output = json.loads(text)
    return output["statusCodeDistribution"]["200"], output["summary"]["total"]


def _find(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    assert found, text
    return found
