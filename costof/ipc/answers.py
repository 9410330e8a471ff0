"""What an instrument answers: which arms can run, and what a slice measured."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from costof.model import Model


class ClassifiedError(Model):
    """An error's class, one of the words of docs/architecture.md, and the first one's story.

    `phase` is what failed, where an operation is one of several kinds.
    """

    error_class: str = Field(alias="class")
    detail: str
    phase: str | None = None
    count: int = 1


class ReadyArm(Model):
    name: str
    server: str | None
    error: ClassifiedError | None


class Ready(Model):
    instrument: str
    versions: dict[str, str]
    self_cost_ns: dict[str, float] = Field(default_factory=dict)
    arms: list[ReadyArm]


class Phase(Model):
    """Times of one phase in a slice: exact sums in nanoseconds, and a histogram of them."""

    count: int
    sum_ns: int
    sum_squares_ns2: float
    min_ns: int
    max_ns: int
    round_trips: int | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None
    histogram: str


class HttpCounts(Model):
    """What HTTP responses of a slice were, beside their times; bytes as the application sees them, inside TLS."""

    statuses: dict[str, int] = Field(description="Responses by status code, such as {'200': 600}.")
    reused: int = Field(description="Requests over a connection that had carried one before.")
    response_bytes: int = Field(description="Header and body.")
    body_bytes: int
    body_length: int | None = Field(description="Of the response that proved the arm; None where none did.")
    other_length: int = Field(description="Responses whose body was of another length than that.")
    software: str | None = Field(description="The Server header of the slice's first response.")


class TpccCounts(Model):
    """What TPC-C's transactions of a slice were, beside their times."""

    committed: dict[str, int] = Field(description="By name, such as {'new_order': 45}.")
    rolled_back: int = Field(description="New-Orders that end so by intent (clause 2.4.1.4).")
    statements: int = Field(description="Round trips with a statement.")
    deadlocks: int = Field(description="Met and retried.")
    lock_timeouts: int = Field(description="Met and retried.")

    def count(self, name: str) -> int:
        """By the field's name; what is counted by transaction, of all of them."""
        counted = getattr(self, name)
        return sum(counted.values()) if isinstance(counted, dict) else int(counted)


class Decrypted(Model):
    """Values that the instrument's driver has decrypted in a slice, and the bytes of their plaintext."""

    values: int
    bytes: int


class SliceAnswer(Model):
    id: int
    arm: str
    workload: str
    started_unix_ns: int
    elapsed_ns: int
    operations: int
    errors: list[ClassifiedError]
    phases: dict[str, Phase]
    cpu_ns: dict[str, int]
    peak_memory_bytes: int
    evidence: dict[str, Any]
    http: HttpCounts | None = None
    tpcc: TpccCounts | None = None
    decrypted: Decrypted | None = None
