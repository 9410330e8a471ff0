"""The campaign's design: true costs, servers, disturbances, and numbers of runs.

`truth/plan.py` describes the design in words.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from costof.programs.relay import NS_PER_MS, All, RelayCost, Share, Some, Spell, Spells, Warming

#: An intermittent cost delays this share of the requests, or all requests during this share of the time.
SELDOM = 0.1
SPELL_EVERY_NS = 2_000_000_000
#: The length of slices that end by time (`truth.toml`).
SLICE_NS = 40_000_000
#: The number of requests that take twice as long after a change of arm, in trials with carry-over (see `Cost`).
COLD_REQUESTS = 25
#: Every request waits this long in the relay, also those of the control. After a longer wait, client and server are
#: slower: they wake up, and their caches are colder. The relay does not count this. Without this time, only the arm's
#: requests would have waited. With it, 0.11 ms more make an HTTP server, MariaDB and mongod slower by 1, 2 and 4 µs,
#: which is at most 0.4 % of a request.
BASE_NS = 1_000_000

Kind = Literal["effect", "peer", "command", "tail", "pair"]


@dataclass(frozen=True)
class Cost:
    """A known cost that a relay in front of the server adds by delaying requests.

    The average delay is `share` times the time of a request without it. `payers` says which requests are delayed: all,
    some chosen at random, or all in periodic spells.

    With `carry_over`, the relay also delays the first requests after each change of arm (from the control to the
    protected arm, or back). This affects both arms alike, so `costof` must not report it as a cost of the protected
    arm.
    """

    payers: Literal["all", "some", "spells"]
    share: float
    carry_over: bool = False

    @property
    def name(self) -> str:
        return f"{self.share:g} {self.payers}{' carry-over' if self.carry_over else ''}"

    @property
    def key(self) -> tuple[str, float, bool]:
        """The columns of a row by which runs with this cost are found."""
        return self.payers, self.share, self.carry_over

    @property
    def paying(self) -> float:
        """Return the share of `RelayCost.added_ns` by which the cost lengthens the mean request of a slice.

        A cost in spells doubles the time of requests. A slice, whose length is fixed, therefore has half as many
        requests during a spell, and if only the share u of its time is in a spell, the mean of its requests is longer
        by u / (2 - u). The share returned is the mean over slices that begin at any time.
        """
        if self.payers == "all":
            return 1.0
        if self.payers == "some":
            return SELDOM
        # Slices within a spell (u = 1), and slices across one of its two ends (the mean over u from 0 to 1).
        within = SELDOM * SPELL_EVERY_NS - SLICE_NS
        across = 2 * SLICE_NS * (2 * math.log(2) - 1)
        return (within + across) / SPELL_EVERY_NS

    def at(self, service_ms: float) -> RelayCost:
        """Return the relay's delay for requests that take `service_ms` if their arm has no cost."""
        added = self.share * service_ms * NS_PER_MS
        if self.payers == "all":
            service_ns = round(service_ms * NS_PER_MS)
            warming = Warming(requests=COLD_REQUESTS, added_ns=service_ns) if self.carry_over else None
            return RelayCost(base_ns=BASE_NS, added_ns=round(added), payers=All(), warming=warming)
        seldom = Some(some=Share(share=SELDOM))
        spells = Spells(spells=Spell(period_ns=SPELL_EVERY_NS, lasting_ns=round(SELDOM * SPELL_EVERY_NS)))
        payers = seldom if self.payers == "some" else spells
        return RelayCost(base_ns=BASE_NS, added_ns=round(added / SELDOM), payers=payers)


NOTHING = Cost("all", 0.0)
TENTH = Cost("all", 0.1)
#: Costs that double the time of one request in ten, or of all requests for a tenth of the time.
DOUBLED = (Cost("some", 0.1), Cost("spells", 0.1))
CARRY_OVER = (Cost("all", 0.0, carry_over=True), Cost("all", 0.1, carry_over=True))
#: The number of runs with each true cost, divided equally among the services and between `DISTURBED`.
CELLS = {
    NOTHING: 900,
    TENTH: 900,
    DOUBLED[0]: 900,
    Cost("all", 0.02): 150,
    DOUBLED[1]: 150,
    **dict.fromkeys(CARRY_OVER, 150),
}
#: The costs that matter most, and which have the most runs. The campaign has a goal for each of them: the share of
#: intervals that contain the true cost.
MAIN = tuple(cost for cost, runs in CELLS.items() if runs == max(CELLS.values()))
#: The cost of trials that check percentiles. It makes a tenth of the queries slower by several ms. This delay is far
#: longer than the client's time to wake up, so that the time to wake up does not blur the percentiles.
SLOW_TAIL = Cost("some", 3.0)

SERVICES = ("mariadb", "mongod", "http")
#: Trials run without and with another process that burns CPU in bursts (truth/neighbour.py).
DISTURBED = (False, True)
PEERS = ("ab", "wrk")
#: The tool that also compares the commands that `costof` compares. It measures commands one after the other.
BENCHMARKER = "hyperfine"
#: The name of trials that compare a command with itself, and the seconds that each comparison of commands takes.
IDENTICAL, PAIR_SECONDS = "identical commands", 10
#: A program that has not ended after this time fails its trial, because a campaign runs unattended.
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Trial:
    """One run of `costof`, or of another tool. `number` distinguishes trials that are otherwise equal."""

    kind: Kind
    service: str
    cost: Cost
    disturbed: bool
    number: int
    tool: str = "costof"

    @property
    def name(self) -> str:
        place = "disturbed" if self.disturbed else "quiet"
        return "/".join([self.kind, self.tool, self.service, self.cost.name, place, str(self.number)])

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


@dataclass(frozen=True)
class Sizes:
    """The size of a campaign: the number of trials of each kind, and the time budget of a run."""

    quick: bool
    budget_seconds: int
    peers: int
    commands: int
    tails: int
    pairs: int

    def effects(self, cost: Cost) -> int:
        """Return the number of runs with this true cost on one service, with or without the disturbing process."""
        return 1 if self.quick else CELLS[cost] // len(SERVICES) // len(DISTURBED)


FULL = Sizes(quick=False, budget_seconds=10, peers=5, commands=5, tails=10, pairs=120)
QUICK = Sizes(quick=True, budget_seconds=4, peers=1, commands=1, tails=2, pairs=5)


def trials(sizes: Sizes) -> list[Trial]:
    """Return all trials in random order, so that disturbances of the machine affect all kinds alike."""
    every = list(_every(sizes))
    random.Random(1).shuffle(every)
    return every


def _every(sizes: Sizes) -> Iterator[Trial]:
    for service, cost, disturbed in product(SERVICES, CELLS, DISTURBED):
        for number in range(sizes.effects(cost)):
            yield Trial("effect", service, cost, disturbed, number)
    # The other tools do not change between arms, so for them carry-over is no cost of its own.
    lasting = [cost for cost in CELLS if not cost.carry_over]
    for tool, cost, disturbed, number in product(PEERS, lasting, DISTURBED, range(sizes.peers)):
        yield Trial("peer", "http", cost, disturbed, number, tool=tool)
    for cost, disturbed, number in product(lasting, DISTURBED, range(sizes.commands)):
        yield Trial("command", "http", cost, disturbed, number, tool=BENCHMARKER)
    for cost, number in product((NOTHING, SLOW_TAIL), range(sizes.tails)):
        yield Trial("tail", "mariadb", cost, False, number)
    for number in range(sizes.pairs):
        yield Trial("pair", IDENTICAL, NOTHING, False, number)
