"""Messages to instruments, the processes that measure: the plan, and an order for each slice (docs/ipc.md).

A slice is a measured window of one arm (a compared configuration). A message leaves out fields that are None; for such
a field the instrument uses its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, SerializeAsAny, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import to_json

from costof.errors import CostofError, ErrorText
from costof.messages.answers import SliceAnswer
from costof.model import REVEALED, Model, first_error

OPERATION_TIMEOUT_MS = 10_000

#: How the client checks the server's certificate: chain and name, only the chain, or not at all.
Verify = Literal["full", "ca-only", "none"]
#: Settings of a kind of workload, such as YCSB. Only the load generator (the engine) knows their names and defaults.
Options = dict[str, str | int | float | bool]


class Transport(Model):
    """The client's transport: plaintext, or TLS with its settings."""

    kind: Literal["plain", "tls"]
    ca_file: Path | None = Field(default=None, description="A PEM file of CAs; by default, those of the system.")
    certificate_file: Path | None = Field(
        default=None, description="A PEM file with the client's own key and certificate; by default, it has none."
    )
    version: Literal["1.2", "1.3"] | None = Field(default=None, description="The only TLS version to offer.")
    cipher: str | None = Field(default=None, description="The only TLS 1.2 cipher suite to offer, by its OpenSSL name.")
    security_level: int | None = Field(
        default=None, description="OpenSSL's security level. It is lowered if a cipher suite or key is weak."
    )
    group: Literal["prime256v1", "x25519", "X25519MLKEM768"] | None = Field(
        default=None, description="The only key exchange group to offer."
    )
    verify: Verify = "full"
    resumption: bool = False

    @property
    def is_tls(self) -> bool:
        return self.kind == "tls"

    def trusting(self, ca_file: Path | None) -> Transport:
        """Return a copy that trusts the CAs in this file (None: the system's CAs). Plaintext stays unchanged."""
        return self.model_copy(update={"ca_file": ca_file}) if self.is_tls else self

    def presenting(self, certificate_file: Path) -> Transport:
        """Return a copy with a client certificate. Plaintext transports stay unchanged."""
        return self.model_copy(update={"certificate_file": certificate_file}) if self.is_tls else self

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return handler(self) if self.is_tls else {"kind": self.kind}


PLAIN = Transport(kind="plain")


class ServiceSettings(Model):
    """The addresses of a service, and the settings of its clients. Each server program has a subclass."""

    protocol: str
    addresses: list[str] = Field(
        description="Addresses 'host:port' of the servers. It is enough if one of them answers."
    )

    def keeps_connections(self, kind: str) -> bool:
        """Return whether a workload of this kind keeps its connections open between slices (measured windows)."""
        return kind != "connect"

    @property
    def verifying_seconds(self) -> float:
        """Return the maximum seconds for verifying an arm's settings, in addition to the arm's first connection."""
        return 0.0

    def longest_seconds(self, workload: str) -> float:
        """Return the maximum seconds that the last operation may take after the end of the slice (measured window)."""
        return OPERATION_TIMEOUT_MS / 1000

    def ends_itself(self, workload: str) -> bool:
        """Return whether the workload's program runs for a fixed time. If so, the measured window ends with it."""
        return False

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer, shared: bool) -> str | None:
        """Return how the server's counters contradict these settings; None if they do not.

        `increases` has the increase of each counter in the slice (a measured window), such as {"flushes": 12}. If the
        server is `shared`, the increases include the work of other clients.
        """
        return None

    def at_address(self, address: str) -> Self:
        return self.model_copy(update={"addresses": [address]})

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """Return a copy with the settings that an arm's levels require. Raises `UNKNOWN_SERVICE_SETTING`."""
        try:
            return self.model_validate({**dict(self), **settings})
        except ValidationError as error:
            detail = first_error(error)
            raise CostofError(ErrorText.UNKNOWN_SERVICE_SETTING, protocol=self.protocol, detail=detail) from None


class Endpoint(Model):
    """A service as a client connects to it: the service's settings, and the transport."""

    service: SerializeAsAny[ServiceSettings]
    transport: Transport = PLAIN

    def named(self, arm: str) -> Arm:
        return Arm(name=arm, service=self.service, transport=self.transport)


class Arm(Endpoint):
    """An arm (a compared configuration): an endpoint with a name. Orders of slices contain this name."""

    name: str


class Pace(Model):
    """A schedule of the times at which operations begin. Latency counts from the scheduled time."""

    per_second: float = Field(gt=0)
    arrivals: Literal["constant", "poisson"] = "poisson"


