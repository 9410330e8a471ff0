"""The relay (`engine/relay`), which stands before a server and makes requests cost what is known."""

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
    """Of the requests, that pays by chance."""

    share: float


class Some(Model):
    some: Share


class Spell(Model):
    period_ns: int
    lasting_ns: int


class Spells(Model):
    """All requests pay that come at the beginning of each period."""

    spells: Spell


class RelayCost(Model):
    """What each request pays that pays at all, and which do."""

    added_ns: int
    payers: All | Some | Spells


FREE = RelayCost(added_ns=0, payers=All())


class Entrance(Model):
    """A port of the relay's, 'address:port'."""

    address: str
    cost: RelayCost


class RelayPlan(Model):
    server: str
    seed: int
    entrances: list[Entrance]


class Ready(Model):
    entrances: list[str]


class Paid(Model):
    """Of an entrance, since the start: requests, those that paid, and how long they were held up together."""

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
    """A context manager. It ends with us, whatever ends us.

    It runs before all other programs (SCHED_FIFO) where the kernel lets us: root may, but not in every container. Among
    them, one that spins would have to wait for a core more often than one that does not, and it would add more than its
    clock says.
    """

    def __init__(self) -> None:
        first = [str(find_program("chrt", "util-linux")), "--fifo", "1"]
        may_be_first = subprocess.run([*first, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        relay = str(ENGINE / "target" / "release" / "relay")
        super().__init__("the relay", [*first, relay] if may_be_first else [relay])

    def begin(self, plan: RelayPlan) -> list[str]:
        """Where the entrances are, in the plan's order. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready")).entrances

    def paid(self) -> list[Paid]:
        """By entrance. Raises `INSTRUMENT_FAILED` when the process has died."""
        self._send({"counters": {}})
        return _PAID.validate_python(self._answer(ANSWER_SECONDS).get("counters"))

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self._process.pid)


def build() -> None:
    """The relay, where its sources are newer than it. Raises `CalledProcessError`."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "relay"], cwd=ENGINE, check=True)
