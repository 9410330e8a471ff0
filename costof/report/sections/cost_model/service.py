"""What the cost model says of a service, in the sentences that an answer begins with."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.sections.cost_model.calculator import Extras, added, default_load, extras
from costof.report.sections.cost_model.model import CostModel
from costof.results.index import Index
from costof.results.models import Effect
from costof.statistics.estimate import Estimate

#: Below it a service is said to be at no distance.
LEAST_DISTANCE_MS = 0.01
#: Protections in the answer, of more the first alone; the calculator has all of them.
MOST_TOLD = 3


def for_a_service(index: Index, model: CostModel) -> Iterator[str]:
    """'A service with 100 new connections a second, 10 operations each, 2 ms away: with TLS …', by the default load."""
    load = default_load(index, model)
    is_told = model.way_ms is None and load.round_trip_ms >= LEAST_DISTANCE_MS
    far = f", {fmt.milliseconds(load.round_trip_ms)} away" if is_told else ""
    asked = f"{load.connections_per_second:g} new connections a second, {load.operations:g} operations each{far}"
    for number, each in enumerate(_told(index, model)):
        costs = added(each, load)
        shares = dict(_measured(index, model, each.protection))
        connection = _longer("a new connection", costs.connection_ms, shares.get("connection"))
        operation = _longer("an operation", costs.operation_ms, shares.get("operation"))
        yield (
            f"{'With' if number else f'A service with {asked}: with'} {each.label} {connection}, {operation}, and "
            f"{_cores(costs.cores)} busy."
        )


def said_already(index: Index, model: CostModel) -> frozenset[tuple[str, str]]:
    """Effects, by metric and arm, that these sentences tell: those that a run at one distance has measured."""
    return frozenset(
        (effect.metric, effect.arm)
        for each in _told(index, model)
        for _, effect in _measured(index, model, each.protection)
    )


def _told(index: Index, model: CostModel) -> list[Extras]:
    found = extras(index, model)
    return found if len(found) <= MOST_TOLD else found[:1]


def _measured(index: Index, model: CostModel, protection: str) -> Iterator[tuple[str, Effect]]:
    """Of each operation, what a run measured of it at the one distance that is told: a share at another may even have
    the other sign."""
    if index.many_settings or not index.core.distances:
        return
    arms = [arm for arm in index.arms if arm.protection == protection]
    for cost in model.operations:
        for arm in arms:
            if (effect := index.effect(cost.metric, arm.name)) is not None:
                yield cost.operation, effect


def _longer(what: str, ms: Estimate, measured: Effect | None) -> str:
    """'a new connection takes 3.3 ms [3.2, 3.4] longer (+120 %)'."""
    if ms.low <= 0 <= ms.high:
        return f"{what} takes as long to within {_most(ms, 'ms')}"
    share = f" ({fmt.relative(measured.ratio).value})" if measured is not None and measured.ratio is not None else ""
    return f"{what} takes {fmt.absolute(_size(ms), 'ms')} {'longer' if ms.value > 0 else 'less'}{share}"


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
