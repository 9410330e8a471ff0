"""The schema of studies, each a TOML file under `costof/studies/` or the user's own.

A study names its service, its factors and levels, its workloads, metrics and profiles. This module validates everything
in a study, so that code that uses a `Study` needs no checks.
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
from costof.study.commands import FIGURE_PREFIX, add_defaults

LONGEST_ROUND_TRIP_MS = 10_000.0
FAR = "@far"
#: The kind of a service that consists of one server program.
SERVER = "server"
MODULE_NAME = r"^[a-z][a-z0-9_]*$"
#: The name of a level that stands for whatever setting the user's own servers (the target) have. costof does not change
#: it.
AS_SERVED = "as served"
UNITS_OF_PHASES = ("ms", "us", "per_second")
#: The value of `Metric.phase` for figures of the whole slice (measured window), such as its rate. The slice counts from
#: its beginning to the end of its last operation.
WHOLE_SLICE = "slice"
#: The prefix of `Metric.phase` for figures that servers report about a slice (measured window), such as
#: 'server.primary_cpu'. Services return these figures from `Service.judge`.
SERVER_PREFIX = "server."
#: The prefix of `Metric.phase` for the mean CPU time of a process per operation, such as 'cpu.gateway'.
CPU_PREFIX = "cpu."


class Metric(Model):
    """A figure of one workload: usually the mean time, in `unit`, of one phase (a timed part of an operation).

    If the unit is 'per_second', the figure is the rate that follows from the mean time: the operations a second of one
    worker or, if `all_workers` is true, of all workers together.

    Some values of `phase` do not name a phase:

    - 'slice': the number of operations divided by the elapsed time, as in ab. If the unit is a time, it is the elapsed
      time itself;
    - 'server.<name>': a figure that the servers report;
    - 'figure.<name>': a figure that a command reports;
    - 'cpu.<role>': the CPU time per operation of the process with this role, such as 'client';
    - 'bytes.<phase>': the bytes sent and received for each operation of a phase;
    - any other dotted name, such as 'tpcc.committed': events a second that the instrument counts (`SliceAnswer.count`).
    """

    label: str
    description: str
    workload: str
    phase: str
    unit: str = Field(
        default="ms",
        description="ms, us or per_second for a phase's time; any text for other figures, such as percent or 'MB/s'.",
    )
    headline: bool = False
    better: Literal["lower", "higher"] = "lower"
    all_workers: bool = False
    margin: float = Field(default=0.05, gt=0, lt=1, description="A relative cost below the margin counts as none.")

    @model_validator(mode="after")
    def _time_has_a_unit_of_time(self) -> Self:
        if not self.is_of_whole_slice and self.unit not in UNITS_OF_PHASES:
            raise ValueError(
                f"unknown unit '{self.unit}' for a phase's time (choose from: {', '.join(UNITS_OF_PHASES)})"
            )
        return self

    @property
    def is_of_whole_slice(self) -> bool:
        """True if the metric is one figure of a whole slice (measured window) and not a mean of a phase's times."""
        return self.phase == WHOLE_SLICE or "." in self.phase

    @property
    def command_figure(self) -> str | None:
        """The name of the figure that a command reports; None for any other metric."""
        return self.phase.removeprefix(FIGURE_PREFIX) if self.phase.startswith(FIGURE_PREFIX) else None


class PublishedFigure(Model):
    """A figure from the literature, shown next to the measured one."""

    metric: str
    levels: dict[str, str] = Field(description="The figure belongs to arms that have all of these levels.")
    series: str = Field(
        default="", description="The name of a series, such as 'MySQL 5.6.13', if the source has several."
    )
    control_value: Finite | None = None
    value: Finite | None = None
    ratio: Finite | None = Field(default=None, description="Arm over control, if the source has only their ratio.")

    def fits(self, arm_levels: Mapping[str, str]) -> bool:
        return all(arm_levels.get(name) == level for name, level in self.levels.items())


class Published(Model):
    source: str
    date: str
    setting: str
    figures: list[PublishedFigure]

    @property
    def cited(self) -> str:
        """A citation with source, date and setting."""
        return (
            f"The published figures are from {self.source}. Date: {self.date}. Set-up of the published measurements: "
            f"{self.setting.rstrip('.')}."
        )