class Workload(Model):
    """The work of a slice (a measured window). `workers` operations run at once, each on a separate connection.

    Fields that belong to another kind of workload are None.
    """

    name: str
    kind: str
    workers: int = 1
    first_operation: bool | None = Field(
        default=None, description="For kind `connect`: whether each new connection runs an operation."
    )
    further_operations: int | None = Field(
        default=None, description="For kind `connect`: the number of operations after the first one."
    )
    keep_connections: bool | None = Field(
        default=None, description="For kind `request`: keep connections open, overriding the service's settings."
    )
    pace: Pace | None = Field(
        default=None, description="When operations begin; by default, as soon as a worker is free."
    )
    think_ms: float | None = Field(
        default=None, description="Average time in ms that a worker waits before each operation."
    )
    ycsb: Options | None = None
    tpcc: Options | None = None


class Data(Model):
    """The size of the table that the load generator reads. `fields` and `field_length` apply only to YCSB's table."""

    records: int = 0
    fields: int = 10
    field_length: int = 100


class Share(Model):
    """The part of the work for one of several hosts that measure together: host number `host` (from 0) of `hosts`.

    Application drivers never receive it, because they do not run on several hosts.
    """

    host: int = Field(ge=0)
    hosts: int = Field(ge=1)

    def workers(self, workers: int) -> int:
        """Return how many of the `workers` of a workload run on this host."""
        return len(range(self.host, workers, self.hosts))


class Plan(Model):
    """All arms (compared configurations) and workloads that an instrument (a measuring process) will measure.

    The instrument uses at most `threads` threads for workers. If there is a `share`, several hosts divide the
    workloads' operations among them, and `share` says which part this instrument performs.
    """

    seed: int = 1
    threads: int = 1
    operation_timeout_ms: int = OPERATION_TIMEOUT_MS
    data: Data = Data()
    share: Share | None = None
    arms: list[Arm]
    workloads: list[Workload]


class PrepareOrder(Model):
    """An order to prepare a slice before its measured window, for example to open its connections.

    The order for the slice follows, with the same `id`. If `reconnect` is true, the instrument (measuring process)
    closes open connections and opens new ones. Application drivers never receive this order.
    """

    id: int
    arm: str
    workload: str
    reconnect: bool | None = None


class SliceRate(NamedTuple):
    """The rate of operations in a slice (measured window), and the delay at which the slice ends early.

    The slice ends early if an operation would begin more than `give_up_ms` milliseconds after it was due, because the
    server cannot keep the rate.
    """

    per_second: float
    give_up_ms: float


class SliceOrder(Model):
    """An order to measure a slice (a window of one arm). It ends after `operations` or `seconds`, whichever is first.

    Application drivers never receive these five fields:

    - `reconnect`: if true, the instrument (measuring process) first closes open connections and opens new ones;
    - `disconnect`: if true, the instrument closes its connections after the slice, because the server counts a
      client's work only when the client disconnects;
    - `opens_ns`: the time, on the host's `CLOCK_MONOTONIC`, at which the window of a prepared slice opens;
    - `per_second`: a rate that replaces the rate of the workload's pace, or `{rate}` in a command line;
    - `give_up_ms`: the slice ends early if an operation would begin this many milliseconds after it was due; commands
      ignore this.
    """

    id: int
    arm: str
    workload: str
    operations: int
    seconds: float
    per_second: float | None = None
    give_up_ms: float | None = None
    reconnect: bool | None = None
    disconnect: bool | None = None
    opens_ns: int | None = None


class HostsSettings(Model):
    """The hosts of a Ray cluster that measure. `address` is 'auto' on a node of the cluster, or else 'ray://host:port'."""

    address: str
    where: tuple[tuple[str, str], ...] = Field(default=(), description="Labels that a host must have.")
    least: int | None = Field(
        default=None, description="Minimum number of hosts. The run continues as long as so many are left."
    )
    unauthenticated: bool = Field(default=False, description="Accept a cluster on which anybody may run code.")


class Limits(Model):
    """Times that hosts may take longer than the seconds of an order. A host that takes even longer counts as hanging.

    `verifying_seconds` is for verifying the settings of arms, and `longest_seconds` for the last operation of a slice
    (measured window). If `ends_itself` is true, the workload's program runs for a fixed time, and the slice ends when
    the program ends.
    """

    verifying_seconds: float
    longest_seconds: float = 0.0
    ends_itself: bool = False


def line(message: Model | dict[str, Any]) -> bytes:
    """Serialize a message as a line for a measuring process. The line includes secrets in plain text."""
    return to_json(message, exclude_none=True, context=REVEALED) + b"\n"


class TlsFiles(Model):
    """The PEM files for a server that `costof-engine` runs. Both paths may name the same file."""

    certificate_file: Path
    key_file: Path

    @classmethod
    def of(cls, certificate: Path, key: Path | None = None) -> TlsFiles:
        return cls(certificate_file=certificate, key_file=key or certificate)
