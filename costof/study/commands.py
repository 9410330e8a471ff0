"""What goes without saying of a study of commands: its file may leave it out, and has it all the same."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic import ValidationError

from costof.instruments.commands.readers import Figure
from costof.instruments.commands.settings import CommandProgram

#: Instead of a metric's phase: a figure that a command has told, such as 'figure.tps'.
FIGURE_PREFIX = "figure."
#: The kind of service, and the view and kind of its workloads.
COMMAND = "command"
#: What a file may leave out, by the model of its part.
LEFT_OUT = {
    "Study": ("name", "question", "protection", "metrics", "profiles"),
    "Factor": ("label", "default"),
    "Workload": ("label", "view", "kind"),
}
#: Seconds of a slice: of a program that is told how long to run, and of one that is run again and again.
DEFAULT_SECONDS, AGAIN_SECONDS = 2.0, 0.5
#: Far more than fit into a slice: it ends by its seconds.
MOST_RUNS = 1000
MARGIN = 0.05
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {"description": "An answer within a minute.", "budget": "60s", "precision": 0.05, "rounds": [6, 100]},
    "default": {"description": "An answer to defend.", "budget": "5m", "precision": 0.02, "rounds": [10, 500]},
}


def completed(content: Any) -> Any:
    """What a study's file holds, with what goes without saying; any that asks no commands as it is, and whatever is no
    study at all, for whoever validates it to say so."""
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
            name: metric for workload, asked in programs.items() for name, metric in _metrics(workload, asked, programs)
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


def _is_tables(of: Any) -> TypeGuard[dict[str, dict[str, Any]]]:
    return isinstance(of, dict) and all(isinstance(each, dict) for each in of.values())


def _programs(workloads: dict[str, Any]) -> dict[str, CommandProgram]:
    """Those that are sound; the others are told of when the study is validated."""
    found = {}
    for name, workload in workloads.items():
        try:
            found[name] = CommandProgram.model_validate(workload.get("command"))
        except ValidationError:
            continue
    return found


def _metrics(
    workload: str, asked: CommandProgram, programs: dict[str, CommandProgram]
) -> list[tuple[str, dict[str, Any]]]:
    """The figures that it prints, and how long it takes and what it uses. Its time answers the question where nothing
    else does; of a program that is told how long to run it is no figure."""
    figures = {f"{FIGURE_PREFIX}{name}": figure for name, figure in asked.all_figures.items()}
    if not asked.takes_duration:
        figures[COMMAND] = Figure("time", "ms", headline=not any(each.headline for each in figures.values()))
    figures["cpu.command"] = Figure("CPU time", "ms")
    figures[f"{FIGURE_PREFIX}peak_memory"] = Figure("peak memory", "MiB")
    several = f" of {workload}" if len(programs) > 1 else ""
    return [
        (
            f"{workload}.{phase.rpartition('.')[2] if phase != COMMAND else 'time'}",
            {
                "label": figure.label + several,
                "description": DESCRIPTIONS.get(phase, "As the program tells it."),
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
    COMMAND: "From its start to its end.",
    "cpu.command": "Of the program and of its children, in each run.",
    f"{FIGURE_PREFIX}peak_memory": "The most that it had at once, where that is more than its start-up needs.",
}


def _slices(programs: dict[str, CommandProgram]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "operations": 1 if asked.takes_duration else MOST_RUNS,
            "seconds": asked.seconds or (DEFAULT_SECONDS if asked.takes_duration else AGAIN_SECONDS),
        }
        for name, asked in programs.items()
    }