#: In the texts of `Factor.each`, this placeholder stands for the level's name. `Factor.each` contains the settings that
#: all levels of the factor have in common.
LEVEL = "{level}"


class ArmSettings(CommandLevel):
    """The settings of client, server and lab that the levels of an arm (a compared configuration) require.

    `transport` is None if no level sets it.
    """

    transport: Transport | None = None
    tls_library: str = Field(default="", description="The TLS library of the engine; empty: the installed engine's.")
    service: dict[str, Any] = Field(default_factory=dict, description="Settings of the protocol's client.")
    workload: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Options that the levels change, by workload."
    )
    lab: dict[str, Any] = Field(default_factory=dict, description="Settings of the lab's servers.")
    target: dict[str, Any] = Field(default_factory=dict, description="Settings for a target's servers.")
    evidence: dict[str, str] = Field(default_factory=dict, description="Facts that client or server must confirm.")
    near_round_trips: float = Field(
        default=0.0,
        description="Round trips of a new connection that stay on the client's host, whatever the distance.",
    )

    @property
    def speaks_tls(self) -> bool:
        """True if the client itself uses TLS. It is False with a tunnel, which encrypts in the client's place."""
        return self.transport is not None and self.transport.is_tls

    def transport_trusting(self, ca_file: Path | None) -> Transport:
        """Return the arm's transport with a CA file to trust. The transport is plain if no level sets one."""
        return (self.transport or PLAIN).trusting(ca_file)


def merge_settings(effects: Iterable[tuple[dict[str, Any], str]]) -> ArmSettings:
    """Merge the settings that the levels of an arm require.

    A later level overrides the settings of earlier ones, except that lists are joined.

    Each entry of `effects` has a level's settings and the level's name, which replaces '{level}' in texts. Raises
    `ValueError` for invalid settings.
    """
    settings: dict[str, Any] = {}
    for effect, level in effects:
        _merge(settings, _fill_in_level(effect, level))
    return ArmSettings.model_validate(settings)


def merge_level_settings(effects: Iterable[tuple[dict[str, Any], str]]) -> ArmSettings:
    """Merge the settings that a single level requires. The transport is plain if the level sets none."""
    return merge_settings([({"transport": {"kind": PLAIN.kind}}, ""), *effects])


def _merge(into: dict[str, Any], effect: dict[str, Any]) -> None:
    for key, value in effect.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, []), *value]
        else:
            into[key] = value


def _fill_in_level(effect: Any, level: str) -> Any:
    if isinstance(effect, dict):
        return {key: _fill_in_level(value, level) for key, value in effect.items()}
    if isinstance(effect, list):
        return [_fill_in_level(each, level) for each in effect]
    return effect.replace(LEVEL, level) if isinstance(effect, str) else effect


class Level(CommandLevel):
    """The requirements of one level of a factor, such as 'tls', for client, server and lab.

    An arm has one level of each factor. The fields of these levels are merged into the arm's `ArmSettings`.
    costof's code uses only these fields and never the level's name, so a study may choose any names. The `label` of a
    level of the main factor becomes the name of an arm in reports.
    """

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

    @property
    def exists_only_on_target(self) -> bool:
        """True if only the user's own servers can have this level, such as their own pooler, and no lab can."""
        return bool(self.target) and not (self.lab or self.service)


def holds(when: Mapping[str, list[str]], levels: Mapping[str, str]) -> bool:
    """Return whether an arm with these levels fulfils the condition `when`, such as `{"transport": ["tls"]}`."""
    return all(levels.get(factor) in allowed for factor, allowed in when.items())


