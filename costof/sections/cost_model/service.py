"""What the cost model says of a service, in the sentences that an answer begins with."""

from __future__ import annotations

from collections.abc import Iterator

from costof.analysis.index import Index
from costof.document import format as fmt
from costof.sections.cost_model.calculator import added, default_load, extras
from costof.sections.cost_model.model import CostModel
from costof.statistics.estimate import Estimate

#: Below it a service is said to be at no distance.
LEAST_DISTANCE_MS = 0.01
#: Protections in the answer, of more the first alone; the calculator has all of them.
MOST_TOLD = 3


def for_a_service(index: Index, model: CostModel) -> Iterator[str]:
    """'A service with 100 new connections a second, 10 operations each, 2 ms away: with TLS …', by the default load."""
    load = default_load(index)
    far = f", {fmt.milliseconds(load.round_trip_ms)} away" if load.round_trip_ms >= LEAST_DISTANCE_MS else ""
    asked = f"{load.connections_per_second:g} new connections a second, {load.operations:g} operations each{far}"
    found = extras(index, model)
    for number, each in enumerate(found if len(found) <= MOST_TOLD else found[:1]):
        costs = added(each, load)
        yield (
            f"{'With' if number else f'A service with {asked}: with'} {each.label} "
            f"{_longer('a new connection', costs.connection_ms)}, {_longer('an operation', costs.operation_ms)}, and "
            f"{_cores(costs.cores)} busy."
        )


def _longer(what: str, ms: Estimate) -> str:
    """'a new connection takes 3.3 ms [3.2, 3.4] longer'."""
    if ms.low <= 0 <= ms.high:
        return f"{what} takes as long to within {_most(ms, 'ms')}"
    return f"{what} takes {fmt.absolute(_size(ms), 'ms')} {'longer' if ms.value > 0 else 'less'}"


def _cores(cores: Estimate) -> str:
    """'0.12 [0.11, 0.13] cores more are'."""
    if cores.low <= 0 <= cores.high:
        return f"as many cores to within {_most(cores, '')} are"
    return f"{fmt.absolute(_size(cores), 'cores')} {'more' if cores.value > 0 else 'fewer'} are"


def _most(of: Estimate, unit: str) -> str:
    """The farther end of an interval that holds 0."""
    end = max(-of.low, of.high)
    return fmt.with_unit(fmt.number(end, fmt.significant_decimals(end, 2)), unit)


def _size(of: Estimate) -> Estimate:
    return of if of.value > 0 else of.through(lambda value: -value)
