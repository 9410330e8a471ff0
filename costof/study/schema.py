"""Studies: the questions `costof` can ask, each one TOML file under `costof/studies/`.

A study names its service, its factors and levels, its workloads, metrics and profiles. Everything in it is validated
here, once; whoever uses a `Study` needs no check of his own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from costof.instruments.commands.settings import CommandLevel, CommandProgram, SecretSource
from costof.messages.plan import PLAIN, Options, Pace, Transport
from costof.model import Finite, Model
from costof.study.commands import FIGURE_PREFIX, completed

LONGEST_ROUND_TRIP_MS = 10_000.0
FAR = "@far"
#: The kind of service that is one server program.
SERVER = "server"
MODULE_NAME = r"^[a-z][a-z0-9_]*$"
#: The level of a factor where a user's own server is taken as it is: it asks for nothing.
AS_SERVED = "as served"
UNITS_OF_PHASES = ("ms", "us", "per_second")
#: Instead of a phase: the slice as a whole, from its start to the end of its last operation.
WHOLE_SLICE = "slice"
#: Instead of a phase: a figure that the servers gave of the slice, such as 'server.primary_cpu' (`Service.judge`).
SERVER_PREFIX = "server."
#: CPU time of a role for each operation of a slice, such as 'cpu.gateway'.
CPU_PREFIX = "cpu."


class Metric(Model):
    """A figure: the mean time of one phase of one workload, in `unit`.

    'per_second' is the rate that follows from it: of one worker, or of all of them with `all_workers`. Of the phase
    'slice' it is operations over elapsed time, as ab counts, and a time is the elapsed time itself. Of the phase
    'server.<name>' it is a figure of the servers' own, of 'figure.<name>' one that a command has told, of 'cpu.<role>'
    CPU time for each operation, of 'bytes.<phase>' the bytes of each of the phase's operations, both ways, and of any
    other dotted name, such as 'tpcc.committed', what the instrument counts under it (`SliceAnswer.count`) a second.
    """

    label: str
    description: str
    workload: str
    phase: str
    unit: str = Field(default="ms", description="ms, us, per_second; of a figure any, such as percent or 'MB/s'.")
    headline: bool = False
    better: Literal["lower", "higher"] = "lower"
    all_workers: bool = False
    margin: float = Field(default=0.05, gt=0, lt=1, description="A relative cost below it counts as none.")

    @model_validator(mode="after")
    def _time_has_a_unit_of_time(self) -> Self:
        if not self.of_slice and self.unit not in UNITS_OF_PHASES:
            raise ValueError(f"the time of a phase is in {', '.join(UNITS_OF_PHASES)}, not in '{self.unit}'")
        return self

    @property
    def of_slice(self) -> bool:
        """Whether it is one figure of the slice as a whole, and no mean of a phase's times."""
        return self.phase == WHOLE_SLICE or "." in self.phase

    @property
    def of_command(self) -> str | None:
        """The name of the figure that a command has told; None where it is none of a command's."""
        return self.phase.removeprefix(FIGURE_PREFIX) if self.phase.startswith(FIGURE_PREFIX) else None


class PublishedFigure(Model):
    """A figure from the literature, shown beside ours and never mixed into it."""

    metric: str
    levels: dict[str, str] = Field(description="The arms it belongs to: those that have all of these levels.")
    series: str = Field(default="", description="Where a source has several, such as 'MySQL 5.6.13'.")
    control_value: Finite | None = None
    value: Finite | None = None
    ratio: Finite | None = Field(default=None, description="With it over without it, where only that was published.")

    def fits(self, arm_levels: Mapping[str, str]) -> bool:
        """Whether an arm of these levels has all of its own."""
        return all(arm_levels.get(name) == level for name, level in self.levels.items())


class Published(Model):
    source: str
    date: str
    setting: str
    figures: list[PublishedFigure]

    @property
    def cited(self) -> str:
        """Where the figures are from, when, and in which setting."""
        return f"Published: {self.source}, {self.date}. {self.setting.rstrip('.')}."


#: Stands for the level's own name in a factor's `each`.
LEVEL = "{level}"


class ArmSettings(CommandLevel):
    """The merged effects of an arm's levels. `transport` is None where a study has nothing to say of it."""

    transport: Transport | None = None
    tls_library: str = Field(default="", description="The engine is one built with it; else the installed one.")
    service: dict[str, Any] = Field(default_factory=dict, description="Settings of the protocol's client.")
    workload: dict[str, dict[str, Any]] = Field(default_factory=dict, description="By workload: what differs.")
    lab: dict[str, Any] = Field(default_factory=dict, description="Settings of the lab's servers.")
    target: dict[str, Any] = Field(default_factory=dict, description="What of a user's own servers is asked.")
    evidence: dict[str, str] = Field(default_factory=dict, description="What either end must have seen.")
    near_round_trips: float = Field(default=0.0, description="Of a connection, that its distance does not lengthen.")

    @property
    def speaks_tls(self) -> bool:
        """Whether the client itself speaks TLS; a tunnel around it is the service's to prove."""
        return self.transport is not None and self.transport.is_tls

    def transport_trusting(self, ca_file: Path | None) -> Transport:
        """How the client speaks, and to whom: plain, where the study has nothing to say of it."""
        return (self.transport or PLAIN).trusting(ca_file)


