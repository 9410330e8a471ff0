"""`costof history`: an effect over many runs, and where it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import click
from rich.console import Console

from costof.analysis.history import FEWEST_RUNS, History, histories
from costof.analysis.index import Index
from costof.document import format as fmt
from costof.document.axes import Panel, Scale
from costof.document.blocks import HTML, Block, Document, Figure, Paragraph, Part, Table
from costof.document.canvas import Sheet, grid
from costof.document.html import render_html
from costof.document.terminal import render_terminal
from costof.errors import CostofError, Problem
from costof.files import write_whole
from costof.ledger.ledger import PLAN, Ledger
from costof.model import Model
from costof.report import analyse

HEAD = ["metric", "with", "runs", "first", "last", "changed"]
CAPTION = "A dot is a run with its 95 % interval, arm against control, in percent; lines are where the cost stayed."
PANEL_HEIGHT = 150


class Histories(Model):
    """What `--json` prints. Runs are named by their folders, the oldest first."""

    study: str
    runs: list[str]
    histories: list[History]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--study", help="Whose runs, where the folder holds those of several.")
@click.option("--out", type=click.Path(path_type=Path), help="Write a page with a picture of each effect to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def history(folder: Path, study: str | None, out: Path | None, as_json: bool) -> None:
    """How costs went over the runs in FOLDER, and where they changed for good."""
    indexes = _runs(folder, study)
    name, runs = indexes[-1].core.study, [each.core.run for each in indexes]
    told = Histories(study=name, runs=runs, histories=histories(indexes))
    if out is not None:
        try:
            write_whole(out, render_html(document(indexes[-1], told)))
        except OSError as error:
            raise CostofError(Problem.FILE_NOT_WRITABLE, path=out, detail=error.strerror) from error
    if as_json:
        click.echo(told.model_dump_json(indent=2))
    else:
        render_terminal(document(indexes[-1], told), Console(highlight=False))


def _runs(folder: Path, study: str | None) -> list[Index]:
    """The runs of one study, the oldest first. Raises `NO_RUNS` and `SEVERAL_STUDIES`."""
    try:
        ledgers = [Ledger.open(path) for path in sorted(folder.iterdir()) if (path / PLAN).is_file()]
    except OSError as error:
        raise CostofError(Problem.NO_RUNS, path=folder, detail=f" ({error.strerror})") from error
    plans = [(ledger, ledger.plan().study.name) for ledger in ledgers]
    studies = sorted({name for _, name in plans})
    if study is None and len(studies) > 1:
        raise CostofError(Problem.SEVERAL_STUDIES, path=folder, studies=", ".join(studies))
    indexes = [Index(analyse(ledger)) for ledger, name in plans if study in (None, name)]
    if not indexes:
        raise CostofError(Problem.NO_RUNS, path=folder, detail=f" of {study}" if study else "")
    return sorted(indexes, key=lambda index: index.core.started)


def document(latest: Index, told: Histories) -> Document:
    """A row for each effect, and on a page a picture."""
    blocks: list[Block] = [Table.of(HEAD, _rows(latest, told.histories), texts=(0, 1, 5))]
    if any(each.steps is None for each in told.histories):
        blocks.append(Paragraph(f"Changes are looked for from {FEWEST_RUNS} runs on.", "note"))
    for number, each in enumerate(told.histories):
        title = f"{latest.metric_title(each.metric)}: {latest.label(each.arm)}"
        caption = [] if number else [CAPTION]
        blocks.append(Figure(f"history{number}", title, caption, _drawing(each), media=HTML))
    subtitle = f"{told.study} · {fmt.plural(len(told.runs), 'run')}"
    made = f"Made by costof from {fmt.plural(len(told.runs), 'run')}, {told.runs[0]} the first."
    return Document("How did the cost go?", subtitle, latest.core.started, [Part("history", "", blocks)], made)


def _rows(latest: Index, found: list[History]) -> Iterator[list[str]]:
    for each in found:
        first, last = (fmt.bare_ratio(each.points[place].ratio.value) for place in (0, -1))
        steps = [(fmt.bare_ratio(step.before), fmt.bare_ratio(step.after), step.first) for step in each.steps or []]
        changed = "; ".join(f"{before} to {after} at {run}" for before, after, run in steps)
        unchanged = fmt.NONE if each.steps is None else "no"
        labels = latest.metric_title(each.metric), latest.label(each.arm)
        yield [*labels, f"{len(each.points)}", first, last, changed or unchanged]


def _drawing(of: History) -> Callable[[int], Sheet]:
    ratios = [point.ratio.through(lambda ratio: (ratio - 1) * 100) for point in of.points]
    runs = [point.run for point in of.points]

    def draw(width: int) -> Sheet:
        everything = [each for ratio in ratios for each in (ratio.low, ratio.value, ratio.high)]
        panel = Panel(
            x=Scale(-0.5, len(ratios) - 0.5),
            y=Scale.around([*everything, 0.0], 0.06),
            x_label="runs, the oldest first",
            x_ticks=[],
            y_ticks=None,
            grid="y",
        )
        panel.across(0, "ink", 1)
        for place, ratio in enumerate(ratios):
            panel.line([(place, ratio.low), (place, ratio.high)], "arm1", 1)
            panel.dot(place, ratio.value, "arm1", 6)
        for low, high in pairwise([0, *(runs.index(step.first) for step in of.steps or []), len(ratios)]):
            level = fmean(ratio.value for ratio in ratios[low:high])
            panel.line([(low - 0.4, level), (high - 0.6, level)], "arm2", 2)
        return grid(width, [panel], PANEL_HEIGHT, columns=1)

    return draw
