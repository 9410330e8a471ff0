"""The plan of a run: everything it will do, resolved once from study, profile and options, and kept with its results.

No later step reads the study file, the profile or the command line again.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.instruments.clients import Client, ClientLoad, client
from costof.instruments.commands.settings import RATE, RATE_OF_SLICE, SECONDS, CommandProgram
from costof.model import Model
from costof.study.arms import PlannedArm, plan_arms
from costof.study.commands import COMMAND, DEFAULT_SECONDS, FIGURE_PREFIX, MARGIN, MOST_RUNS
from costof.study.load import CommandRate, Load, RequestedLoad, at_load, parse_load
from costof.study.options import (
    FEWEST_STARTS,
    MOST_RECORDS,
    MOST_ROUNDS,
    MOST_STARTS,
    Limit,
    parse_assignment,
    parse_distances_ms,
    parse_duration,
    parse_levels,
    parse_limits,
    parse_precision,
    parse_whole_number,
)
from costof.study.schema import AS_SERVED, CPU_PREFIX, FAR, Level, Metric, Profile, SliceSize, Study, Workload
from costof.study.several_loads import (
    LOAD,
    OVERHEAD_SECONDS,
    at_loads,
    level_of,
    parse_loads,
    rate_in_words,
)
from costof.study.sweep import Sweep, at_sweep, is_latency_limit, parse_sweep, split_range

#: The name of the distance factor in `--set distance=…`. On a target (the user's own servers), distances are not
#: emulated. Instead, the option names distances for which the report predicts the costs.
DISTANCE = "distance"
#: The value of `Metric.phase` for the client's CPU time. The client runs on costof's side, so its CPU time is known
#: even if that of the user's servers is not.
CLIENT_CPU = f"{CPU_PREFIX}client"
#: The name of the workload that measures with the load generator of `--client`.
WORKLOAD = "client"
#: Minimum and maximum of --memory, which is a number of connections. Fewer connections would change a server's memory
#: too little to be measured.
FEWEST_IDLE, MOST_IDLE = 100, 20_000
#: Kinds of service that --memory cannot measure. Commands open connections of their own, which costof does not control.
#: In studies of replica sets, no factor changes the memory of a connection.
WITHOUT_IDLE_CONNECTIONS = frozenset({COMMAND, "replication"})
#: A client is far if its round-trip time in milliseconds is at least this. A study may define other sizes of slices
#: (measured windows) for far clients.
FAR_FROM_MS = 5.0


class TargetOptions(Model):
    """The options of a target (the user's own servers), except the target's URLs. Secrets are left out."""

    ca_file: str | None = Field(default=None, description="Absolute path of --tls-ca.")
    database: str | None = Field(default=None, description="The name in --database.")
    allow_plain: bool = False
    server_cpu: str | None = Field(
        default=None, description="The command of --server-cpu with probable passwords removed."
    )
    server_memory: str | None = Field(
        default=None, description="The command of --server-memory with probable passwords removed."
    )
    pooler: str | None = Field(default=None, description="The URL of --pooler without secrets.")
    with_password: bool = Field(default=False, description="True if the login used a password, which is not kept.")


class Plan(Model):
    """Everything that a run will do.

    `study` is a full copy, so that later changes of the study's file do not affect reports.

    `protection_chosen` is true if the user named levels of the main factor (the protection). The run then fails if it
    can measure none of them. `protection_alone` is true if the control's level is not among the levels that the user
    named. `budget_seconds` and `precision` are None if the user gave a number of rounds: then the run ends after these
    rounds.
    """

    study: Study
    profile: str
    seed: int
    arms: list[PlannedArm]
    slices: dict[str, SliceSize]
    budget_seconds: float | None
    precision: float | None
    fewest_rounds: int
    most_rounds: int
    rounds_beyond_budget: int = Field(
        default=0, description="Number of rounds to measure even if they exceed the budget; 0 means two rounds."
    )
    warm_up_rounds: int
    records: int
    target: str | None = None
    plain_target: str | None = None
    target_options: TargetOptions | None = Field(
        default=None, description="How the target was reached, apart from its URL."
    )
    protection_chosen: bool = False
    protection_alone: bool = False
    starts: int = Field(
        default=1,
        description="How often the servers are started. Each start has its own rounds; all share the budget.",
    )
    ends_when_resolved: bool = Field(
        default=True, description="True if the run may end early, once every headline verdict is reached."
    )
    limits: list[Limit] = Field(default=[], description="The limits of --limit or, if there are none, the study's.")
    load: Load | None = Field(
        default=None,
        description="The load to measure at, or the lowest of several loads; None: as fast as possible.",
    )
    rates: list[float] = Field(
        default=[], description="The rates of several loads, in ascending order; empty for one load, a range or none."
    )
    sweep: Sweep | None = Field(
        default=None, description="The range of loads in which each arm's capacity is found; None: one load or none."
    )
    predicted_ms: list[float] = Field(
        default=[], description="Round-trip times at which the report predicts a target's costs, in ms."
    )
    client: str | None = Field(
        default=None, description="A load generator that measures in addition to the study's own workloads."
    )
    memory: int = Field(
        default=0,
        description="Number of idle connections of each arm for which the servers' memory is measured after the last "
        "round; 0: the memory is not measured.",
    )
    hosts: str | None = Field(default=None, description="The Ray cluster whose hosts measure instead of this machine.")

    @property
    def controls(self) -> list[PlannedArm]:
        """The controls (arms without the protection), one for each context, such as a distance."""
        return [arm for arm in self.arms if arm.control]

    @property
    def protected(self) -> list[PlannedArm]:
        """The arms (compared configurations) whose costs the run measures."""
        return [arm for arm in self.arms if not arm.control and not arm.replicate]

    @property
    def compares_controls(self) -> bool:
        """True if the run's controls have several levels of the factor that the study names in `[sections.upgrade]`.

        The report compares these levels on every arm, so the run has an answer even without a protected arm.
        """
        factor = self.study.sections.get("upgrade", {}).get("factor", "")
        return len({arm.levels.get(factor) for arm in self.controls}) > 1

    @property
    def is_alone(self) -> bool:
        """True if the run has only the control and its copy, for example if the user measures a single command."""
        return all(len(factor.levels) == 1 for factor in self.study.factors.values())

    @property
    def left_out(self) -> list[str]:
        """Labels of workloads that this run leaves out, because hosts (--hosts) cannot run application drivers."""
        return [each.label for each in self.study.workloads.values() if self.hosts is not None and each.view == "app"]

    @property
    def may_shorten_slices(self) -> bool:
        """True if shorter slices (measured windows) would allow more rounds."""
        shorter = not all(each.keeps_its_length for each in self.study.workloads.values())
        return shorter and self.budget_seconds is not None and not self.has_fixed_rounds

    @property
    def loads(self) -> str:
        """The data to load before the first measurement as text, such as '10,000 records'; '' if there is none."""
        warehouses = self.study.warehouses
        loads = [
            f"{warehouses:,} warehouse{'s' if warehouses > 1 else ''}" if warehouses else "",
            f"{self.records:,} records" if self.records else "",
        ]
        return " and ".join(load for load in loads if load)

    def with_budget(self, text: str | None) -> Plan:
        """Return the plan with the total budget in `text`; unchanged if `text` is None.

        Raises `RESUME_DIFFERS` if the plan has no budget.
        """
        if text is None:
            return self
        if self.budget_seconds is None:
            raise CostofError(ErrorText.RESUME_DIFFERS, options="--budget")
        return self.with_budget_seconds(parse_duration(text))

    def with_budget_seconds(self, seconds: float) -> Plan:
        """Return the plan of a resumed run with this total budget. Only a fixed number of rounds still ends the run."""
        most = self.most_rounds if self.has_fixed_rounds else MOST_ROUNDS
        return self.model_copy(update={"budget_seconds": seconds, "most_rounds": most})

    @property
    def has_fixed_rounds(self) -> bool:
        return self.fewest_rounds == self.most_rounds

    @property
    def start_budget_seconds(self) -> float | None:
        """The equal share of the budget for the rounds after each start of the servers; None without a budget."""
        return None if self.budget_seconds is None else self.budget_seconds / self.starts

    @property
    def load_in_words(self) -> str:
        """The load as text, such as '300 new connections a second, 20 queries each'; '' without a load.

        If there are several loads, the text lists them. For a sweep (a search for the capacity), it is the range of
        loads with the limit on latency.
        """
        if self.load is None:
            return ""
        words = self.load.in_words
        if self.sweep is not None:
            ends = " to ".join(map(rate_in_words, (self.sweep.least, self.sweep.most)))
            assert self.load.per_second is not None, "a sweep varies the rate"
            return f"{words.replace(rate_in_words(self.load.per_second), ends, 1)}; {self.sweep.limit.in_words}"
        if not self.rates:
            return words
        return words.replace(rate_in_words(self.rates[0]), listed([*map(rate_in_words, self.rates)]), 1)

    def load_of(self, arm: PlannedArm) -> Load | None:
        """Return the load under which an arm (compared configuration) is measured; None without a load.

        If the run has several loads, the arm's level of the factor `LOAD` names this load.
        """
        if self.load is None or not self.rates:
            return self.load
        return self.load.at_rate(float(arm.levels[LOAD]))

    def arm(self, name: str) -> PlannedArm:
        return next(arm for arm in self.arms if arm.name == name)

    def original(self, arm: PlannedArm) -> PlannedArm:
        """Return the control if the arm is the identical copy of a control (its replicate), or else the arm itself."""
        return self.arm(arm.control_arm) if arm.replicate and arm.control_arm else arm

    def replicate(self, control: PlannedArm) -> PlannedArm:
        return next(arm for arm in self.arms if arm.replicate and arm.control_arm == control.name)

    def size_name(self, workload: str, arm: PlannedArm) -> str:
        """Return the key in `slices` for the size of the arm's slices (measured windows).

        If `slices` has a separate size for far clients, and the arm's clients are far, return the key of this size.
        """
        far = workload + FAR
        is_far = far in self.slices and self.study.round_trip_ms(arm.levels) >= FAR_FROM_MS
        return far if is_far else workload

    def size(self, workload: str, arm: PlannedArm) -> SliceSize:
        return self.slices[self.size_name(workload, arm)]

    def programs(self, arm: PlannedArm, hosts: int = 1) -> dict[str, tuple[CommandProgram, dict[str, float | str]]]:
        """Return, for each workload of commands, its program and the values of the placeholders {seconds} and {rate}.

        If several `hosts` share the rate, {rate} is the part of one host. In a sweep (a search for the capacity),
        {rate} is not replaced yet, because each slice (measured window) has another rate.
        """
        load = self.load_of(arm)
        rate: dict[str, float | str] = {}
        if isinstance(load, CommandRate):
            rate[RATE] = RATE_OF_SLICE if self.sweep is not None else load.commands_per_second / hosts
        return {
            name: (each.command, {SECONDS: self.size(name, arm).seconds, **rate})
            for name, each in self.study.workloads.items()
            if each.command is not None
        }

    def client_load(self, arm: PlannedArm) -> ClientLoad:
        """Return the test, connections, records and distance with which the program of `--client` measures an arm."""
        program = client(str(self.client))
        use = self.study.clients.get(program.program)
        connections = self.workers(use.like, arm) if use is not None else program.connections
        round_trip_ms = self.study.round_trip_ms(arm.levels)
        return ClientLoad(client_test(self.study, program), connections, self.records, round_trip_ms)

    @property
    def client_statements(self) -> Mapping[str, int]:
        """The number of statements in an operation of `--client`, by class such as 'read'; {} without `--client`."""
        if self.client is None:
            return {}
        program = client(self.client)
        return program.test(client_test(self.study, program)).statements

    def workers(self, workload: str, arm: PlannedArm) -> int:
        from_levels = arm.settings.workload.get(workload, {}).get("workers")
        return self.size(workload, arm).workers or int(from_levels or self.study.workloads[workload].workers)


@dataclass(frozen=True)
class Options:
    """Command-line options that affect the plan; None leaves the choice to the profile."""

    profile: str = "default"
    settings: Sequence[str] = ()
    budget: str | None = None
    precision: str | None = None
    rounds: str | None = None
    restarts: str | None = None
    seed: int | None = None
    target: str | None = None
    plain_target: str | None = None
    limits: Sequence[tuple[str, str]] = ()
    load: RequestedLoad = field(default_factory=RequestedLoad)
    client: str | None = None
    hosts: str | None = None
    target_options: TargetOptions | None = None
    offered: Callable[[Level], bool] | None = None
    """A function that returns whether the user's own servers support a level of the main factor.

    None means that they support all levels.
    """
    memory: str | None = None
    at_least: int | None = None
    at_most: int | None = None
    """`at_least` and `at_most` are the minimum and maximum number of rounds; None means the profile's number.

    The run measures the minimum number even if that takes longer than the budget.
    """


def resolve(study: Study, options: Options) -> Plan:
    """Return the plan of a run. Raises `CostofError` with exit status 2 for invalid input."""
    profile = study.profiles.get(options.profile)
    if profile is None:
        allowed = ", ".join(study.profiles)
        raise CostofError(ErrorText.UNKNOWN_PROFILE, study=study.name, name=options.profile, allowed=allowed)
    rates, ends = parse_loads(options.load, options.limits), split_range(options.load.rate)
    lowest = f"{level_of(rates[0])}/s" if rates else options.load.rate if ends is None else ends[0]
    load = parse_load(study, replace(options.load, rate=lowest))
    if load is not None and options.client is not None:
        raise CostofError(ErrorText.CLIENT_WITHOUT_LOAD, client=options.client)
    study = _apply_options(study, options, load)
    sweep = parse_sweep(study, options.profile, load, options.load, options.limits)
    if load is not None and sweep is not None:
        study = at_sweep(study, load, sweep)
    if load is not None and rates:
        study = at_loads(study, load, rates)
    profile = study.profiles[options.profile]
    settings = [parse_assignment(text) for text in options.settings]
    records = profile.records
    chosen: dict[str, list[str]] = {}
    predicted: list[float] = []
    for name, text in settings:
        if options.target is not None and name in (study.distance_factor, DISTANCE):
            predicted = parse_distances_ms(study, text)
        elif name == "records" and profile.records:
            records = parse_whole_number(name, text, 1, MOST_RECORDS)
        else:
            chosen[name] = parse_levels(study, name, text, options.target is not None)
    if options.target is not None:
        if study.factors[study.main_factor].lab_only:
            raise CostofError(ErrorText.LAB_ONLY_STUDY, study=study.name)
        chosen |= {name: [AS_SERVED] for name, factor in study.factors.items() if factor.lab_only}
    arms = plan_arms(study, profile, chosen)
    budget_seconds, precision, rounds = _stop_rule(profile, options)
    slices = profile.slices
    if sweep is not None:
        sweep = sweep.fit(budget_seconds, len(arms))
        seconds = sweep.seconds(sweep.middle)
        slices = {name: size.model_copy(update={"seconds": seconds}) for name, size in slices.items()}
    if load is not None and budget_seconds is not None and options.budget is None:
        # Extend the profile's budget if necessary: a load determines how long slices (measured windows) are, so the
        # rounds that a verdict needs may take longer than the profile's budget.
        overhead = OVERHEAD_SECONDS if rates else 1.0
        needed = (
            _seconds_for_verdict(arms, profile, overhead) if sweep is None else sweep.seconds_for_verdict(len(arms))
        )
        budget_seconds = max(budget_seconds, needed)
    starts = _starts(options)
    plan = Plan(
        study=study,
        profile=options.profile,
        seed=options.seed if options.seed is not None else secrets.randbelow(2**31),
        arms=arms,
        slices=slices,
        budget_seconds=budget_seconds,
        precision=precision,
        starts=starts,
        ends_when_resolved=options.rounds is None and options.precision is None and starts == 1 and len(arms) > 2,
        fewest_rounds=rounds[0],
        most_rounds=rounds[1],
        rounds_beyond_budget=options.at_least or 0,
        warm_up_rounds=profile.warm_up_rounds,
        records=records,
        target=options.target,
        plain_target=options.plain_target,
        target_options=options.target_options,
        load=load,
        rates=rates,
        sweep=sweep,
        predicted_ms=predicted,
        client=options.client,
        memory=_idle_connections(study, options),
        hosts=options.hosts,
        limits=_limits(study, options),
        protection_chosen=study.main_factor in chosen,
        protection_alone=study.control[study.main_factor] not in chosen.get(study.main_factor, study.control.values()),
    )
    # The looks judge each version's costs. A run of several versions asks about the upgrade, which they do not judge.
    return plan.model_copy(update={"ends_when_resolved": False}) if plan.compares_controls else plan


def _limits(study: Study, options: Options) -> list[Limit]:
    """Return the limits that the options set or, if they set none, the limits in the study's file.

    Raises `LIMIT_NEEDS_SERVER_CPU` if an option limits the CPU time of the user's own servers, and there is no way to
    read it.
    """
    given = [limit for limit in options.limits if not is_latency_limit(limit)]
    limits = parse_limits(study, given or study.limits.items())
    access = options.target_options
    if options.limits and options.target is not None and (access is None or access.server_cpu is None):
        for limit in limits:
            metric = study.metrics[limit.metric]
            if metric.phase.startswith(CPU_PREFIX) and metric.phase != CLIENT_CPU:
                raise CostofError(ErrorText.LIMIT_NEEDS_SERVER_CPU, metric=metric.label)
    return limits


def _idle_connections(study: Study, options: Options) -> int:
    """Return the number of idle connections that are opened to measure the memory of a connection; 0 for none.

    The number is that of --memory or, if only --server-memory is given, `FEWEST_IDLE`. Raises `BAD_NUMBER`, `NO_MEMORY`
    and `MEMORY_NEEDS_COMMAND`.
    """
    command = options.target_options.server_memory if options.target_options else None
    if options.memory is None and command is None:
        return 0
    if study.service.kind in WITHOUT_IDLE_CONNECTIONS:
        raise CostofError(ErrorText.NO_MEMORY, study=study.name)
    if options.target is not None and command is None:
        raise CostofError(ErrorText.MEMORY_NEEDS_COMMAND)
    if options.memory is None:
        return FEWEST_IDLE
    return parse_whole_number("--memory", options.memory, FEWEST_IDLE, MOST_IDLE)


def _seconds_for_verdict(arms: Sequence[PlannedArm], profile: Profile, overhead: float) -> float:
    """Return the seconds that the fewest rounds for a verdict take, plus one round as a reserve.

    Each slice (measured window) takes `overhead` seconds in addition to its measured time.
    """
    from costof.statistics.intervals import FEWEST_ROUNDS

    round_seconds = len(arms) * sum(size.seconds + overhead for size in profile.slices.values())
    return math.ceil((FEWEST_ROUNDS + 1) * round_seconds)


def _apply_options(study: Study, options: Options, load: Load | None) -> Study:
    if options.offered is not None:
        study = _with_supported_levels(study, options.offered)
    if load is not None:
        study = at_load(study, load)
    if options.client is not None:
        study = with_client(study, client(options.client))
    return as_served(study) if options.target is not None else study


def levels_not_offered(study: Study, offered: Callable[[Level], bool] | None) -> list[str]:
    """Return the default levels of the main factor that the user's own servers do not support."""
    if offered is None:
        return []
    name = study.main_factor
    levels = study.factors[name].levels
    usual = [study.factors[name].default, *(each.factors.get(name, []) for each in study.profiles.values())]
    return [level for level in dict.fromkeys(each for named in usual for each in named) if not offered(levels[level])]


def _with_supported_levels(study: Study, offered: Callable[[Level], bool]) -> Study:
    """Return the study with other default levels of the main factor: those that the user's own servers support.

    Levels that the servers (the target) do not support are removed from the defaults, also in profiles. Levels that
    only a target can have are added. The user can still name any level.
    """
    name = study.main_factor
    factor = study.factors[name]
    known = {level for level, each in factor.levels.items() if offered(each)}
    target_levels = [level for level, each in factor.levels.items() if each.exists_only_on_target and level in known]

    def supported(levels: Sequence[str]) -> list[str]:
        return [*dict.fromkeys([*(level for level in levels if level in known), *target_levels])]

    profiles = {
        key: profile.model_copy(
            update={
                "factors": {
                    factor_name: supported(each) if factor_name == name else each
                    for factor_name, each in profile.factors.items()
                },
                "also": [each for each in profile.also if each.get(name) in (*known, None)],
            }
        )
        for key, profile in study.profiles.items()
    }
    factors = study.factors | {name: factor.model_copy(update={"default": supported(factor.default)})}
    return study.model_copy(update={"factors": factors, "profiles": profiles})


def _stop_rule(profile: Profile, options: Options) -> tuple[float | None, float | None, tuple[int, int]]:
    """Return the budget in seconds, the precision, and the minimum and maximum number of rounds.

    With --rounds, budget and precision are None. Raises `ROUNDS_ARE_EXACT` if --budget or --precision is given too.
    """
    if options.rounds is None:
        precision = parse_precision(options.precision) if options.precision else profile.precision
        budget, usual = parse_duration(options.budget or profile.budget), parse_duration(profile.budget)
        return budget, precision, _round_limits(profile, options, budget / usual)
    conflicting = {"--budget": options.budget, "--precision": options.precision}
    if conflicts := [name for name, value in conflicting.items() if value is not None]:
        raise CostofError(ErrorText.ROUNDS_ARE_EXACT, options=" and ".join(conflicts))
    # Imported here, because importing numpy would delay the error for a mistyped option.
    from costof.statistics.intervals import ROUNDS_FOR_INTERVAL

    rounds = parse_whole_number("--rounds", options.rounds, ROUNDS_FOR_INTERVAL, MOST_ROUNDS)
    return None, None, (rounds, rounds)


def _round_limits(profile: Profile, options: Options, growth: float) -> tuple[int, int]:
    """Return the minimum and maximum number of rounds, from the options or, if these do not set them, from the profile.

    `growth` is the budget divided by that of the profile. A larger budget raises the profile's maximum in proportion,
    because the maximum would otherwise end the run before its budget or its precision. A fixed number stays fixed.

    If a minimum in the options is above the profile's maximum, the maximum is raised to it. If a maximum in the options
    is below the profile's minimum, the minimum is lowered to it.
    """
    fewest, most = profile.rounds
    if fewest < most:
        most = min(MOST_ROUNDS, math.ceil(most * max(1.0, growth)))
    if options.at_least is not None:
        fewest, most = options.at_least, max(most, options.at_least)
    if options.at_most is not None:
        fewest, most = min(fewest, options.at_most), options.at_most
    return fewest, most


def _starts(options: Options) -> int:
    """Return the number of server starts. Raises `RESTARTS_NEED_LAB`, and `RESTARTS_ARE_EXACT` with --precision."""
    if options.restarts is None:
        return 1
    if options.target is not None:
        raise CostofError(ErrorText.RESTARTS_NEED_LAB)
    if options.precision is not None:
        raise CostofError(ErrorText.RESTARTS_ARE_EXACT)
    return parse_whole_number("--restarts", options.restarts, FEWEST_STARTS, MOST_STARTS)


def client_test(study: Study, client: Client) -> str:
    """Return the test that `--client`'s load generator runs: the one that the study names, or else its first test."""
    use = study.clients.get(client.program)
    return use.test if use is not None else next(iter(client.tests))


def with_client(study: Study, client: Client) -> Study:
    """Return the study with the client's workload and a metric for each figure that the client may report.

    Raises `CLIENT_FOR_OTHER_SERVICE` for a client that does not support the study's service, `UNKNOWN_CLIENT_TEST` and
    `PROGRAM_MISSING`.
    """
    service, test = study.service.program or study.service.kind, client_test(study, client)
    if service not in client.services:
        raise CostofError(
            ErrorText.CLIENT_FOR_OTHER_SERVICE,
            client=client.program,
            supported=listed([*client.services]),
            study=study.name,
            service=service,
        )
    client.find()
    workload = Workload(
        label=f"{client.program} ({test}) as the client", view=COMMAND, kind=COMMAND, command=client.command
    )
    metrics = {
        f"{WORKLOAD}.{name}": Metric(
            label=f"{figure.label}, {client.program}",
            description=f"As {client.program} reports it.",
            workload=WORKLOAD,
            phase=f"{FIGURE_PREFIX}{name}",
            unit=figure.unit,
            better=figure.better,
            headline=name in client.test(test).headline,
            margin=MARGIN,
        )
        for name, figure in client.figures(test).items()
    }
    size = {WORKLOAD: SliceSize(operations=1 if workload.takes_duration else MOST_RUNS, seconds=DEFAULT_SECONDS)}
    profiles = {
        name: profile.model_copy(update={"slices": profile.slices | size}) for name, profile in study.profiles.items()
    }
    changes = {
        "workloads": study.workloads | {WORKLOAD: workload},
        "metrics": study.metrics | metrics,
        "profiles": profiles,
    }
    return study.model_copy(update=changes)


def as_served(study: Study) -> Study:
    """Return the study in the form that can be measured on the user's own servers (a target).

    Some studies have a main factor that only a lab (servers that costof starts) can vary. Such a study has the field
    `target_control`. On a target, its main factor is instead the first factor that can be varied there. The factors
    that only a lab can vary then apply to the control too (`Factor.context`).

    A factor whose field `as_served` is true gets a further level, `AS_SERVED`, as its default: the servers keep their
    own setting. Workloads have `target_workers` workers.
    """
    served = {
        name: factor.model_copy(update={"levels": {AS_SERVED: Level(), **factor.levels}, "default": [AS_SERVED]})
        for name, factor in study.factors.items()
        if factor.as_served
    }
    workloads = {
        name: each.model_copy(update={"workers": each.target_workers or each.workers})
        for name, each in study.workloads.items()
    }
    study = study.model_copy(update={"factors": study.factors | served, "workloads": workloads})
    if not study.target_control:
        return study
    main = next(name for name, factor in study.factors.items() if not factor.lab_only)
    varied = study.factors[main]
    labelled = {
        name: level.model_copy(update={"label": level.label or f"{varied.label} {name}"})
        for name, level in varied.levels.items()
    }
    factors = {main: varied.model_copy(update={"context": False, "levels": labelled})}
    for name, factor in study.factors.items():
        if name != main:
            factors[name] = factor.model_copy(update={"context": factor.context or factor.lab_only})
    update = {"factors": factors, "control": study.target_control, "protection": varied.label}
    return study.model_copy(update=update)