def merge_settings(effects: Iterable[tuple[dict[str, Any], str]]) -> ArmSettings:
    """Effects merged in order, each with its level's name. Raises `ValueError` for what no effect can be."""
    merged: dict[str, Any] = {}
    for effect, level in effects:
        _merge(merged, _of_level(effect, level))
    return ArmSettings.model_validate(merged)


def merge_client_settings(effects: Iterable[tuple[dict[str, Any], str]]) -> ArmSettings:
    """As `merge_settings`, of one level's effects: how the client speaks another one says."""
    return merge_settings([({"transport": {"kind": PLAIN.kind}}, ""), *effects])


def _merge(into: dict[str, Any], effect: dict[str, Any]) -> None:
    for key, value in effect.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, []), *value]
        else:
            into[key] = value


def _of_level(effect: Any, level: str) -> Any:
    if isinstance(effect, dict):
        return {key: _of_level(value, level) for key, value in effect.items()}
    if isinstance(effect, list):
        return [_of_level(each, level) for each in effect]
    return effect.replace(LEVEL, level) if isinstance(effect, str) else effect


class Level(CommandLevel):
    """What one value of a factor does. `label`, of the main factor's, names an arm."""

    # In these places and in those of `CommandLevel`: how the client speaks, by which library on the wire, what it asks
    # of the server, what differs in a workload, what the lab's servers are, which of a user's own servers is asked, and
    # what evidence must show besides. No other code knows a level by its name.
    label: str = ""
    transport: dict[str, Any] = Field(default_factory=dict)
    tls_library: str = ""
    service: dict[str, Any] = Field(default_factory=dict)
    workload: dict[str, dict[str, Any]] = Field(default_factory=dict)
    lab: dict[str, Any] = Field(default_factory=dict)
    target: dict[str, Any] = Field(default_factory=dict)
    evidence: dict[str, str] = Field(default_factory=dict)
    near_round_trips: float | None = None

    @property
    def effect(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True, exclude={"label"})


def holds(when: Mapping[str, list[str]], levels: Mapping[str, str]) -> bool:
    """Whether an arm of these levels is one that something applies `when`."""
    return all(levels.get(factor) in wanted for factor, wanted in when.items())


class Factor(Model):
    """What is varied. `when` names the levels of other factors that it applies with (a key size needs TLS).

    The first of its levels in a run (the default's, a profile's or the user's) is where it stands in an arm that says
    nothing of it.
    """

    label: str
    words: str = Field(default="", description="An arm's level of a context, such as '{level} terminals'.")
    phrases: dict[str, str] = Field(default={}, description="By level, where `words` do not fit: 'an ECDSA key'.")
    levels: dict[str, Level] = Field(description="By name; a list of names where `each` says all that they do.")
    each: Level = Field(default=Level(), description="What every level does; '{level}' stands for its name.")
    default: list[str]
    when: dict[str, list[str]] = {}
    lab_only: bool = Field(default=False, description="The servers' own affair: a target is taken as it is.")
    as_served: bool = Field(
        default=False, description="The client's affair, but a target is taken as it is unless a level is asked for."
    )
    context: bool = Field(
        default=False, description="A setting, such as the distance, that the control has too: effects lie within it."
    )
    slow: bool = Field(
        default=False, description="Takes seconds to change: slices at one level follow each other, in all contexts."
    )
    replaced_by_load: bool = Field(default=False, description="How connections are used: a load says it instead.")
    milliseconds: dict[str, float] = Field(
        default={}, description="Round-trip time of each level; any other number of milliseconds is a level too."
    )

    @field_validator("levels", mode="before", json_schema_input_type=dict[str, Level] | list[str])
    @classmethod
    def _listed(cls, levels: Any) -> Any:
        return {name: {} for name in levels} if isinstance(levels, list) else levels

    @model_validator(mode="after")
    def _default_is_a_level(self) -> Self:
        unknown = [level for level in self.default if not self.allows(level)]
        if unknown or not self.default:
            raise ValueError(f"default {self.default} is not among the levels {list(self.levels)}")
        return self

    def effects(self, level: str) -> list[tuple[dict[str, Any], str]]:
        """What a level does, for `merge_settings`."""
        own = self.levels.get(level, Level())
        return [] if level == AS_SERVED else [(self.each.effect, level), (own.effect, level)]

    def phrase(self, level: str) -> str:
        """A level within a sentence: 'an ECDSA key', '16 terminals', or the factor's label and the level."""
        return self.phrases.get(level) or self.words.format(level=level) or f"{self.label} {level}"

    def allows(self, level: str) -> bool:
        """Whether `level` may be chosen."""
        return level in self.levels or (bool(self.milliseconds) and round_trip_ms(level) is not None)


