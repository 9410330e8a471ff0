"""nginx as a balancer in the lab."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import FFDHE2048
from costof.lab.debian import Packages
from costof.lab.program import UNPACKED, VERSION_SECONDS, Counters, find_program, first_words, located
from costof.programs.balancer import (
    CONNECT_SECONDS,
    DESCRIPTORS,
    EVIDENCE_PATH,
    IDLE,
    IDLE_TO_ORIGIN,
    ORIGIN_NAME,
    REQUESTS_PER_CONNECTION,
    SUITES,
    Balancer,
    Entrance,
)

PACKAGE = "nginx"
MODULE = "ngx_stream_module.so"
MODULE_PACKAGE = "libnginx-mod-stream"
#: nginx's temporary folders, which it would otherwise create outside the lab's folder.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_ACCEPTED = re.compile(r"server accepts handled requests\s+(\d+) ")


def find_nginx() -> Path:
    return find_program("nginx", PACKAGE)


def nginx_version(binary: Path) -> str:
    return first_words([str(binary), "-v"], "nginx", PACKAGE).rpartition("/")[2]


def find_stream_module(binary: Path) -> Path | None:
    """Return the path of nginx's module for TCP forwarding, or None if it is built in. Raises `PROGRAM_MISSING`."""
    built = _build_options(binary)
    if re.search(r"--with-stream(?=\s|$)", built):
        return None
    for candidate in [*modules_folder(binary), binary.parent, UNPACKED]:
        if (candidate / MODULE).is_file():
            return candidate / MODULE
    raise CostofError(
        ErrorText.PROGRAM_MISSING,
        program=MODULE,
        detail=f"{binary} has it neither built in nor in its folder",
        package=MODULE_PACKAGE,
        variable="COSTOF_NGINX",
    )


def modules_folder(binary: Path) -> list[Path]:
    """Return the folder in which this nginx looks for its modules; [] if it has none."""
    folder = re.search(r"--modules-path=(\S+)", _build_options(binary))
    return [Path(folder[1])] if folder else []


