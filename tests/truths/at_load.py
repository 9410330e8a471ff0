"""Simulated runs at a load (a fixed rate of connections or operations). TLS makes connections and queries slower."""

from __future__ import annotations

from dataclasses import replace

from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD, Arrivals, Load, Pool
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Pairs of (processing time in ms, round trips), first without the protection and then with it. CONNECT is for a new
#: connection, FIRST for its first query, LATER for each later query.
CONNECT, FIRST, LATER = ((0.2, 2), (1.6, 3)), ((0.1, 1), (0.14, 1)), ((0.05, 1), (0.06, 1))
#: CPU time in ms of a connection with all its queries: (client, servers) without the protection, and with it.
CPU_MS = ((0.29, 0.61), (1.12, 1.86))


class AtLoad(Truth):
    """A simulated run at a load.

    `arriving` is the share of the load that arrives. Protected arms serve only the share `served` of what arrives.
    """

    def __init__(self, served: float = 1.0, arriving: float = 1.0) -> None:
        super().__init__()
        self.served = served
        self.arriving = arriving

    def share_served(self, load: Load | None) -> float:
        return self.served

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        assert workload == WORKLOAD
        protected, load = not (arm.control or arm.replicate), plan.load_of(arm)
        link = plan.study.round_trip_ms(arm.levels)
        seconds = plan.size(workload, arm).seconds
        scheduled = round(self.arriving * _per_second(load, LATER[protected][0] + link) * seconds)
        served = round(scheduled * (self.share_served(load) if protected else 1.0))
        counts = {"operation": served}
        if isinstance(load, Arrivals):
            queries = load.queries_per_connection
            counts = {"scheduled_connect": served, "first_operation": served, "operation": served * (queries - 1)}
        every = {"scheduled_connect": CONNECT, "first_operation": FIRST, "operation": LATER}
        times = {name: every[name][protected] for name, count in counts.items() if count}
        client, server = (each * chance.more(0.02) for each in CPU_MS[protected])
        return Slice(
            operations=served,
            seconds=seconds,
            phases={
                name: phase_of(ms * chance.times, counts[name], trips, 100, 300, link_ms=trips * link)
                for name, (ms, trips) in times.items()
            },
            cpu_seconds={"client": client * served / 1e3, "server": server * served / 1e3, "link": served / 1e3},
            evidence={"connections": served, "server": "10.205.0.2:4000"},
            counts={"pace.scheduled": scheduled} if _is_paced(load) else {},
        )


class Saturated(AtLoad):
    """A run at a load in which a protected arm serves at most `most` connections or operations a second."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self.most = most

    def share_served(self, load: Load | None) -> float:
        return min(1.0, self.most / _per_second(load, 0.0))


class Growing(AtLoad):
    """A run in which operations of a protected arm queue for a tenth of a slice if the load exceeds `most` a second.

    All operations are served nevertheless.
    """

    def __init__(self, most: float) -> None:
        super().__init__()
        self.most = most

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        record, load = super().slice(plan, workload, arm, chance), plan.load_of(arm)
        if arm.control or arm.replicate or _per_second(load, 0.0) <= self.most:
            return record
        waiting = phase_of(record.seconds * 100, record.operations, 1, 100, 300)
        return replace(record, phases={**record.phases, "operation": waiting})


class FarAway(AtLoad):
    """A run at a load on a user's own server, whose TCP handshakes take half a millisecond."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        record = super().slice(plan, workload, arm, chance)
        return replace(record, phases={**record.phases, "tcp": phase_of(0.5, 100, 1, 10, 10, spread=0.0)})


class Stalled(AtLoad):
    """A run at a load in which new connections of the protected arm take `milliseconds` in the third round."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self.milliseconds = milliseconds
        self.rounds = 0

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        record = super().slice(plan, workload, arm, chance)
        if arm.control or arm.replicate:
            return record
        # The first slice is the warm-up, so the fourth slice is in the third round.
        self.rounds += 1
        name = "scheduled_connect"
        if self.rounds != 4:
            return record
        stalled = phase_of(self.milliseconds, record.phases[name].count, 3, 100, 300)
        return replace(record, phases={**record.phases, name: stalled})


def _per_second(load: Load | None, operation_ms: float) -> float:
    """Return the load's fixed rate a second or, without one, the rate of pooled connections with a think time.

    An operation takes `operation_ms`. Pooled connections wait for the think time after each operation.
    """
    assert isinstance(load, Arrivals | Pool)
    if load.per_second:
        return load.per_second
    assert isinstance(load, Pool)
    assert load.think_ms
    return load.connections * 1000 / (load.think_ms + operation_ms)


def _is_paced(load: Load | None) -> bool:
    return isinstance(load, Arrivals | Pool) and load.per_second is not None