def round_trip_ms(level: str) -> float | None:
    """A level that is a number of milliseconds, from 0 to 10,000; None for anything else."""
    try:
        value = float(level)
    except ValueError:
        return None
    return value if 0 <= value <= LONGEST_ROUND_TRIP_MS else None


class Workload(Model):
    """What is done in a slice. `view` says by whom: 'wire' by the engine, 'app' by a driver that applications use,
    'command' by a program of the user's own."""

    label: str
    view: Literal["wire", "app", "command"]
    driver: str | None = Field(default=None, pattern=MODULE_NAME, description="View app; absent: the protocol's.")
    kind: str
    workers: int = 1
    target_workers: int | None = Field(
        default=None, gt=0, description="On a user's own servers, which may answer so fast that clients would queue."
    )
    first_operation: bool = Field(default=True, description="Kind connect: whether a trial holds an operation.")
    further_operations: int = Field(default=0, description="Kind connect: so many more after the first one.")
    keep_connections: bool = Field(default=False, description="Kind request: over connections that stand, on any arm.")
    pace: Pace | None = Field(default=None, description="Absent: a closed loop, as many in flight as workers.")
    think_ms: float | None = Field(default=None, gt=0, description="So long a worker rests before each, on average.")
    ycsb: Options = Field(default={}, description="Kind ycsb: what differs from YCSB's, by the engine's names.")
    tpcc: Options = Field(default={}, description="Kind tpcc: what differs from defaults, by the engine's names.")
    command: CommandProgram | None = Field(default=None, description="View command: the program.")
    when: dict[str, list[str]] = Field(default={}, description="The levels of arms that it is done on; else all.")

    def is_done_on(self, levels: Mapping[str, str]) -> bool:
        return holds(self.when, levels)

    @property
    def keeps_its_length(self) -> bool:
        """Whether no slice of it may be shorter than it is planned."""
        return self.pace is not None or self.takes_duration

    @property
    def takes_duration(self) -> bool:
        """Whether its program runs once in a slice, and ends that itself."""
        return self.command is not None and self.command.takes_duration

    @property
    def instrument(self) -> str:
        """Who measures it: a driver by its name, or whoever its view stands for."""
        return self.driver or self.view


class SliceSize(Model):
    """A slice ends after `operations` or `seconds`, whichever comes first."""

    operations: int = Field(gt=0)
    seconds: float = Field(gt=0)
    workers: int | None = Field(default=None, gt=0, description="Instead of the workload's own number.")

    def times(self, share: float) -> SliceSize:
        """So long a share of it."""
        return self.model_copy(update={"operations": ceil(self.operations * share), "seconds": self.seconds * share})


class Profile(Model):
    """How much is measured. `factors` replaces defaults of the study's factors."""

    description: str
    budget: str
    precision: float = Field(gt=0, lt=1, description="Asked half-width of the headline ratios' intervals.")
    rounds: tuple[int, int] = Field(description="Fewest and most rounds.")
    warm_up_rounds: int = 1
    records: int = Field(default=0, description="To load before the first slice; 0 where the service holds no data.")
    slices: dict[str, SliceSize]
    factors: dict[str, list[str]] = {}
    also: list[dict[str, str]] = Field(
        default=[],
        description="One change at a time: arms beside the combinations, each the first of them but for these levels.",
    )


class ServiceReference(Model):
    """What a study is asked of: a folder of `costof/services/`, and for 'server' a program of `costof/programs/`."""

    kind: str = Field(pattern=MODULE_NAME)
    program: str | None = Field(default=None, pattern=MODULE_NAME)

    @model_validator(mode="after")
    def _server_is_of_a_program(self) -> Self:
        if (self.kind == SERVER) != (self.program is not None):
            raise ValueError(f"a program goes with kind '{SERVER}', and with no other")
        return self


