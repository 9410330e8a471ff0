"""The relay (`engine/relay`), a proxy that delays requests to a server by a known time."""

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
    """Every request pays."""

    all: dict[str, int] = {}


class Share(Model):
    """The probability that a request pays."""

    share: float


class Some(Model):
    some: Share


class Spell(Model):
    period_ns: int
    lasting_ns: int


class Spells(Model):
    """All requests pay that arrive in the first `lasting_ns` of each period."""

    spells: Spell


class RelayCost(Model):
    """The delay of a request that pays, and which requests pay."""

    added_ns: int
    payers: All | Some | Spells


FREE = RelayCost(added_ns=0, payers=All())


class Entrance(Model):
    """A listening port of the relay, 'address:port', and its cost."""

    address: str
    cost: RelayCost


class RelayPlan(Model):
    server: str
    seed: int
    entrances: list[Entrance]


class Ready(Model):
    entrances: list[str]


class Paid(Model):
    """Counters of an entrance since the start: requests, those that paid, and their total delay."""

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
        """Mean time added to a request; 0 without any."""
        return self.added_ns / NS_PER_MS / self.requests if self.requests else 0.0


_PAID = TypeAdapter(list[Paid])


class RelayProcess(Instrument):
    """The relay's process, a context manager. It ends with this process.

    It runs with real-time priority (SCHED_FIFO) where permitted, which needs root and is not possible in every
    container. With normal priority a spinning entrance would wait for a core more often than others, and add more than
    it counts.
    """

    def __init__(self) -> None:
        priority = [str(find_program("chrt", "util-linux")), "--fifo", "1"]
        permitted = subprocess.run([*priority, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        relay = str(ENGINE / "target" / "release" / "relay")
        super().__init__("the relay", [*priority, relay] if permitted else [relay])

    def begin(self, plan: RelayPlan) -> list[str]:
        """Return the addresses of the entrances in the plan's order. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready")).entrances

    def paid(self) -> list[Paid]:
        """Return the counters of each entrance. Raises `INSTRUMENT_FAILED` if the process has ended."""
        self._send({"counters": {}})
        return _PAID.validate_python(self._answer(ANSWER_SECONDS).get("counters"))

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self._process.pid)


def build() -> None:
    """Build the relay if its sources have changed. Raises `CalledProcessError`."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "relay"], cwd=ENGINE, check=True)
