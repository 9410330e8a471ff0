"""A plan: everything a run will do, resolved once from study, profile and options, and kept in the ledger.

Nothing downstream looks at the study file, the profile or the command line again.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.instruments.clients import Client, client
from costof.instruments.commands.readers import reader
from costof.instruments.commands.settings import RATE, SECONDS, CommandProgram
from costof.model import Model
from costof.study.arms import PlannedArm, plan_arms
from costof.study.commands import COMMAND, DEFAULT_SECONDS, FIGURE_PREFIX, MARGIN
from costof.study.load import CommandRate, Load, RequestedLoad, at_load, load_of
from costof.study.options import (
    FEWEST_STARTS,
    MOST_RECORDS,
    MOST_ROUNDS,
    MOST_STARTS,
    Limit,
    chosen_levels,
    distances_ms,
    parse_assignment,
    parse_duration,
    parse_limits,
    parse_precision,
    whole_number,
)
from costof.study.schema import AS_SERVED, FAR, Level, Metric, Profile, SliceSize, Study, Workload

#: What `--distance` sets; of a target that is no factor, since its clients are where they are.
DISTANCE = "distance"
#: The workload of another client.
WORKLOAD = "client"
#: Round trips from which slices are sized for a far client.
FAR_FROM_MS = 5.0


class TargetOptions(Model):
    """The options of a target beside its URLs, without secrets."""

    ca_file: str | None = Field(default=None, description="Absolute path of --tls-ca.")
    database: str | None = Field(default=None, description="The name that the user chose.")
    allow_plain: bool = False
    server_cpu: str | None = Field(default=None, description="The command, without what looks like a password.")
    pooler: str | None = Field(default=None, description="The URL of --pooler without secrets.")
    with_password: bool = Field(default=False, description="It was logged in with a password, which is not kept.")


class Plan(Model):
    """`study` is the whole study as it was, so that a run can be reported when the study has changed since.

    `protection_chosen`: the user named levels of the main factor, so a run without them is no answer.
    `budget_seconds` and `precision` are None where the user said how many rounds: those alone end the run.
    `protection_alone`: the control's level was not among them.
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
    warm_up_rounds: int
    records: int
    target: str | None = None
    plain_target: str | None = None
    target_options: TargetOptions | None = Field(default=None, description="Of a target: how else it was reached.")
    protection_chosen: bool = False
    protection_alone: bool = False
    starts: int = Field(
        default=1,
        description="So often the servers are started anew. Rounds are those of each start; the budget is of all.",
    )
    ends_when_resolved: bool = Field(
        default=True, description="It may end before its budget is spent, once every headline verdict stands."
    )
    limits: list[Limit] = Field(default=[], description="The user's, or else the study's.")
    load: Load | None = Field(default=None, description="At which the study is asked; None: as fast as it goes.")
    predicted_ms: list[float] = Field(
        default=[], description="Round trips that the report predicts a target's costs for, which is measured as it is."
    )
    client: str | None = Field(default=None, description="A load generator that asks beside the study's own views.")
    hosts: str | None = Field(default=None, description="The Ray cluster whose hosts measure, instead of this machine.")

    @property
    def controls(self) -> list[PlannedArm]:
        """One for each context."""
        return [arm for arm in self.arms if arm.control]

    @property
    def protected(self) -> list[PlannedArm]:
        """The arms whose cost is asked for."""
        return [arm for arm in self.arms if not arm.control and not arm.replicate]

    @property
    def left_out(self) -> list[str]:
        """Labels of workloads that several hosts do not do: they have no drivers of applications."""
        return [each.label for each in self.study.workloads.values() if self.hosts is not None and each.view == "app"]

    @property
    def may_shorten_slices(self) -> bool:
        """Whether shorter slices would make more rounds."""
        shorter = not all(each.keeps_its_length for each in self.study.workloads.values())
        return shorter and self.budget_seconds is not None and self.fewest_rounds < self.most_rounds

    @property
    def loads(self) -> str:
        """The data that goes into the servers before the first slice, in words; '' where there is none."""
        if warehouses := self.study.warehouses:
            return f"{warehouses:,} warehouse{'s' if warehouses > 1 else ''}"
        return f"{self.records:,} records" if self.records else ""

    def with_budget(self, text: str | None) -> Plan:
        """With another budget in all, where one is said. Raises `RESUME_DIFFERS` where the plan has none."""
        if text is None:
            return self
        if self.budget_seconds is None:
            raise CostofError(ErrorText.RESUME_DIFFERS, options="--budget")
        return self.model_copy(update={"budget_seconds": parse_duration(text)})

    @property
    def start_budget_seconds(self) -> float | None:
        """What each start of the servers has of the budget: an even share."""
        return None if self.budget_seconds is None else self.budget_seconds / self.starts

    def arm(self, name: str) -> PlannedArm:
        return next(arm for arm in self.arms if arm.name == name)

    def original(self, arm: PlannedArm) -> PlannedArm:
        """Return the control that an arm is a copy of, or the arm itself."""
        return self.arm(arm.baseline) if arm.replicate and arm.baseline else arm

    def replicate_of(self, control: PlannedArm) -> PlannedArm:
        return next(arm for arm in self.arms if arm.replicate and arm.baseline == control.name)

    def size_name(self, workload: str, arm: PlannedArm) -> str:
        """In `slices`: a far client does less in a slice, or side by side."""
        far = workload + FAR
        is_far = far in self.slices and self.study.round_trip_ms(arm.levels) >= FAR_FROM_MS
        return far if is_far else workload

    def size(self, workload: str, arm: PlannedArm) -> SliceSize:
        """The slice of a workload on an arm."""
        return self.slices[self.size_name(workload, arm)]

    def programs(self, arm: PlannedArm, hosts: int = 1) -> dict[str, tuple[CommandProgram, dict[str, float]]]:
        """Of the workloads that run one on an arm, each with the numbers that stand for words of its line. Of several
        `hosts` that run it together each is told its share of a rate."""
        rate = {RATE: self.load.commands_per_second / hosts} if isinstance(self.load, CommandRate) else {}
        return {
            name: (each.command, {SECONDS: self.size(name, arm).seconds, **rate})
            for name, each in self.study.workloads.items()
            if each.command is not None
        }

    def workers(self, workload: str, arm: PlannedArm) -> int:
        of_levels = arm.settings.workload.get(workload, {}).get("workers")
        return self.size(workload, arm).workers or int(of_levels or self.study.workloads[workload].workers)


