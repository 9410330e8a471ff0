"""Default values for a study that compares commands, whose file may omit most fields."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic import ValidationError

from costof.instruments.commands.readers import Figure
from costof.instruments.commands.settings import CommandProgram

#: In a study of commands, this is the prefix of `Metric.phase` for a figure that a command prints, such as
#: 'figure.tps'.
FIGURE_PREFIX = "figure."
#: The kind of the service of every study of commands. Each workload of such a study has this value as its kind, and as
#: its view (who measures).
COMMAND = "command"
#: The fields that a study of commands may omit in its file, for each model in `study/schema.py`.
OPTIONAL_FIELDS = {
    "Study": ("name", "question", "protection", "metrics", "profiles"),
    "Factor": ("label", "default"),
    "Workload": ("label", "view", "kind"),
}
#: Default seconds of a slice (a measured window). The first number is for a program that takes a duration, the second
#: for a program that runs repeatedly.
DEFAULT_SECONDS, REPEATED_SECONDS = 2.0, 0.5
#: The maximum number of runs in a slice (measured window). Slices should end by their time limit before they reach it.
MOST_RUNS = 1000
MARGIN = 0.05
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {"description": "An answer within a minute.", "budget": "60s", "precision": 0.05, "rounds": [6, 100]},
    "default": {
        "description": "A precise answer within five minutes.",
        "budget": "5m",
        "precision": 0.02,
        "rounds": [10, 500],
    },
}


def add_defaults(content: Any) -> Any:
    """Return the content of a study file, completed with default values if it is a study of commands.

    Any other content is returned unchanged, even if it is invalid, because it is validated later.
    """
    if not isinstance(content, dict) or content.get("service") not in (COMMAND, {"kind": COMMAND}):
        return content
    factors, workloads = content.get("factors"), content.get("workloads")
    if not (_is_tables(factors) and _is_tables(workloads)):
        return content
    programs = _programs(workloads)
    title = content.get("title")
    main = next(iter(factors.items()), None)
    return {
        "question": title,
        "protection": main and main[1].get("label", main[0]),
        "metrics": {
            name: metric
            for workload, program in programs.items()
            for name, metric in _metrics(workload, program, programs)
        },
        "profiles": {name: {**profile, "slices": _slices(programs)} for name, profile in PROFILES.items()},
        **content,
        "factors": {
            name: {"label": name, "default": list(factor.get("levels", [])), **factor}
            for name, factor in factors.items()
        },
        "workloads": {
            name: {"label": name, "view": COMMAND, "kind": COMMAND, **workload} for name, workload in workloads.items()
        },
    }


def _is_tables(value: Any) -> TypeGuard[dict[str, dict[str, Any]]]:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _programs(workloads: dict[str, Any]) -> dict[str, CommandProgram]:
    """Return the valid programs by workload. Invalid ones are left out, because the study's validation reports them."""
    programs = {}
    for name, workload in workloads.items():
        try:
            programs[name] = CommandProgram.model_validate(workload.get("command"))
        except ValidationError:
            continue
    return programs


def _metrics(
    workload: str, program: CommandProgram, programs: dict[str, CommandProgram]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the metrics of a program: the figures that it prints, its run time, its CPU time and its memory.

    The run time is a headline metric (one that answers the study's question) only if no printed figure is one. A
    program that takes a duration has no metric for its run time.
    """
    figures = {f"{FIGURE_PREFIX}{name}": figure for name, figure in program.all_figures.items()}
    if not program.takes_duration:
        figures[COMMAND] = Figure("time", "ms", headline=not any(each.headline for each in figures.values()))
    figures["cpu.command"] = Figure("CPU time", "ms")
    figures[f"{FIGURE_PREFIX}peak_memory"] = Figure("peak memory", "MiB")
    several = f" of {workload}" if len(programs) > 1 else ""
    return [
        (
            f"{workload}.{phase.rpartition('.')[2] if phase != COMMAND else 'time'}",
            {
                "label": figure.label + several,
                "description": DESCRIPTIONS.get(phase, "As the program reports it."),
                "workload": workload,
                "phase": phase,
                "unit": figure.unit,
                "better": figure.better,
                "headline": figure.headline,
                "margin": MARGIN,
            },
        )
        for phase, figure in figures.items()
    ]


DESCRIPTIONS = {
    COMMAND: "From the start of the program to its end.",
    "cpu.command": "CPU time of the program and its children, for each run.",
    f"{FIGURE_PREFIX}peak_memory": "The maximum of memory in use, if it exceeds what start-up needs.",
}


def _slices(programs: dict[str, CommandProgram]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "operations": 1 if program.takes_duration else MOST_RUNS,
            "seconds": program.seconds or (DEFAULT_SECONDS if program.takes_duration else REPEATED_SECONDS),
        }
        for name, program in programs.items()
    }
