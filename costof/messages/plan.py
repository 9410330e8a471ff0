"""Messages to instruments: the plan, and the order for each slice (docs/ipc.md).

Fields that are None are left out, and the instrument then uses its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import to_json

from costof.errors import CostofError, ErrorText
from costof.model import REVEALED, Model

OPERATION_TIMEOUT_MS = 10_000

#: How the server's certificate is checked: chain and name, only the chain, or not at all.
Verify = Literal["full", "ca-only", "none"]
#: Settings of a kind of workload. Only the engine knows their names and defaults.
Options = dict[str, str | int | float | bool]


class Transport(Model):
    """The client's transport: plaintext, or TLS with its settings."""

    kind: Literal["plain", "tls"]
    ca_file: Path | None = Field(default=None, description="A PEM file of CAs; by default, those of the system.")
    version: Literal["1.2", "1.3"] | None = Field(default=None, description="The only TLS version to offer.")
    cipher: str | None = Field(default=None, description="The only TLS 1.2 cipher suite to offer, by its OpenSSL name.")
    security_level: int | None = Field(
        default=None, description="OpenSSL's security level, lowered if a setting is weak."
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
        """Return a copy that, under TLS, trusts the CAs of a file; None means those of the system."""
        return self.model_copy(update={"ca_file": ca_file}) if self.is_tls else self

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the TLS settings of a plaintext transport."""
        return handler(self) if self.is_tls else {"kind": self.kind}


PLAIN = Transport(kind="plain")


class ServiceSettings(Model):
    """The addresses of a service, and its client's settings. Each server program has a subclass in its own folder."""

    protocol: str
    addresses: list[str] = Field(description="Addresses 'host:port' of the servers; one that answers is enough.")

    def keeps_connections(self, kind: str) -> bool:
        """Return whether a workload of this kind keeps its connections open from slice to slice."""
        return kind != "connect"

    @property
    def proving_seconds(self) -> float:
        """Return the longest time for verifying the arm, in addition to the first connection."""
        return 0.0

    def longest_seconds(self, workload: str) -> float:
        """Return the longest time that a slice's last operation may take after the slice's end."""
        return OPERATION_TIMEOUT_MS / 1000

    def ends_itself(self, workload: str) -> bool:
        """Return whether the workload's program runs for a fixed time and so ends its slice itself."""
        return False

    def entered_at(self, address: str) -> Self:
        """Return a copy with another address, such as that of a proxy before the service."""
        return self.model_copy(update={"addresses": [address]})

    def asking(self, settings: Mapping[str, Any]) -> Self:
        """Return a copy with an arm's settings of the service. Raises `UNKNOWN_SERVICE_SETTING`."""
        try:
            return self.model_validate({**dict(self), **settings})
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise CostofError(ErrorText.UNKNOWN_SERVICE_SETTING, protocol=self.protocol, detail=detail) from None


class Endpoint(Model):
    """A service, and the client's transport to it."""

    service: SerializeAsAny[ServiceSettings]
    transport: Transport = PLAIN

    def named(self, arm: str) -> Arm:
        """Return the endpoint as an arm with this name."""
        return Arm(name=arm, service=self.service, transport=self.transport)


class Arm(Endpoint):
    """An arm of a plan: an endpoint with the name that slices refer to."""

    name: str


class Pace(Model):
    """A schedule for the begins of operations. Latency counts from the scheduled instant."""

    per_second: float = Field(gt=0)
    arrivals: Literal["constant", "poisson"] = "poisson"


class Workload(Model):
    """The work of a slice. `workers` operations run at the same time, each on a separate connection."""

    name: str
    kind: str
    workers: int = 1
    first_operation: bool | None = Field(
        default=None, description="Kind connect: whether each new connection runs an operation."
    )
    further_operations: int | None = Field(
        default=None, description="Kind connect: the number of operations after the first one."
    )
    keep_connections: bool | None = Field(
        default=None, description="Kind request: keep connections open, overriding the service's settings."
    )
    pace: Pace | None = Field(default=None, description="The schedule; by default a worker never waits.")
    think_ms: float | None = Field(
        default=None, description="Average time in ms that a worker rests before each operation."
    )
    ycsb: Options | None = None
    tpcc: Options | None = None


class Data(Model):
    """The size of the data: YCSB's table, or sysbench's, in which only the number of records can vary."""

    records: int = 0
    fields: int = 10
    field_length: int = 100


class Share(Model):
    """One host's share of a population. `host` counts from 0. Application drivers never receive it."""

    host: int = Field(ge=0)
    hosts: int = Field(ge=1)

    def workers(self, workers: int) -> int:
        """Return how many of a workload's workers run on this host."""
        return len(range(self.host, workers, self.hosts))


class Plan(Model):
    """All arms and workloads that an instrument will measure, with at most `threads` threads for workers.

    With a `share` the workloads are those of all hosts together, and the engine runs only its host's part.
    """

    seed: int = 1
    threads: int = 1
    operation_timeout_ms: int = OPERATION_TIMEOUT_MS
    data: Data = Data()
    share: Share | None = None
    arms: list[Arm]
    workloads: list[Workload]


class PrepareOrder(Model):
    """An order to do now what must precede the window of the next slice, which has the same `id`.

    `reconnect`: close open connections and open new ones. Application drivers never receive this order.
    """

    id: int
    arm: str
    workload: str
    reconnect: bool | None = None


class SliceOrder(Model):
    """An order to measure a slice. It ends after its operations or seconds, whichever comes first.

    `reconnect`: close open connections and open new ones first; operations then begin at once. `opens_ns`: the instant,
    on the host's `CLOCK_MONOTONIC`, at which the window of a prepared slice opens. Application drivers receive neither.
    """

    id: int
    arm: str
    workload: str
    operations: int
    seconds: float
    reconnect: bool | None = None
    opens_ns: int | None = None


class HostsSettings(Model):
    """The hosts of a Ray cluster. `address` is 'auto' on a node of the cluster, or else 'ray://host:port'."""

    address: str
    where: tuple[tuple[str, str], ...] = Field(default=(), description="Labels that a host must have.")
    least: int | None = Field(
        default=None, description="Least number of hosts. The run continues while so many remain."
    )
    unauthenticated: bool = Field(default=False, description="Accept a cluster on which anybody may run code.")


class Limits(Model):
    """Time limits for several hosts in addition to an order's seconds. They follow from the plan."""

    proving_seconds: float
    longest_seconds: float = 0.0
    ends_itself: bool = False


def line(message: Model | dict[str, Any]) -> bytes:
    """Serialize a message, including its secrets, for an instrument's standard input, which nobody else reads."""
    return to_json(message, exclude_none=True, context=REVEALED) + b"\n"


class TlsFiles(Model):
    """PEM files of a server run by the engine. Both paths may be the same file."""

    certificate_file: Path
    key_file: Path

    @classmethod
    def of(cls, certificate: Path, key: Path | None = None) -> TlsFiles:
        """Return the files; without `key`, the certificate's file also holds the key."""
        return cls(certificate_file=certificate, key_file=key or certificate)