@dataclass(frozen=True)
class Options:
    """What a user may say on the command line; None leaves it to the profile."""

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
    """Tells which levels of the main factor a target can be had at; None where it can at all."""


def resolve(study: Study, options: Options) -> Plan:
    """The plan of a run. Raises `CostofError` with exit status 2 for whatever the user got wrong."""
    profile = study.profiles.get(options.profile)
    if profile is None:
        allowed = ", ".join(study.profiles)
        raise CostofError(ErrorText.UNKNOWN_PROFILE, study=study.name, name=options.profile, allowed=allowed)
    load = load_of(study, options.load)
    if load is not None and options.client is not None:
        raise CostofError(ErrorText.CLIENT_WITHOUT_LOAD, client=options.client)
    study = _as_asked(study, options, load)
    profile = study.profiles[options.profile]
    settings = [parse_assignment(text) for text in options.settings]
    records = profile.records
    chosen: dict[str, list[str]] = {}
    predicted: list[float] = []
    for name, text in settings:
        if options.target is not None and name in (study.distance_factor, DISTANCE):
            predicted = distances_ms(study, text)
        elif name == "records" and profile.records:
            records = whole_number(name, text, 1, MOST_RECORDS)
        else:
            chosen[name] = chosen_levels(study, name, text, options.target is not None)
    if options.target is not None:
        chosen |= {name: [AS_SERVED] for name, factor in study.factors.items() if factor.lab_only}
    arms = plan_arms(study, profile, chosen)
    budget_seconds, precision, rounds = _stop_rule(profile, options)
    if load is not None and budget_seconds is not None and options.budget is None:
        # A load decides how long a slice is: a profile's budget may hold too few rounds of these for an answer.
        budget_seconds = max(budget_seconds, _seconds_of_an_answer(arms, profile))
    starts = _starts(options)
    return Plan(
        study=study,
        profile=options.profile,
        seed=options.seed if options.seed is not None else secrets.randbelow(2**31),
        arms=arms,
        slices=profile.slices,
        budget_seconds=budget_seconds,
        precision=precision,
        starts=starts,
        ends_when_resolved=options.rounds is None and options.precision is None and starts == 1,
        fewest_rounds=rounds[0],
        most_rounds=rounds[1],
        warm_up_rounds=profile.warm_up_rounds,
        records=records,
        target=options.target,
        plain_target=options.plain_target,
        target_options=options.target_options,
        load=load,
        predicted_ms=predicted,
        client=options.client,
        hosts=options.hosts,
        limits=parse_limits(study, options.limits or study.limits.items()),
        protection_chosen=study.main_factor in chosen,
        protection_alone=study.control[study.main_factor] not in chosen.get(study.main_factor, study.control.values()),
    )


def _seconds_of_an_answer(arms: Sequence[PlannedArm], profile: Profile) -> float:
    """Return how long the rounds of a verdict take, and one more, with a second beside each slice."""
    from costof.statistics.intervals import FEWEST_ROUNDS

    round_seconds = len(arms) * sum(size.seconds + 1 for size in profile.slices.values())
    return math.ceil((FEWEST_ROUNDS + 1) * round_seconds)


def _as_asked(study: Study, options: Options, load: Load | None) -> Study:
    """The study as these options have it, for its plan; nothing else changes one."""
    if options.offered is not None:
        study = _as_offered(study, options.offered)
    if load is not None:
        study = at_load(study, load)
    if options.client is not None:
        study = with_client(study, client(options.client))
    return as_served(study) if options.target is not None else study


