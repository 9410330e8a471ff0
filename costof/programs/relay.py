"""The process `costof-engine relay`: a proxy that delays requests to a server by a known time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Self

from pydantic import RootModel

from costof.messages.process import EngineProcess
from costof.model import Model

ROLE = "relay"
NS_PER_MS = 1e6
NS_PER_US = 1e3


class All(Model):
    """A value of `RelayCost.payers`: all requests get the delay `added_ns`."""

    all: dict[str, int] = {}

    @property
    def words(self) -> str:
        return "on every request"


class Share(Model):
    """A value of `RelayCost.payers`: each request gets the delay `added_ns` with this probability, from 0 to 1."""

    share: float


class Some(Model):
    some: Share

    @property
    def words(self) -> str:
        return f"on {self.some.share:.0%} of the requests"


class Spell(Model):
    period_ns: int
    lasting_ns: int


class Spells(Model):
    """A value of `RelayCost.payers`: requests in the first `lasting_ns` of each period get the delay `added_ns`."""

    spells: Spell

    @property
    def words(self) -> str:
        return f"in {self.spells.lasting_ns / self.spells.period_ns:.0%} of the time"


class Warming(Model):
    """A simulated cache. It is cold after each change from one arm (measured variant) to another.

    Each port of the relay (`Entrance`) has a `state`. The cache becomes cold when a request comes to a port whose
    `state` differs from the state of the previous request's port. Then the next `requests` requests, beginning with
    this one, wait `added_ns` longer.
    """

    requests: int
    added_ns: int


class RelayCost(Model):
    """The delay of requests at a port of the relay.

    Every request waits `base_ns`. The requests that `payers` selects (all, a random share, or those at the start of
    each period) wait `added_ns` more. If `warming` is set, a cache is simulated (`Warming`): the first requests after
    a change from one arm (measured variant) to another wait longer, because the cache is then cold.
    """

    base_ns: int = 0
    added_ns: int
    payers: All | Some | Spells
    warming: Warming | None = None

    @property
    def without_payers(self) -> RelayCost:
        """Return the delay for the control (the arm without protection): the same, but with `added_ns` 0."""
        return self.model_copy(update={"added_ns": 0, "payers": All()})

    @property
    def words(self) -> str:
        base = f"{self.base_ns / NS_PER_US:g} µs on every request" if self.base_ns else ""
        added = f"{self.added_ns / NS_PER_US:g} µs {self.payers.words}" if self.added_ns else ""
        cold = self.warming
        warming = f"{cold.added_ns / NS_PER_US:g} µs on the first {cold.requests} after another arm's" if cold else ""
        return ", and ".join(filter(None, [base, added, warming])) or "none"


FREE = RelayCost(added_ns=0, payers=All())


class Entrance(Model):
    """A port on which the relay listens ('address:port'), and the delay of the requests that arrive there.

    `state` is for the simulated cache (`Warming`). Ports with the same `state` share the cache's content. A change to a
    port with another `state` makes the cache cold.
    """

    address: str
    cost: RelayCost
    state: int | None = None


class RelayPlan(Model):
    server: str
    seed: int
    entrances: list[Entrance]


class Ready(Model):
    entrances: list[str]


class Paid(Model):
    """The counters of one relay port since its start.

    `requests` counts all requests, `paying` those delayed by `RelayCost.added_ns`, and `cold` those delayed by
    `RelayCost.warming`. `added_ns` is the measured sum of all delays.
    """

    requests: int
    paying: int
    cold: int = 0
    added_ns: int

    def since(self, earlier: Paid) -> Paid:
        return Paid(
            requests=self.requests - earlier.requests,
            paying=self.paying - earlier.paying,
            cold=self.cold - earlier.cold,
            added_ns=self.added_ns - earlier.added_ns,
        )

    @property
    def mean_ms(self) -> float:
        """Return the mean delay of all requests in milliseconds; 0 without requests."""
        return self.added_ns / NS_PER_MS / self.requests if self.requests else 0.0


class PaidByPort(RootModel[list[Paid]]):
    """The counters of all ports, in the order of `RelayPlan.entrances`."""


class RelayProcess(EngineProcess):
    """A `costof-engine relay` process. `prefix` is put before its command line to start it on a host of the lab.

    The process gets real-time priority (SCHED_FIFO) if this is permitted: it needs root, and some containers forbid it.
    The relay's thread delays a request by spinning, and counts the delay. With normal priority the thread may then have
    to wait for a core, so that the request is late by more than was counted.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        super().__init__("relay", prefix)

    def __enter__(self) -> Self:
        super().__enter__()
        # The forwarding thread inherits this priority, because the process starts the thread only when it receives
        # the plan.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))
        return self

    def begin(self, plan: RelayPlan) -> list[str]:
        """Send the plan. Return the addresses of `plan.entrances`, in the same order. Raises `INSTRUMENT_FAILED`."""
        return self._begin(Ready, plan).entrances

    def paid(self) -> list[Paid]:
        """Return the counters of each port, in the order of `RelayPlan.entrances`. Raises `INSTRUMENT_FAILED`."""
        return self._counted(PaidByPort).root
