"""The load that each arm carried, and the round-trip time to the user's own servers (a target)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from costof.lab.host import LINK_ROLE
from costof.messages.answers import SCHEDULED
from costof.results.ledger import SliceRecord
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Carried
from costof.results.run import Run, cpu_seconds_per_operation
from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD, Arrivals, Pool
from costof.study.schema import Metric
from costof.study.several_loads import LOAD
from costof.urls import is_loopback

TCP = "tcp"


def round_trip_to_target_ms(run: Run) -> float:
    """Return the round-trip time to the target in milliseconds; 0 if no TCP handshake was timed.

    It is the time of the shortest TCP handshake of the controls, because this handshake waits for hardly anything but
    the network.
    """
    controls = {arm.name for arm in run.plan.controls}
    handshakes_ms = [
        record.answer.phases[TCP].min_ns / 1e6
        for record in run.counted
        if record.answer.arm in controls and TCP in record.answer.phases
    ]
    return min(handshakes_ms, default=0.0)


CLIENT = "client"


#: The rate that a command reports may count something other than the requested operations, such as each request of a
#: transaction. Such a rate cannot show whether an arm carries its load. To detect this, the reported rate is compared
#: with the requested rate on the control at the lowest load. The two rates may differ by at most this share.
OTHER_RATE = 0.1


def carried_loads(run: Run) -> list[Carried]:
    """Return the load that each arm was offered and served.

    Return [] for runs without a load, and for sweeps (runs that search the highest load). Also return [] for a run that
    measures commands if it has a single load, or if no printed rate is the rate of operations (`_served_figure`).
    """
    if run.plan.load is None or run.plan.sweep is not None:
        return []
    figure = _served_figure(run)
    found = []
    for arm in run.plan.arms:
        load = run.plan.load_of(arm)
        if isinstance(load, Arrivals | Pool):
            found.append(_carried(run, load, arm))
        elif load is not None and figure is not None and (rates := run.samples.means(figure, arm.name)):
            found.append(Carried(arm=arm.name, offered=load.commands_per_second, served=fmean(rates)))
    growing = _growing_queues(run)
    return [each.model_copy(update={"queue_grows": each.arm in growing}) for each in found if each is not None]


#: An arm's queue counts as growing if the mean time of operations is longer than GROWN_SHARE of the slice, and longer
#: than GROWN_TIMES times the mean at the next lower load. The number of served operations does not show that a queue
#: grows, because a slice waits until all its operations are finished. For example, at a load that is 10 % too high,
#: nearly all operations are served, but their mean time is a twentieth of the slice.
GROWN_SHARE, GROWN_TIMES = 0.05, 3.0


def _growing_queues(run: Run) -> set[str]:
    """Return the arms whose queue grew until the end of the slices (see `GROWN_SHARE`)."""
    growing: set[str] = set()
    for metric in run.plan.study.metrics.values() if run.plan.rates else []:
        if metric.workload != WORKLOAD or metric.is_of_whole_slice:
            continue
        slice_ns = (run.sizes or run.plan.slices)[WORKLOAD].seconds * 1e9
        lower: dict[tuple[str, ...], float] = {}
        for arm in sorted(run.plan.arms, key=lambda arm: float(arm.levels[LOAD])):
            key = (arm.label, *(level for factor, level in arm.levels.items() if factor != LOAD))
            # Compute the mean from the slices, because `drop_overloaded` may have removed the arm's samples.
            answers = [record.answer for record in run.counted_slices(WORKLOAD, arm.name)]
            phases = [each.phases[metric.phase] for each in answers if metric.phase in each.phases]
            mean_ns = sum(each.sum_ns for each in phases) / max(1, sum(each.count for each in phases))
            if mean_ns > max(GROWN_SHARE * slice_ns, GROWN_TIMES * lower.get(key, mean_ns)):
                growing.add(arm.name)
            else:
                lower[key] = mean_ns
    return growing


def _served_figure(run: Run) -> str | None:
    """Return the name of the metric with the rate of operations that measured commands achieved.

    A printed rate may count something else. So, at the lowest load, the control's rate must be about the requested rate
    (`OTHER_RATE`). Return None if this is true of no metric.
    """
    if not run.plan.rates:
        return None
    lowest, (control, *_) = run.plan.rates[0], run.plan.controls
    workloads = {name for name, each in run.plan.study.workloads.items() if each.takes_rate}
    for name, metric in run.plan.study.metrics.items():
        if metric.workload in workloads and metric.headline and metric.unit == "per_second":
            rates = run.samples.means(name, control.name)
            if rates and abs(fmean(rates) / lowest - 1) <= OTHER_RATE:
                return name
    return None


def _carried(run: Run, load: Arrivals | Pool, arm: PlannedArm) -> Carried | None:
    records = run.counted_slices(WORKLOAD, arm.name)
    if not records:
        return None
    seconds = (run.sizes or run.plan.slices)[WORKLOAD].seconds * len(records)
    # Use the number of arrivals in these slices instead of the requested rate, because arrivals are random.
    scheduled = [count for record in records if (count := record.answer.count(SCHEDULED)) is not None]
    offered = sum(scheduled) / seconds if len(scheduled) == len(records) else load.per_second
    operations = sum(record.answer.operations for record in records)
    needed = {}
    if operations and offered:
        needed = {role: each * offered for role, each in cpu_seconds_per_operation(records).items()}
    on_servers = {role: cores for role, cores in needed.items() if role not in (CLIENT, LINK_ROLE)}
    here = needed if servers_are_here(run) else {role: needed[role] for role in (CLIENT,) if role in needed}
    return Carried(
        arm=arm.name,
        offered=offered,
        served=operations / seconds,
        server_cores_needed=sum(on_servers.values()) if on_servers else None,
        client_cores_needed=needed.get(CLIENT),
        link_cores_needed=needed.get(LINK_ROLE),
        machine_share_needed=sum(here.values()) / run.cores if here and run.plan.hosts is None else None,
        servers=servers_in_words(run, on_servers),
        machine_busy=_machine_share_in_use(run, records),
    )


def servers_are_here(run: Run) -> bool:
    """Return whether the servers run on the measuring machine and so share its CPUs with the client."""
    if run.plan.target is None or run.plan.hosts is not None:
        return run.plan.hosts is None
    return all(is_loopback(address) for members in _server_addresses(run) for address in members.split(","))


def servers_in_words(run: Run, roles: Collection[str]) -> str:
    """Return the servers with these roles in words: the role of a single server, such as 'server'; else 'servers'."""
    is_single = len(roles) == 1 and not any("," in members for members in _server_addresses(run))
    return next(iter(roles)) if is_single else "servers"


def _server_addresses(run: Run) -> list[str]:
    """Return, for each arm, the addresses of its servers as one text, separated by commas."""
    return [arm.server for record in run.ready for arm in record.ready.arms if arm.server is not None]


def _machine_share_in_use(run: Run, records: Sequence[SliceRecord]) -> float | None:
    """Return the share of this machine's CPU time in use by client, local servers and other programs."""
    if run.plan.hosts is not None:
        return None
    here = servers_are_here(run)
    used = sum(
        record.foreign_cpu_seconds
        + sum(record.answer.cpu_ns.values()) / 1e9
        + (sum(record.server_cpu_seconds.values()) if here else 0.0)
        for record in records
    )
    available = sum(record.observed_seconds for record in records) * run.cores
    return min(1.0, used / available) if available else None


def drop_overloaded(run: Run) -> None:
    """Remove the times of arms that could not carry the load, because they mostly depend on the length of a slice."""
    times = [name for name, each in run.plan.study.metrics.items() if _grows_with_the_queue(run, each)]
    for arm in [each.arm for each in carried_loads(run) if not each.complete]:
        for name in times:
            run.drop(name, arm)


def _grows_with_the_queue(run: Run, metric: Metric) -> bool:
    """Return whether a metric grows with the queue: the time of an operation, or a time that a command reports."""
    workload = run.plan.study.workloads[metric.workload]
    if workload.takes_rate:
        return metric.command_figure is not None and metric.unit in NS_PER_UNIT
    return metric.workload == WORKLOAD and not metric.is_of_whole_slice