def _build_options(binary: Path) -> str:
    return subprocess.run(
        [str(binary), "-V"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
    ).stderr


def _whole_nginx() -> Path:
    """Return nginx's path. Raises `PROGRAM_MISSING` if nginx or its stream module is missing."""
    binary = find_nginx()
    find_stream_module(binary)
    return binary


NEEDED = {"nginx": located(_whole_nginx, nginx_version)}
FETCHABLE = [Packages("nginx", [PACKAGE, MODULE_PACKAGE], ["usr/sbin/nginx"], [f"usr/lib/nginx/modules/{MODULE}"])]


class Nginx(Balancer):
    """An nginx process. nginx counts the connections of all its ports together, and counts no TLS handshakes."""

    name = "nginx"
    _modules: Sequence[Path] = ()

    def start(self) -> None:
        self._folder.mkdir(mode=0o700)
        binary = self._find()
        self.version = nginx_version(binary)
        (self._folder / "dhparam.pem").write_text(FFDHE2048)
        file = self._folder / "nginx.conf"
        file.write_text(self.configuration())
        self._spawn([str(binary), "-p", str(self._folder), "-e", "stderr", "-c", str(file)])

    def _find(self) -> Path:
        """Return nginx's path, and set the modules to load. Raises `PROGRAM_MISSING`."""
        binary = find_nginx()
        module = find_stream_module(binary)
        self._modules = [module] if module else []
        return binary

    def configuration(self) -> str:
        http = [each for each in self._entrances if not each.passes_through]
        stream = [each for each in self._entrances if each.passes_through]
        return "\n".join(
            [
                *(f"load_module {module};" for module in self._modules),
                "daemon off;",
                # nginx runs as one process, which ends with the lab. A worker process could outlive its master.
                "master_process off;",
                f"pid {self._folder / 'nginx.pid'};",
                "error_log stderr warn;",
                f"events {{ worker_connections {DESCRIPTORS}; }}",
                "http {",
                *(f"    {line}" for line in self._general()),
                *(f"    {line}" for each in http for line in self._entrance(each)),
                "}",
                *(self._stream(stream) if stream else []),
                "",
            ]
        )

    def counters(self, entrance: str) -> Counters:
        """Return the connections of all ports together: `accepts` of stub_status without the lab's status requests."""
        try:
            status = self._query(b"GET / HTTP/1.0\r\n\r\n")
        except OSError:
            return Counters()
        match = _ACCEPTED.search(status)
        if match is None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"unexpected status of nginx: '{status[-100:]}'")
        return Counters(int(match[1]) - self._queries, None)

    def facts(self) -> dict[str, str]:
        return {
            "nginx": f"1 process, worker_connections {DESCRIPTORS:,}, idle timeouts {IDLE}, "
            f"keepalive_requests {REQUESTS_PER_CONNECTION:,}, up to {IDLE_TO_ORIGIN:,} idle connections to the origin, "
            "no log; TLS 1.0 to 1.3, all cipher suites of its OpenSSL, DH parameters of 2048 bits, session cache and "
            "tickets"
        }

    def _listen_options(self, entrance: Entrance) -> str:
        # nginx's default backlog of 511 is too short for many clients that connect at once.
        return f"{self.address}:{entrance.port} backlog=4096"

    def _stream(self, entrances: Sequence[Entrance]) -> list[str]:
        return [
            "stream {",
            f"    proxy_connect_timeout {CONNECT_SECONDS}s;",
            f"    proxy_timeout {IDLE};",
            *(f"    server {{ listen {self._listen_options(each)}; proxy_pass {each.origin}; }}" for each in entrances),
            "}",
        ]

    def _general(self) -> list[str]:
        return [
            "access_log off;",
            *(f"{name}_temp_path {self._folder / name};" for name in TEMPORARY),
            f"keepalive_timeout {IDLE};",
            f"keepalive_requests {REQUESTS_PER_CONNECTION};",
            f"client_header_timeout {IDLE};",
            "proxy_http_version 1.1;",
            'proxy_set_header Connection "";',
            "proxy_set_header Host $http_host;",
            f"proxy_connect_timeout {CONNECT_SECONDS}s;",
            f"proxy_read_timeout {IDLE};",
            "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;",
            f"ssl_ciphers {SUITES};",
            f"ssl_dhparam {self._folder / 'dhparam.pem'};",
            "ssl_session_cache shared:tls:10m;",
            f"ssl_session_timeout {IDLE};",
            f"proxy_ssl_trusted_certificate {self._ca_file};",
            "proxy_ssl_verify on;",
            f"proxy_ssl_name {ORIGIN_NAME};",
            "proxy_ssl_server_name on;",
            f"server {{ listen unix:{self._socket}; location / {{ stub_status; }} }}",
        ]

    def _server_options(self) -> list[str]:
        """Return further directives, which apply to each port for clients."""
        return []

    def _entrance(self, entrance: Entrance) -> list[str]:
        tls = ""
        if entrance.certificate:
            tls = f"ssl_certificate {entrance.certificate}; ssl_certificate_key {entrance.certificate};"
        scheme = "https" if entrance.reencrypts else "http"
        return [
            f"upstream to-{entrance.name} {{",
            f"    server {entrance.origin};",
            f"    keepalive {IDLE_TO_ORIGIN};",
            f"    keepalive_requests {REQUESTS_PER_CONNECTION};",
            f"    keepalive_timeout {IDLE};",
            "}",
            "server {",
            f"    listen {self._listen_options(entrance)}{' ssl' if tls else ''}; {tls}",
            *(f"    {line}" for line in self._server_options()),
            f'    location = {EVIDENCE_PATH} {{ default_type text/plain; return 200 "$ssl_protocol $ssl_cipher"; }}',
            f"    location / {{ proxy_pass {scheme}://to-{entrance.name}; }}",
            "}",
        ]
