"""HAProxy as a sidecar in the lab."""

from __future__ import annotations

import re
from pathlib import Path

from costof.programs.haproxy import SHOW_FRONTENDS, find_haproxy, frontend_row, haproxy_version, tls_handshakes
from costof.programs.sidecars.proxy import (
    CONNECT_SECONDS,
    CONNECTIONS,
    IDLE_SECONDS,
    ConnectionRecord,
    MutualTls,
    Passage,
    PassageCounters,
    Sidecar,
)

#: Adding this entry to a list of patterns in HAProxy (`add acl`) switches the log on. Removing the entry switches it
#: off.
RECORDED = "recorded"
_LINE = re.compile(
    r"connection (?P<passage>\S+) client=(?P<client>\S*) server=(?P<server>\S*) (?P<inward>\S+) (?P<outward>\S+)$",
    re.MULTILINE,
)


class HaproxySidecar(Sidecar):
    """An HAProxy process with one frontend per port (`Passage`)."""

    name = "haproxy"
    shown = "HAProxy"

    @classmethod
    def find(cls) -> Path:
        return find_haproxy()

    def start(self) -> None:
        binary = self.find()
        self.version = haproxy_version(binary)
        self.folder.mkdir(mode=0o700)
        self._patterns.touch(mode=0o600)
        file = self._write_configuration("haproxy.cfg")
        self._spawn([str(binary), "-db", "-f", str(file)])

    def configuration(self) -> str:
        return "\n".join([*self._general(), *(line for each in self._passages for line in self._passage(each)), ""])

    def counters(self, passage: str) -> PassageCounters:
        row = frontend_row(self._ask(SHOW_FRONTENDS), passage)
        return PassageCounters(int(row["conn_tot"]), int(row["req_tot"] or 0), tls_handshakes(row))

    def record(self, on: bool) -> None:
        command = "add" if on else "del"
        self._ask(f"{command} acl {self._patterns} {RECORDED}\n".encode())

    def records(self, passage: str) -> list[ConnectionRecord]:
        log = self._process.log.read_text(errors="replace") if self._process else ""
        found = (match for match in _LINE.finditer(log) if match["passage"] == passage)
        return [
            ConnectionRecord(
                match["client"].strip("-"),
                match["server"].strip("-"),
                next((side.replace("/", " ") for side in (match["inward"], match["outward"]) if "TLS" in side), ""),
            )
            for match in found
        ]

    @classmethod
    def facts(cls) -> str:
        return f"1 thread, maxconn {CONNECTIONS:,}, idle timeouts {IDLE_SECONDS} s, http-reuse always, no log; TLS 1.3"

    @property
    def _patterns(self) -> Path:
        return self.folder / "recorded"

    def _general(self) -> list[str]:
        return [
            "global",
            f"    maxconn {CONNECTIONS}",
            "    nbthread 1",
            # Without this line HAProxy would not start if maxconn needs more file descriptors than the process may
            # have.
            "    no strict-limits",
            f"    stats socket {self._socket} mode 600 level admin",
            "    tune.ssl.lifetime 3600",
            "    ssl-default-bind-options ssl-min-ver TLSv1.3",
            "    ssl-default-server-options ssl-min-ver TLSv1.3",
            "defaults",
            "    log stdout format raw daemon",
            f"    timeout connect {CONNECT_SECONDS}s",
            *(f"    timeout {what} {IDLE_SECONDS}s" for what in ("client", "server", "tunnel", "http-request")),
            f"    timeout http-keep-alive {IDLE_SECONDS}s",
            "    http-reuse always",
        ]

    def _passage(self, passage: Passage) -> list[str]:
        mode = "http" if passage.http else "tcp"
        rule = "http-request" if passage.http else "tcp-request content"
        inward = f" {_inward(passage.inward)}" if passage.inward else ""
        outward = f" {_outward(passage.outward)}" if passage.outward else ""
        client = "%[ssl_c_s_dn(CN)]" if passage.inward else "-"
        server = "%[ssl_s_s_dn(CN)]" if passage.outward else "-"
        sides = "%[ssl_fc_protocol]/%[ssl_fc_cipher] %[ssl_bc_protocol]/%[ssl_bc_cipher]"
        return [
            f"frontend {passage.name}",
            f"    mode {mode}",
            f"    bind {passage.listen}{inward}",
            f'    log-format "connection {passage.name} client={client} server={server} {sides}"',
            # HAProxy logs a connection or request only while its list of patterns contains `RECORDED`.
            f"    {rule} set-log-level silent unless {{ str({RECORDED}) -m str -f {self._patterns} }}",
            # Accept only the certificate of the expected client. The same authority has signed other certificates too.
            *(
                [f"    {rule} {_reject(passage)} unless {{ ssl_c_s_dn(CN) -m str {passage.inward.peer} }}"]
                if passage.inward
                else []
            ),
            f"    default_backend to-{passage.name}",
            f"backend to-{passage.name}",
            f"    mode {mode}",
            f"    server next {passage.forward_to}{outward} pool-purge-delay {IDLE_SECONDS}s",
        ]


def _reject(passage: Passage) -> str:
    return "deny" if passage.http else "reject"


def _inward(tls: MutualTls) -> str:
    tickets = "" if tls.resumption else " no-tls-tickets"
    return f"ssl crt {tls.certificate} ca-file {tls.ca_file} verify required{tickets}"


def _outward(tls: MutualTls) -> str:
    reuse = "" if tls.resumption else " no-ssl-reuse"
    verified = f"verify required ca-file {tls.ca_file} verifyhost {tls.peer} sni str({tls.peer})"
    return f"ssl crt {tls.certificate} {verified}{reuse}"
