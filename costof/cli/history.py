"""`costof history`: effects over many runs, and the runs at which they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import click
from rich.console import Console

from costof import format as fmt
from costof.cli.output import write_file
from costof.errors import CostofError, ErrorText
from costof.model import Model
from costof.report import analyse
from costof.report.blocks import FILES, HTML, TERMINAL, Block, Document, Figure, Paragraph, Part, Table
from costof.report.canvas import Panel, Scale, Sheet, grid
from costof.report.html import render_html
from costof.report.terminal import render_terminal
from costof.results.history import FEWEST_RUNS, History, histories
from costof.results.index import Index
from costof.results.ledger import PLAN, Ledger
from costof.results.series import Conditions, changes_within, read_conditions, titles

HEAD = ["metric", "with", "runs", "first", "last", "changed"]
CAPTION = (
    "Dots are the cost in each run, in percent of its control, with its 95 % interval. Lines are the means of the dots "
    "between changes."
)
PANEL_HEIGHT = 150


class Series(Model):
    """A series of runs with the same question and servers.

    `runs` are the folders of the runs, oldest first. `title` says how this series differs from the other series.
    `changes` lists differences between the runs of this series that may explain why a cost changed.
    """

    title: str
    runs: list[str]
    changes: list[str]
    histories: list[History]

    @property
    def heading(self) -> str:
        return f"{self.title} ({fmt.plural(len(self.runs), 'run')})" if self.title else ""


class Histories(Model):
    """The output of `--json`: all series of a study, in the order of their oldest runs."""

    study: str
    series: list[Series]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--study", help="Show runs of this study, if the folder contains runs of several.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write an HTML page with a chart of each effect to this file."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def history(folder: Path, study: str | None, out: Path | None, as_json: bool) -> None:
    """Show how costs changed over the runs in FOLDER, and at which run a lasting change began.

    Runs that differ in the study's question, the load, the levels of factors, the servers or their releases form
    separate series.
    """
    runs = _runs(folder, study)
    by_series: dict[frozenset[tuple[str, str]], list[_Run]] = {}
    for run in runs:
        by_series.setdefault(run.conditions.series, []).append(run)
    grouped = [*by_series.values()]
    series = []
    for title, group in zip(titles([group[-1].conditions for group in grouped]), grouped, strict=True):
        names = [run.index.core.run for run in group]
        changes = [*changes_within(names, [run.conditions for run in group])]
        effects = histories([run.index for run in group])
        series.append(Series(title=title, runs=names, changes=changes, histories=effects))
    result = Histories(study=runs[-1].index.core.study, series=series)
    page = document([group[-1].index for group in grouped], result)
    if out is not None:
        write_file(out, render_html(page))
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    else:
        render_terminal(page, Console(highlight=False))


@dataclass(frozen=True)
class _Run:
    index: Index
    conditions: Conditions


def _runs(folder: Path, study: str | None) -> list[_Run]:
    """Return the runs of one study, oldest first. Raises `NO_RUNS` and `SEVERAL_STUDIES`."""
    try:
        ledgers = [Ledger.open(path) for path in sorted(folder.iterdir()) if (path / PLAN).is_file()]
    except OSError as error:
        raise CostofError(ErrorText.NO_RUNS, path=folder, detail=f" ({error.strerror})") from error
    plans = [(ledger, ledger.plan().study.name) for ledger in ledgers]
    studies = sorted({name for _, name in plans})
    if study is None and len(studies) > 1:
        raise CostofError(ErrorText.SEVERAL_STUDIES, path=folder, studies=", ".join(studies))
    runs = [_Run(Index(analyse(ledger)), read_conditions(ledger)) for ledger, name in plans if study in (None, name)]
    if not runs:
        raise CostofError(ErrorText.NO_RUNS, path=folder, detail=f" of {study}" if study else "")
    return sorted(runs, key=lambda run: run.index.core.started)


def document(latest: Sequence[Index], histories: Histories) -> Document:
    """Return a table for each series. Each effect has a row and, in HTML, a chart."""
    parts = [
        Part(f"history{number}", series.heading, [*_blocks(index, series, f"history{number}-")])
        for number, (index, series) in enumerate(zip(latest, histories.series, strict=True))
    ]
    runs = fmt.plural(sum(len(series.runs) for series in histories.series), "run")
    several = f" in {len(histories.series)} series" if len(histories.series) > 1 else ""
    footer = f"Made by costof from {runs}, the first of them {histories.series[0].runs[0]}."
    started = max(index.core.started for index in latest)
    return Document("How did the cost change?", f"{histories.study} · {runs}{several}", started, parts, footer)


def _blocks(latest: Index, series: Series, prefix: str) -> Iterator[Block]:
    # In files the heading is above the table. On a terminal the table has the heading as its title.
    for heading, media in ((series.heading, TERMINAL), ("", FILES)):
        yield Table.of(HEAD, _rows(latest, series.histories), title=heading, texts=(0, 1, 5), media=media)
    yield from (Paragraph(text, "note") for text in series.changes)
    if any(each.steps is None for each in series.histories):
        yield Paragraph(f"The search for changes needs at least {FEWEST_RUNS} runs.", "note")
    for number, each in enumerate(series.histories):
        title = f"{latest.metric_title(each.metric)}: {latest.label(each.arm)}"
        caption = [] if number else [CAPTION]
        yield Figure(f"{prefix}{number}", title, caption, _drawing(each), media=HTML)


def _rows(latest: Index, effects: list[History]) -> Iterator[list[str]]:
    for each in effects:
        first, last = (fmt.bare_ratio(each.points[place].ratio.value) for place in (0, -1))
        steps = [(fmt.bare_ratio(step.before), fmt.bare_ratio(step.after), step.first) for step in each.steps or []]
        changed = "; ".join(f"{before} to {after} at {run}" for before, after, run in steps)
        unchanged = fmt.NONE if each.steps is None else "no"
        labels = latest.metric_title(each.metric), latest.label(each.arm)
        yield [*labels, f"{len(each.points)}", first, last, changed or unchanged]


def _drawing(effect: History) -> Callable[[int], Sheet]:
    ratios = [point.ratio.through(lambda ratio: (ratio - 1) * 100) for point in effect.points]
    runs = [point.run for point in effect.points]

    def draw(width: int) -> Sheet:
        everything = [each for ratio in ratios for each in (ratio.low, ratio.value, ratio.high)]
        panel = Panel(
            x=Scale(-0.5, len(ratios) - 0.5),
            y=Scale.around([*everything, 0.0], 0.06),
            x_label="runs, oldest first",
            x_ticks=[],
            y_ticks=None,
            grid="y",
        )
        panel.across(0, "ink", 1)
        for place, ratio in enumerate(ratios):
            panel.line([(place, ratio.low), (place, ratio.high)], "arm1", 1)
            panel.dot(place, ratio.value, "arm1", 6)
        for low, high in pairwise([0, *(runs.index(step.first) for step in effect.steps or []), len(ratios)]):
            level = fmean(ratio.value for ratio in ratios[low:high])
            panel.line([(low - 0.4, level), (high - 0.6, level)], "arm2", 2)
        return grid(width, [panel], PANEL_HEIGHT, columns=1)

    return draw
