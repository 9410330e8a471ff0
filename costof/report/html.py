"""One self-contained HTML file: the answer, the table, the pictures, the evidence. No network, no font; the calculator
is the one script, and a page that cannot run it shows its table.

A section is a partial under `templates/sections/` and a line in `SECTIONS`; it is shown when it has something to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined

from costof.analysis.result import Result
from costof.document import format as fmt
from costof.document import palette
from costof.report import ab, distance, split, trees, winning_back, words
from costof.report.environment import flat
from costof.report.pictures import Picture, draw_all
from costof.report.reading import Reading

Pictures = dict[str, Picture]


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor, its title in the list of contents, and whether this run has it."""

    name: str
    title: str
    shown: Callable[[Reading, Pictures], bool] = lambda reading, pictures: True

    @property
    def template(self) -> str:
        """The partial's path under `templates/`."""
        return f"sections/{self.name}.html.j2"


SECTIONS = [
    Section("tables", "Figures", lambda reading, _: bool(reading.tables)),
    Section("costs", "What it costs"),
    Section("cures", "What wins it back", lambda reading, _: bool(reading.result.cures)),
    Section("trees", "Who followed whom", lambda reading, _: bool(reading.result.trees)),
    Section("sizing", "How many cores", lambda reading, _: bool(reading.result.sizing)),
    Section("split", split.TITLE, lambda reading, _: bool(reading.result.split)),
    Section("ab", "As ab prints it", lambda reading, _: bool(reading.result.ab)),
    Section("why", "Why", lambda reading, pictures: "phases" in pictures or bool(reading.sentences("explanation"))),
    Section("break_even", "Break-even", lambda reading, pictures: "break_even" in pictures or _said(reading)),
    Section("cost_model", "Near and far: the cost model", lambda reading, _: reading.result.cost_model is not None),
    Section("calculator", "For your own distance", lambda reading, _: bool(distance.extras(reading))),
    Section("cpu", "CPU", lambda reading, pictures: "cpu" in pictures),
    Section("certainty", "How sure", lambda reading, _: bool(reading.views or reading.result.noise_floor)),
    Section("evidence", "Evidence"),
    Section("method", "Method"),
]  # fmt: skip


def _said(reading: Reading) -> bool:
    return bool(words.break_evens(reading))


def render_html(result: Result) -> str:
    """The whole page as one string."""
    reading = Reading(result)
    pictures = draw_all(reading)
    shown = [section for section in SECTIONS if section.shown(reading, pictures)]
    page = environment().get_template("report.html.j2")
    return page.render(reading=reading, result=result, pictures=pictures, sections=shown)


def environment() -> Environment:
    """Jinja with autoescape on for everything: labels, details and facts are other people's words."""
    made = Environment(
        loader=PackageLoader("costof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(fmt=fmt, words=words, distance=distance, palette=palette, flat=flat, by_metric=_by_metric)
    made.globals.update(ab=ab, winning_back=winning_back, trees=trees, split=split)
    return made


def _by_metric(rows: list[object]) -> list[list[object]]:
    """Rows of the same metric together: with many arms its name stands once, over them."""
    return [list(group) for _, group in groupby(rows, key=lambda row: row.metric.name)]  # type: ignore[attr-defined]