def lab_only_levels(study: Study, offered: Callable[[Level], bool] | None) -> list[str]:
    """Levels of its main factor that a study has by itself, and that a target cannot be had at (a tunnel to it)."""
    if offered is None:
        return []
    name = study.main_factor
    levels = study.factors[name].levels
    usual = [study.factors[name].default, *(each.factors.get(name, []) for each in study.profiles.values())]
    return [level for level in dict.fromkeys(each for named in usual for each in named) if not offered(levels[level])]


def _as_offered(study: Study, offered: Callable[[Level], bool]) -> Study:
    """Without levels of its main factor that a target cannot be had at, where nobody names these, and with those that
    only a target has."""
    name = study.main_factor
    factor = study.factors[name]
    known = {level for level, each in factor.levels.items() if offered(each)}
    of_target_alone = [level for level, each in factor.levels.items() if each.target and level in known]

    def left(levels: Sequence[str]) -> list[str]:
        return [*dict.fromkeys([*(level for level in levels if level in known), *of_target_alone])]

    profiles = {
        key: profile.model_copy(
            update={
                "factors": {of: left(each) if of == name else each for of, each in profile.factors.items()},
                "also": [each for each in profile.also if each.get(name) in (*known, None)],
            }
        )
        for key, profile in study.profiles.items()
    }
    factors = study.factors | {name: factor.model_copy(update={"default": left(factor.default)})}
    return study.model_copy(update={"factors": factors, "profiles": profiles})


def _stop_rule(profile: Profile, options: Options) -> tuple[float | None, float | None, tuple[int, int]]:
    """Budget in seconds, precision, fewest and most rounds. Raises `ROUNDS_ARE_EXACT` for rounds beside the others."""
    if options.rounds is None:
        precision = parse_precision(options.precision) if options.precision else profile.precision
        return parse_duration(options.budget or profile.budget), precision, profile.rounds
    others = {"--budget": options.budget, "--precision": options.precision}
    if given := [name for name, value in others.items() if value is not None]:
        raise CostofError(ErrorText.ROUNDS_ARE_EXACT, options=" and ".join(given))
    # Imported here: numpy would be a third of the time of a mistyped option.
    from costof.statistics.intervals import ROUNDS_FOR_INTERVAL

    rounds = whole_number("--rounds", options.rounds, ROUNDS_FOR_INTERVAL, MOST_ROUNDS)
    return None, None, (rounds, rounds)


def _starts(options: Options) -> int:
    """Of the servers. Raises `RESTARTS_NEED_LAB`, and `RESTARTS_ARE_EXACT` for a precision that would end none."""
    if options.restarts is None:
        return 1
    if options.target is not None:
        raise CostofError(ErrorText.RESTARTS_NEED_LAB)
    if options.precision is not None:
        raise CostofError(ErrorText.RESTARTS_ARE_EXACT)
    return whole_number("--restarts", options.restarts, FEWEST_STARTS, MOST_STARTS)


def with_client(study: Study, client: Client) -> Study:
    """The study with one workload more, and a metric for each figure that the program may tell. Raises
    `CLIENT_FOR_OTHER_SERVICE` where it does not speak to what the study asks, and `PROGRAM_MISSING`."""
    service = study.service.program or study.service.kind
    if service != client.service:
        raise CostofError(
            ErrorText.CLIENT_FOR_OTHER_SERVICE,
            client=client.program,
            of=client.service,
            study=study.name,
            service=service,
        )
    client.find()
    workload = Workload(label=f"{client.program} as the client", view=COMMAND, kind=COMMAND, command=client.command)
    metrics = {
        f"{WORKLOAD}.{name}": Metric(
            label=f"{figure.label}, {client.program}",
            description=f"As {client.program} tells it.",
            workload=WORKLOAD,
            phase=f"{FIGURE_PREFIX}{name}",
            unit=figure.unit,
            better=figure.better,
            headline=name in client.headline,
            margin=MARGIN,
        )
        for name, figure in reader(client.program).figures.items()
    }
    size = {WORKLOAD: SliceSize(operations=1, seconds=DEFAULT_SECONDS)}
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
    """The study as a target can be asked it: where its main factor is the lab's alone, another one is varied.

    The first factor that is not the lab's makes the arms then, against `target_control`; what the servers are is a
    setting that all arms share. A factor that a target is taken with as it is has that as its first level. Workloads
    that measure what one operation takes by itself have the clients that do not queue there.
    """
    taken = {
        name: factor.model_copy(update={"levels": {AS_SERVED: Level(), **factor.levels}, "default": [AS_SERVED]})
        for name, factor in study.factors.items()
        if factor.as_served
    }
    workloads = {
        name: each.model_copy(update={"workers": each.target_workers or each.workers})
        for name, each in study.workloads.items()
    }
    study = study.model_copy(update={"factors": study.factors | taken, "workloads": workloads})
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