class Study(Model):
    """A question. Of commands much goes without saying (`study/commands.py`), and a file may leave it out."""

    name: str = Field(description="The file's own name.")
    title: str
    question: str
    protection: str = Field(description="What costs, in a sentence such as '… adds 3 ms': 'TLS'.")
    service: ServiceReference
    control: dict[str, str]
    factors: dict[str, Factor]
    workloads: dict[str, Workload]
    metrics: dict[str, Metric]
    profiles: dict[str, Profile]
    target_control: dict[str, str] = Field(
        default={}, description="Levels of the control when a target is asked, whose servers are taken as they stand."
    )
    excludes: list[dict[str, str]] = Field(default=[], description="Levels that do not go together.")
    sections: dict[str, Any] = Field(
        default={},
        description="What a section of the report is asked, by its name: `costof/report/sections/` validates it.",
    )
    published: Published | None = None
    connections: int = Field(default=96, gt=0, description="With --load, the most that clients hold at once.")
    limits: dict[str, str] = Field(default={}, description="By metric, the most that it may cost: '+10%'.")
    secrets: dict[str, SecretSource] = Field(
        default={}, description="Environment variables of commands that nobody may read, and where they come from."
    )

    @field_validator("service", mode="before", json_schema_input_type=ServiceReference | Literal["command"])
    @classmethod
    def _named(cls, service: Any) -> Any:
        return {"kind": service} if isinstance(service, str) else service

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, content: Any) -> Any:
        return completed(content)

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        for name, metric in self.metrics.items():
            if metric.workload not in self.workloads:
                raise ValueError(f"metric {name} asks for the unknown workload {metric.workload}")
        for name, workload in self.workloads.items():
            self._check_when(f"workload {name}", workload.when)
        for name, factor in self.factors.items():
            self._check_when(f"factor {name}", factor.when)
            for level in factor.levels:
                unknown = merge_client_settings(factor.effects(level)).workload.keys() - self.workloads
                if unknown:
                    raise ValueError(f"level {level} of {factor.label} changes unknown workloads {sorted(unknown)}")
        for name, profile in self.profiles.items():
            if {slice_name.removesuffix(FAR) for slice_name in profile.slices} != set(self.workloads):
                raise ValueError(f"profile {name} must give the slice size of each workload: {list(self.workloads)}")
        return self

    def _check_when(self, what: str, when: Mapping[str, list[str]]) -> None:
        for name, levels in when.items():
            factor = self.factors.get(name)
            if factor is None:
                raise ValueError(f"{what} applies with levels of the unknown factor {name}")
            unknown = [] if factor.milliseconds else [level for level in levels if level not in factor.levels]
            if unknown:
                raise ValueError(f"{what} applies with unknown levels of {name}: {', '.join(unknown)}")

    @property
    def main_factor(self) -> str:
        """The factor whose level makes an arm the control or not: the first."""
        return next(iter(self.factors))

    @property
    def labels(self) -> dict[str, str]:
        """An arm's label by its level of the main factor."""
        return {name: level.label or name for name, level in self.factors[self.main_factor].levels.items()}

    def arm_settings(self, levels: dict[str, str]) -> ArmSettings:
        """What an arm of these levels asks for."""
        return merge_settings(effect for name, level in levels.items() for effect in self.factors[name].effects(level))

    def variant(self, workload: str, levels: dict[str, str]) -> str:
        """What tells a workload's options on such an arm from the usual ones, such as 'read_share 0.5'; '' where
        nothing does. Another number of workers is no other option."""
        found = []
        for name, level in levels.items():
            effects = [effect.get("workload", {}).get(workload, {}) for effect, _ in self.factors[name].effects(level)]
            found += [f"{name} {level}"] if any(options.keys() - {"workers"} for options in effects) else []
        return ", ".join(found)

    @property
    def wire_connect(self) -> str | None:
        """The workload in which the engine makes connections, where there is one."""
        found = (name for name, each in self.workloads.items() if (each.view, each.kind) == ("wire", "connect"))
        return next(found, None)

    @property
    def warehouses(self) -> int:
        """Of TPC-C's tables, which are loaded before the first slice; 0 where the study is of another kind."""
        of = [int(each.tpcc.get("warehouses", 1)) for each in self.workloads.values() if each.kind == "tpcc"]
        return max(of, default=0)

    @property
    def distance_factor(self) -> str | None:
        """The factor that says how far the client is, where the study has one."""
        return next((name for name, factor in self.factors.items() if factor.milliseconds), None)

    def distance(self, levels: dict[str, str]) -> str:
        """The name of the distance that an arm's levels ask for: the level's own.

        A number has one spelling here, since a user may write it in several.
        """
        name = self.distance_factor
        if name is None:
            return "lan"
        return levels[name] if levels[name] in self.factors[name].milliseconds else f"{self.round_trip_ms(levels):g}ms"

    def round_trip_ms(self, levels: dict[str, str]) -> float:
        """Round-trip time that an arm's levels ask for; 0 where the study knows no distance."""
        name = self.distance_factor
        if name is None:
            return 0.0
        known = self.factors[name].milliseconds
        # A target is as far as it is: nothing is added to its own round trip.
        return known[levels[name]] if levels[name] in known else round_trip_ms(levels[name]) or 0.0
