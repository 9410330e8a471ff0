"""What an instrument is told: its plan, and each slice that it is to measure (docs/ipc.md).

A field that is None is left out, and the instrument then does as it does by itself.
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

#: What of the server's certificate is checked: chain and name, the chain, nothing.
Verify = Literal["full", "ca-only", "none"]
#: Settings of a kind of workload, by the engine's names: it alone knows them and their defaults.
Options = dict[str, str | int | float | bool]


class Transport(Model):
    """How the client speaks; under TLS, what it offers alone and what it holds the server to."""

    kind: Literal["plain", "tls"]
    ca_file: Path | None = Field(default=None, description="PEM; the system's authorities where absent.")
    version: Literal["1.2", "1.3"] | None = Field(default=None, description="Offered alone.")
    cipher: str | None = Field(default=None, description="OpenSSL's name of a suite of TLS 1.2, offered alone.")
    security_level: int | None = Field(default=None, description="OpenSSL's, where what is asked for is weak.")
    group: Literal["prime256v1", "x25519", "X25519MLKEM768"] | None = Field(
        default=None, description="Of the key exchange, offered alone."
    )
    verify: Verify = "full"
    resumption: bool = False

    @property
    def is_tls(self) -> bool:
        return self.kind == "tls"

    def trusting(self, ca_file: Path | None) -> Transport:
        """The same, and under TLS with the authorities of a file; None leaves the system's."""
        return self.model_copy(update={"ca_file": ca_file}) if self.is_tls else self

    @model_serializer(mode="wrap")
    def _of_its_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Plain has no settings."""
        return handler(self) if self.is_tls else {"kind": self.kind}


PLAIN = Transport(kind="plain")


class ServiceSettings(Model):
    """Where a service is and how it is asked. A program's own settings, which stand beside it, extend these."""

    protocol: str
    addresses: list[str] = Field(description="'host:port'; any one that answers is enough.")

    def keeps_connections(self, kind: str) -> bool:
        """Whether connections of a workload of this kind stand from slice to slice, however much they carry."""
        return kind != "connect"

    @property
    def proving_seconds(self) -> float:
        """What its own proofs may take, beside the first connection."""
        return 0.0

    def longest_seconds(self, workload: str) -> float:
        """What may follow the end of a slice of a workload: the operation that is under way then."""
        return OPERATION_TIMEOUT_MS / 1000

    def ends_itself(self, workload: str) -> bool:
        """Whether what measures a workload was told how long to run, and ends its slice by itself."""
        return False

    def entered_at(self, address: str) -> Self:
        """The same, reached by something that stands before it."""
        return self.model_copy(update={"addresses": [address]})

    def asking(self, asked: Mapping[str, Any]) -> Self:
        """The same with what an arm asks of the service. Raises `UNKNOWN_SERVICE_SETTING`."""
        try:
            return self.model_validate({**dict(self), **asked})
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise CostofError(ErrorText.UNKNOWN_SERVICE_SETTING, protocol=self.protocol, detail=detail) from None


class Endpoint(Model):
    """A service, and how the client speaks to it."""

    service: SerializeAsAny[ServiceSettings]
    transport: Transport = PLAIN

    def named(self, arm: str) -> Arm:
        """As an instrument's arm."""
        return Arm(name=arm, service=self.service, transport=self.transport)


class Arm(Endpoint):
    """One combination of levels, by the name that slices have for it."""

    name: str


class Pace(Model):
    """Operations begin at instants of a schedule instead of one after the other; latency runs from those instants."""

    per_second: float = Field(gt=0)
    arrivals: Literal["constant", "poisson"] = "poisson"


class Workload(Model):
    """What a slice does. `workers` operations are under way at a time, each on a connection of its own."""

    name: str
    kind: str
    workers: int = 1
    first_operation: bool | None = Field(default=None, description="Kind connect: whether a trial has an operation.")
    further_operations: int | None = Field(default=None, description="Kind connect: after the first one.")
    keep_connections: bool | None = Field(default=None, description="Kind request: whatever the service says.")
    pace: Pace | None = Field(default=None, description="Absent: each as soon as its worker is free.")
    think_ms: float | None = Field(default=None, description="So long a worker rests before each, on average.")
    ycsb: Options | None = None
    tpcc: Options | None = None


class Data(Model):
    """The size of the table: YCSB's, or sysbench's, of which only the number of records is free."""

    records: int = 0
    fields: int = 10
    field_length: int = 100


class Share(Model):
    """The part of a population that one of several hosts is, `host` counted from 0. No driver is told so."""

    host: int = Field(ge=0)
    hosts: int = Field(ge=1)

    def workers(self, workers: int) -> int:
        """How many of a workload's workers the host has."""
        return len(range(self.host, workers, self.hosts))


class Plan(Model):
    """All that an instrument will measure; at most `threads` threads carry workers.

    With a `share` its workloads are those of the whole population, and the engine does its host's part.
    """

    seed: int = 1
    threads: int = 1
    operation_timeout_ms: int = OPERATION_TIMEOUT_MS
    data: Data = Data()
    share: Share | None = None
    arms: list[Arm]
    workloads: list[Workload]


class PrepareOrder(Model):
    """What a slice does before its window is done now, for the slice of the same `id` that comes next.

    `reconnect`: standing connections are ended and opened anew. No driver is told so.
    """

    id: int
    arm: str
    workload: str
    reconnect: bool | None = None


class SliceOrder(Model):
    """A slice ends after so many operations or seconds, whichever comes first.

    `reconnect`: standing connections are ended before it and opened anew, and operations begin at once. `opens_ns`: it
    was prepared, and its window opens at this instant of its host's `CLOCK_MONOTONIC`. No driver is told so.
    """

    id: int
    arm: str
    workload: str
    operations: int
    seconds: float
    reconnect: bool | None = None
    opens_ns: int | None = None


class HostsSettings(Model):
    """The hosts of a Ray cluster. `address`: 'auto' where this machine is a node of it, or 'ray://host:port'."""

    address: str
    where: tuple[tuple[str, str], ...] = Field(default=(), description="Labels that a host must have.")
    least: int | None = Field(default=None, description="Of hosts, with which a run goes on when others are lost.")
    unauthenticated: bool = Field(default=False, description="Take a cluster that anybody may run code on.")


class Limits(Model):
    """What several hosts are allowed beyond the seconds of an order, which only their common plan tells."""

    proving_seconds: float
    longest_seconds: float = 0.0
    ends_itself: bool = False


def line(message: Model | dict[str, Any]) -> bytes:
    """As it is written to the standard input of a process of ours, which nobody else reads: with its secrets."""
    return to_json(message, exclude_none=True, context=REVEALED) + b"\n"


class TlsFiles(Model):
    """What a server of the engine's shows its clients: PEM files; one may be both."""

    certificate_file: Path
    key_file: Path

    @classmethod
    def of(cls, certificate: Path, key: Path | None = None) -> TlsFiles:
        """The key is in the certificate's own file where no other is named."""
        return cls(certificate_file=certificate, key_file=key or certificate)