class Factor(Model):
    """A factor of the experiment: something that a study varies, such as the kind of key, with its levels.

    `when` is the condition under which the factor applies: `{"transport": ["tls"]}` for a key, because a key needs TLS.

    In most runs only some factors vary. All arms then have the same level of any other factor: the first that the user,
    the profile or `default` names.
    """

    label: str
    words: str = Field(default="", description="Text for a level within a sentence, such as '{level} terminals'.")
    phrases: dict[str, str] = Field(
        default={}, description="Texts for levels that `words` does not fit: 'an ECDSA key'."
    )
    levels: dict[str, Level] = Field(description="Levels by name, or a list of names if `each` has all effects.")
    each: Level = Field(default=Level(), description="Effects of every level; '{level}' stands for its name.")
    default: list[str]
    when: dict[str, list[str]] = {}
    lab_only: bool = Field(
        default=False, description="True if only a lab can vary the factor, since it is a property of the servers."
    )
    as_served: bool = Field(
        default=False, description="True if a target's servers keep their own setting, unless the user names a level."
    )
    context: bool = Field(
        default=False,
        description="True if the factor, like the distance, applies to the control too: an arm and its control have "
        "the same level.",
    )
    slow: bool = Field(
        default=False,
        description="True if a change takes seconds; slices at one level are then measured in succession.",
    )
    replaced_by_load: bool = Field(
        default=False, description="True if --load removes the factor, because both set how connections are used."
    )
    milliseconds: dict[str, float] = Field(
        default={}, description="Round-trip time of each level, in ms; any other number of ms is a level too."
    )

    paths: bool = Field(
        default=False,
        description="True if the absolute path of a folder is a level too, such as that of a server's build.",
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
        """Return the settings that a level requires, in the order in which they are merged.

        Each entry has the settings and the level's name. The list is empty for the level `AS_SERVED`.
        """
        by_name = self.levels.get(level, Level())
        return [] if level == AS_SERVED else [(self.each.effect, level), (by_name.effect, level)]

    def phrase(self, level: str) -> str:
        """Return words for a level in a sentence, such as 'an ECDSA key', or else the factor's label and the level."""
        return self.phrases.get(level) or self.words.format(level=level) or f"{self.label} {level}"

    def allows(self, level: str) -> bool:
        """Return whether `level` is a level of the factor.

        The study names the levels. A distance may also be a number of milliseconds, such as '20'. A level of a factor
        with `paths` may also be an absolute path.
        """
        if level in self.levels or (self.milliseconds and round_trip_ms(level) is not None):
            return True
        return self.paths and level.startswith("/")


def round_trip_ms(level: str) -> float | None:
    """Return the number of milliseconds that a level such as '20' means, from 0 to 10,000; None for any other text."""
    try:
        value = float(level)
    except ValueError:
        return None
    return value if 0 <= value <= LONGEST_ROUND_TRIP_MS else None


class Workload(Model):
    """The operations that a slice (a measured window) performs.

    `view` says what performs the operations: 'wire' means costof's load generator, 'app' an application's driver, and
    'command' a program of the user.
    """

    label: str
    view: Literal["wire", "app", "command"]
    driver: str | None = Field(
        default=None, pattern=MODULE_NAME, description="The driver of view app; absent: the protocol's default."
    )
    kind: str
    workers: int = 1
    target_workers: int | None = Field(
        default=None,
        gt=0,
        description="Workers on a target, if fewer than in a lab, so that the clients do not wait for each other.",
    )
    first_operation: bool = Field(
        default=True, description="For kind `connect`: whether each connection performs an operation."
    )
    further_operations: int = Field(
        default=0, description="For kind `connect`: number of operations on each connection after the first one."
    )
    keep_connections: bool = Field(
        default=False, description="For kind `request`: whether connections stay open between requests, on every arm."
    )
    pace: Pace | None = Field(
        default=None,
        description="Rate of arrivals. Absent: a closed loop, with as many operations in flight as workers.",
    )
    think_ms: float | None = Field(default=None, gt=0, description="Average pause of a worker before each operation.")
    ycsb: Options = Field(
        default={}, description="For kind `ycsb`: properties that differ from YCSB's defaults, by the engine's names."
    )
    tpcc: Options = Field(
        default={}, description="For kind `tpcc`: options that differ from the defaults, by the engine's names."
    )
    command: CommandProgram | None = Field(default=None, description="The program of view command.")
    when: dict[str, list[str]] = Field(
        default={}, description="Levels that an arm needs for this workload; empty: any."
    )

    def is_done_on(self, levels: Mapping[str, str]) -> bool:
        return holds(self.when, levels)

    @property
    def keeps_its_length(self) -> bool:
        """True if slices (measured windows) of the workload must not be shorter than planned."""
        return self.pace is not None or self.takes_duration

    @property
    def takes_duration(self) -> bool:
        """True if the workload is a program that runs once in a measured window, as long as its command line says."""
        return self.command is not None and self.command.takes_duration

    @property
    def takes_rate(self) -> bool:
        """True if the workload is a program whose command line sets a rate of operations."""
        return self.command is not None and self.command.takes_rate

    @property
    def instrument(self) -> str:
        """The name of the process that measures the workload, such as 'wire' for the load generator.

        It is the name of the workload's driver or, without one, the workload's view.
        """
        return self.driver or self.view


class SliceSize(Model):
    """A slice ends after `operations` or `seconds`, whichever comes first."""

    operations: int = Field(gt=0)
    seconds: float = Field(gt=0)
    workers: int | None = Field(default=None, gt=0, description="Replaces the workload's number of workers.")

    def times(self, share: float) -> SliceSize:
        """Return the size with both its number of operations and its seconds multiplied by `share`."""
        return self.model_copy(update={"operations": ceil(self.operations * share), "seconds": self.seconds * share})


class Profile(Model):
    """How much a run measures, such as its time budget. `factors` replaces default levels of the study's factors."""

    description: str
    budget: str
    precision: float = Field(
        gt=0, lt=1, description="The run may end once the intervals of all headline ratios have this half-width."
    )
    rounds: tuple[int, int] = Field(description="Minimum and maximum number of rounds.")
    warm_up_rounds: int = 1
    records: int = Field(
        default=0, description="Records to load before the first slice; 0 if the service holds no data."
    )
    slices: dict[str, SliceSize]
    factors: dict[str, list[str]] = {}
    also: list[dict[str, str]] = Field(
        default=[],
        description="Additional arms, given by the levels in which they differ from the first combination.",
    )


class ClientUse(Model):
    """How a load generator measures a study (`--client`)."""

    test: str = Field(description="The load generator's own name of what it measures, such as 'oltp_insert'.")
    like: str = Field(description="The workload with which it shares the number of connections on each arm.")


class ServiceReference(Model):
    """The service of a study: a folder of `costof/services/`, and for 'server' a program of `costof/programs/`."""

    kind: str = Field(pattern=MODULE_NAME)
    program: str | None = Field(default=None, pattern=MODULE_NAME)

    @model_validator(mode="after")
    def _server_is_of_a_program(self) -> Self:
        if (self.kind == SERVER) != (self.program is not None):
            raise ValueError(f"kind '{SERVER}' needs a program, and other kinds have none")
        return self


class Study(Model):
    """A study: a question with its factors, workloads, metrics and profiles.

    The file of a study of commands may omit fields that have defaults (`study/commands.py`).
    """

    name: str = Field(description="The file's name without its ending.")
    title: str
    question: str
    protection: str = Field(description="The subject of a sentence such as '… adds 3 ms': 'TLS'.")
    service: ServiceReference
    control: dict[str, str]
    factors: dict[str, Factor]
    workloads: dict[str, Workload]
    metrics: dict[str, Metric]
    profiles: dict[str, Profile]
    target_control: dict[str, str] = Field(
        default={}, description="Levels of the control on a target, whose servers cannot be changed."
    )
    excludes: list[dict[str, str]] = Field(default=[], description="Combinations of levels that make no arm.")
    sections: dict[str, Any] = Field(
        default={},
        description="Settings of report sections by their names, validated in `costof/report/sections/`.",
    )
    published: Published | None = None
    connections: int = Field(
        default=96, gt=0, description="The maximum number of simultaneous connections with --load."
    )
    clients: dict[str, ClientUse] = Field(
        default={}, description="The test of each load generator; absent: its first one, on its usual connections."
    )
    limits: dict[str, str] = Field(default={}, description="The largest allowed cost by metric, such as '+10%'.")
    secrets: dict[str, SecretSource] = Field(
        default={}, description="Secret environment variables of commands, and their sources."
    )

    @field_validator("service", mode="before", json_schema_input_type=ServiceReference | Literal["command"])
    @classmethod
    def _named(cls, service: Any) -> Any:
        return {"kind": service} if isinstance(service, str) else service

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, content: Any) -> Any:
        return add_defaults(content)

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        for name, metric in self.metrics.items():
            if metric.workload not in self.workloads:
                raise ValueError(f"unknown workload '{metric.workload}' in metric '{name}'")
        for name, workload in self.workloads.items():
            self._check_when(f"workload {name}", workload.when)
        for name, factor in self.factors.items():
            self._check_when(f"factor {name}", factor.when)
            for level in factor.levels:
                unknown = merge_level_settings(factor.effects(level)).workload.keys() - self.workloads
                if unknown:
                    raise ValueError(f"level '{level}' of '{factor.label}' changes unknown workloads {sorted(unknown)}")
        for name, use in self.clients.items():
            if use.like not in self.workloads:
                raise ValueError(f"unknown workload '{use.like}' of client '{name}'")
        for name, profile in self.profiles.items():
            if {slice_name.removesuffix(FAR) for slice_name in profile.slices} != set(self.workloads):
                raise ValueError(f"profile {name} must give the slice size of each workload: {list(self.workloads)}")
        return self

    def _check_when(self, owner: str, when: Mapping[str, list[str]]) -> None:
        for name, levels in when.items():
            factor = self.factors.get(name)
            if factor is None:
                raise ValueError(f"'when' of {owner} names the unknown factor '{name}'")
            unknown = [] if factor.milliseconds else [level for level in levels if level not in factor.levels]
            if unknown:
                raise ValueError(f"'when' of {owner} names unknown levels of '{name}': {', '.join(unknown)}")

    @property
    def main_factor(self) -> str:
        """The study's first factor, the one whose effect is measured."""
        return next(iter(self.factors))

    @property
    def labels(self) -> dict[str, str]:
        """The label of each level of the main factor; its name if it has no label.

        The labels of arms begin with these labels.
        """
        return {name: level.label or name for name, level in self.factors[self.main_factor].levels.items()}

    def arm_settings(self, levels: dict[str, str]) -> ArmSettings:
        """Return the merged settings that these levels require of client, server and lab."""
        return merge_settings(effect for name, level in levels.items() for effect in self.factors[name].effects(level))

    def variant(self, workload: str, levels: dict[str, str]) -> str:
        """Return the levels that change a workload's options as text, such as 'read_share 0.5'; '' if there are none.

        The number of workers does not count as such an option.
        """
        changing = []
        for name, level in levels.items():
            effects = [effect.get("workload", {}).get(workload, {}) for effect, _ in self.factors[name].effects(level)]
            changing += [f"{name} {level}"] if any(options.keys() - {"workers"} for options in effects) else []
        return ", ".join(changing)

    @property
    def wire_connect(self) -> str | None:
        """The name of the load generator's workload that measures opening a connection; None if the study has none."""
        names = (name for name, each in self.workloads.items() if (each.view, each.kind) == ("wire", "connect"))
        return next(names, None)

    @property
    def warehouses(self) -> int:
        """The number of TPC-C's warehouses to load before the first measurement; 0 without TPC-C."""
        warehouses = [int(each.tpcc.get("warehouses", 1)) for each in self.workloads.values() if each.kind == "tpcc"]
        return max(warehouses, default=0)

    @property
    def distance_factor(self) -> str | None:
        """The name of the factor that sets the client's distance; None if the study has none."""
        return next((name for name, factor in self.factors.items() if factor.milliseconds), None)

    def distance(self, levels: dict[str, str]) -> str:
        """Return the name of the distance: 'us-eu', '20.5ms' for a number, or 'lan' without a distance factor."""
        name = self.distance_factor
        if name is None:
            return "lan"
        return levels[name] if levels[name] in self.factors[name].milliseconds else f"{self.round_trip_ms(levels):g}ms"

    def round_trip_ms(self, levels: dict[str, str]) -> float:
        """Return the round-trip time in ms that costof simulates for an arm with these levels; 0 without a distance."""
        name = self.distance_factor
        if name is None:
            return 0.0
        known = self.factors[name].milliseconds
        # `AS_SERVED` is the only level that is neither known nor a time. Clients then reach the user's own servers over
        # the real network, and costof adds no time.
        return known[levels[name]] if levels[name] in known else round_trip_ms(levels[name]) or 0.0
