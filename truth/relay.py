"""The relay (`engine/relay`): a proxy that delays requests to a server by a known time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pydantic import TypeAdapter

from costof.lab.program import find_program
from costof.messages.process import ANSWER_SECONDS, READY_SECONDS, Instrument, process_cpu_seconds
from costof.model import Model

ENGINE = Path(__file__).parents[1] / "engine"
NS_PER_MS = 1e6


class All(Model):
    """The choice of requests that are delayed: every request."""

    all: dict[str, int] = {}


class Share(Model):
    """The probability with which a request is delayed."""

    share: float


class Some(Model):
    some: Share


class Spell(Model):
    period_ns: int
    lasting_ns: int


class Spells(Model):
    """The choice of requests that are delayed: all that arrive in the first `lasting_ns` of each period."""

    spells: Spell


class RelayCost(Model):
    """The delay of a request that pays (is delayed), and the choice of requests that pay."""

    added_ns: int
    payers: All | Some | Spells


FREE = RelayCost(added_ns=0, payers=All())


class Entrance(Model):
    """A port on which the relay listens ('address:port'), and the delay of the requests that arrive there."""

    address: str
    cost: RelayCost


class RelayPlan(Model):
    server: str
    seed: int
    entrances: list[Entrance]


class Ready(Model):
    entrances: list[str]


class Paid(Model):
    """The counters of one of the relay's ports since its start: all requests, delayed requests, and the total delay."""

    requests: int
    paying: int
    added_ns: int

    def since(self, earlier: Paid) -> Paid:
        return Paid(
            requests=self.requests - earlier.requests,
            paying=self.paying - earlier.paying,
            added_ns=self.added_ns - earlier.added_ns,
        )

    @property
    def mean_ms(self) -> float:
        """Return the mean delay of all requests, delayed or not, in ms; 0 if there was no request."""
        return self.added_ns / NS_PER_MS / self.requests if self.requests else 0.0


_PAID = TypeAdapter(list[Paid])


class RelayProcess(Instrument):
    """The relay's process, as a context manager. It ends with this process.

    It has real-time priority (SCHED_FIFO) if possible, which needs root and is forbidden in some containers. With
    normal priority a thread that delays requests by spinning would sometimes have to wait for a core, and so delay them
    for longer than it counts.
    """

    def __init__(self) -> None:
        priority = [str(find_program("chrt", "util-linux")), "--fifo", "1"]
        permitted = subprocess.run([*priority, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        relay = str(ENGINE / "target" / "release" / "relay")
        super().__init__("the relay", [*priority, relay] if permitted else [relay])

    def begin(self, plan: RelayPlan) -> list[str]:
        """Send the plan. Return the addresses on which the relay listens, in the plan's order.

        Raises `INSTRUMENT_FAILED`.
        """
        self._send(plan)
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready")).entrances

    def paid(self) -> list[Paid]:
        """Return each port's counters, in the plan's order. Raises `INSTRUMENT_FAILED` if the process has ended."""
        self._send({"counters": {}})
        return _PAID.validate_python(self._answer(ANSWER_SECONDS).get("counters"))

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self._process.pid)


def build() -> None:
    """Build the relay if its sources have changed. Raises `CalledProcessError`."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "relay"], cwd=ENGINE, check=True)
