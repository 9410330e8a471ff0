"""Export of every execution that `costof versus` timed, in hyperfine's formats, for programs that read these formats.

The JSON has hyperfine's keys, with times in seconds, and one more: `costof`, with the differences and their intervals.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from costof import format as fmt
from costof.messages.answers import CommandRun
from costof.report.result import Result
from costof.results.models import Effect
from costof.results.run import Run
from costof.study.commands import COMMAND
from costof.study.versus import WORKLOAD

NS_PER_SECOND = 1e9
SECONDS_TO_MS = 1000.0
COLUMNS = ("mean", "stddev", "median", "user", "system", "min", "max")


@dataclass(frozen=True)
class CommandRuns:
    """A command, the values of its parameters, and its executions in order, without warm-up and discarded rounds."""

    arm: str
    command: str
    parameters: Mapping[str, str]
    runs: Sequence[CommandRun]

    @property
    def times(self) -> list[float]:
        return [run.elapsed_ns / NS_PER_SECOND for run in self.runs]

    @property
    def summary(self) -> dict[str, float | None]:
        """Return hyperfine's figures in seconds. The standard deviation of a single run is None."""
        times = self.times
        return {
            "mean": fmean(times),
            "stddev": stdev(times) if len(times) > 1 else None,
            "median": median(times),
            "user": fmean(run.user_ns / NS_PER_SECOND for run in self.runs),
            "system": fmean(run.system_ns / NS_PER_SECOND for run in self.runs),
            "min": min(times),
            "max": max(times),
        }


def rows(run: Run, commands: Mapping[str, tuple[str, Mapping[str, str]]]) -> list[CommandRuns]:
    """Return the executions of each command. Commands that never succeeded are left out.

    `commands` maps each arm to its command and parameters, without passwords. The executions of the warm-up and of
    discarded rounds are left out. So are those of the control's identical copy, which only shows the noise.
    """
    made = []
    for arm, (command, parameters) in commands.items():
        slices = run.counted_slices(WORKLOAD, arm)
        runs = [each for record in slices for each in record.answer.runs]
        if runs:
            made.append(CommandRuns(arm, command, parameters, runs))
    return made


def as_json(commands: Sequence[CommandRuns], result: Result) -> str:
    """Return JSON as hyperfine's --export-json writes it."""
    results = []
    for each in commands:
        entry: dict[str, Any] = {
            "command": each.command,
            **each.summary,
            "times": each.times,
            "exit_codes": [run.status for run in each.runs],
        }
        if all(run.peak_memory_bytes for run in each.runs):
            entry["memory_usage_byte"] = [run.peak_memory_bytes for run in each.runs]
        if each.parameters:
            entry["parameters"] = dict(each.parameters)
        results.append(entry)
    differences = [_difference(each, effect) for each in commands if (effect := _effect(result, each.arm)) is not None]
    return json.dumps({"results": results, "costof": {"differences": differences}}, indent=2) + "\n"


def as_csv(commands: Sequence[CommandRuns]) -> str:
    """Return CSV as hyperfine's --export-csv writes it: a row for each command."""
    names = sorted({name for each in commands for name in each.parameters})
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["command", *COLUMNS, *(f"parameter_{name}" for name in names)])
    for each in commands:
        summary = each.summary
        figures = [summary[column] or 0.0 for column in COLUMNS]
        writer.writerow([each.command, *figures, *(each.parameters.get(name, "") for name in names)])
    return file.getvalue()


def as_markdown(commands: Sequence[CommandRuns], result: Result) -> str:
    """Return hyperfine's Markdown table, with each command relative to the control, and the difference's interval."""
    heads = ["Command", "Mean [ms]", "Min [ms]", "Max [ms]", "Relative", "Difference [ms]", "Verdict"]
    lines = [heads, [":---", *["---:"] * 5, ":---"]]
    for each in commands:
        figures = {name: (value or 0.0) * SECONDS_TO_MS for name, value in each.summary.items()}
        effect = _effect(result, each.arm)
        cells = [
            f"`{each.command.replace('|', chr(92) + '|')}`",
            f"{fmt.number(figures['mean'])} ± {fmt.number(figures['stddev'])}",
            fmt.number(figures["min"]),
            fmt.number(figures["max"]),
        ]
        if effect is None:
            control = any(arm.control and arm.name == each.arm for arm in result.arms)
            cells += ["1.00" if control else "", "", ""]
        else:
            ratio = fmt.number(effect.printed_ratio.value, 2) if effect.printed_ratio else ""
            cells += [ratio, str(fmt.absolute(effect.difference)), effect.verdict.value]
        lines.append(cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| :--- |", "|:---|")


def _effect(result: Result, arm: str) -> Effect | None:
    """Return the effect of an arm on the run time of its command; None for the control."""
    metrics = {metric.name for metric in result.metrics if metric.phase == COMMAND}
    return next((effect for effect in result.effects if effect.arm == arm and effect.metric in metrics), None)


def _difference(each: CommandRuns, effect: Effect) -> dict[str, Any]:
    to_seconds = effect.difference.through(lambda milliseconds: milliseconds / SECONDS_TO_MS)
    return {
        "command": each.command,
        "difference": to_seconds.value,
        "low": to_seconds.low,
        "high": to_seconds.high,
        "ratio": effect.ratio.value if effect.ratio else None,
        "verdict": effect.verdict.value,
    }
