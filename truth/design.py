"""The campaign's design: true costs, servers, disturbances, and numbers of runs."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from costof.programs.relay import NS_PER_MS, All, RelayCost, Share, Some, Spell, Spells

#: The share of the requests, or of the time, that an intermittent cost affects.
SELDOM = 0.1
SPELL_EVERY_NS = 2_000_000_000

Kind = Literal["effect", "verdict", "peer", "tail", "quick", "pair"]


@dataclass(frozen=True)
class Cost:
    """A cost to add: its average as a `share` of the service time, and the requests that are delayed by it.

    The relay delays all requests, some requests chosen at random, or all requests in periodic spells.
    """

    payers: Literal["all", "some", "spells"]
    share: float

    @property
    def name(self) -> str:
        return f"{self.share:g} {self.payers}"

    @property
    def intermittent(self) -> bool:
        return self.payers != "all"

    def at(self, service_ms: float) -> RelayCost:
        """Return the delay that the relay must add to requests that take `service_ms` without it."""
        added = self.share * service_ms * NS_PER_MS
        if self.payers == "all":
            return RelayCost(added_ns=round(added), payers=All())
        seldom = Some(some=Share(share=SELDOM))
        spells = Spells(spells=Spell(period_ns=SPELL_EVERY_NS, lasting_ns=round(SELDOM * SPELL_EVERY_NS)))
        return RelayCost(added_ns=round(added / SELDOM), payers=seldom if self.payers == "some" else spells)


NOTHING = Cost("all", 0.0)
#: Costs that double the time of one request in ten, or of all requests for a tenth of the time.
DOUBLED = (Cost("some", 0.1), Cost("spells", 0.1))
COSTS = (NOTHING, *(Cost(payers, share) for payers in ("all", "some") for share in (0.005, 0.02, 0.2)), *DOUBLED)
#: The cost of trials that measure the time to a verdict.
TENTH = Cost("all", 0.1)
#: The cost of trials that check percentiles. It lengthens a tenth of the queries by milliseconds, so that the time in
#: which the client wakes up matters little.
SLOW_TAIL = Cost("some", 3.0)

SERVICES = ("mariadb", "mongod", "http")
#: The service of trials that measure the time to a verdict, and the time to which the relay extends this service's
#: queries.
QUERIED, QUERIED_MS = "mariadb", 0.1
#: Trials run without and with another process that burns CPU in bursts (truth/neighbour.py).
DISTURBED = (False, True)
PEERS = ("ab", "wrk")
#: Studies whose quick profile is run to count the effects that it resolves.
STUDIES = (
    "mongodb-tls",
    "mysql-transport",
    "http-tls-termination",
    "mongodb-chained-replication",
    "mysql-column-encryption",
    "postgres-tls",
    "postgres-pooling",
    "redis-tls",
)
#: Trials that compare a command with itself: their name, the tool besides costof, and the time of each comparison.
IDENTICAL, BENCHMARKER, PAIR_SECONDS = "identical commands", "hyperfine", 3
#: The last commit before the current estimator. A trial whose `tool` is this commit uses the commit's slice sizes.
EARLIER = "44d93af"


@dataclass(frozen=True)
class Trial:
    """One run of a tool. `number` distinguishes trials that are otherwise equal."""

    kind: Kind
    service: str
    cost: Cost
    disturbed: bool
    number: int
    tool: str = "costof"
    arms: int = 1

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
    effects: int
    nothing: int
    verdicts: int
    earlier_verdicts: int
    peers: int
    tails: int
    quick_runs: int
    pairs: int


FULL = Sizes(
    quick=False,
    budget_seconds=10,
    effects=10,
    nothing=15,
    verdicts=12,
    earlier_verdicts=6,
    peers=4,
    tails=10,
    quick_runs=10,
    pairs=100,
)
QUICK = Sizes(
    quick=True,
    budget_seconds=4,
    effects=1,
    nothing=1,
    verdicts=1,
    earlier_verdicts=1,
    peers=1,
    tails=2,
    quick_runs=0,
    pairs=5,
)


def trials(sizes: Sizes) -> list[Trial]:
    """Return all trials in random order, so that disturbances of the machine affect all kinds of trials alike."""
    every = list(_every(sizes))
    random.Random(1).shuffle(every)
    return every


def _every(sizes: Sizes) -> Iterator[Trial]:
    for service, cost, disturbed in product(SERVICES, COSTS, DISTURBED):
        for number in range(sizes.nothing if cost == NOTHING else sizes.effects):
            yield Trial("effect", service, cost, disturbed, number)
    for tool, count in (("costof", sizes.verdicts), (EARLIER, sizes.earlier_verdicts)):
        for number in range(count):
            yield Trial("verdict", QUERIED, TENTH, False, number, tool=tool, arms=6)
    for tool, cost, disturbed, number in product(PEERS, COSTS, DISTURBED, range(sizes.peers)):
        yield Trial("peer", "http", cost, disturbed, number, tool=tool)
    for cost, number in product((NOTHING, SLOW_TAIL), range(sizes.tails)):
        yield Trial("tail", "mariadb", cost, False, number)
    for study, number in product(STUDIES, range(sizes.quick_runs)):
        yield Trial("quick", study, NOTHING, False, number)
    for number in range(sizes.pairs):
        yield Trial("pair", IDENTICAL, NOTHING, False, number)
