"""Break-even: from how many operations a connection a protection costs less than a share, or no longer saves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from costof import format as fmt
from costof.model import Model
from costof.report.blocks import FILES, HTML, Block, Bullets, Figure, Table
from costof.report.canvas import Legend
from costof.report.section import Section, sentences
from costof.report.sections.break_even.curve import caption, curves, draw
from costof.report.sections.break_even.points import SHARES, Point, Until, whole
from costof.results.index import VIEWS, Index, Setting
from costof.results.models import Arm, Core, Sentence
from costof.results.run import Run
from costof.statistics.break_even import Operations, Rounds, break_even, saves_below
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.study.arms import PlannedArm


class Asked(Model):
    """Which metrics give the cost of a connection and of an operation on it, in one view."""

    view: str
    connection: str
    operation: str


class BreakEvenSection(Section[list[Asked], list[Point]]):
    name, title, order = "break_even", "Break-even", 80
    spec, data = list[Asked], list[Point]
    default: ClassVar[list[Asked]] = []

    def metrics(self, spec: list[Asked]) -> list[str]:
        return [name for each in spec for name in (each.connection, each.operation)]

    def compute(self, run: Run, core: Core, spec: list[Asked]) -> list[Point]:
        """Of each arm under each share."""
        found = []
        for asked in spec:
            for arm in run.plan.protected:
                names = (arm.baseline or "", arm.name)
                pairs = [(metric, name) for metric in (asked.connection, asked.operation) for name in names]
                if numbers := run.together(*pairs, fewest=FEWEST_ROUNDS):
                    found += [_point(Rounds(*numbers), asked, arm, share, run.plan.seed) for share in SHARES]
        return found

    def answer(self, index: Index, data: list[Point]) -> list[Sentence]:
        return sentences("break_even", [*_texts(index, data)])

    def blocks(self, index: Index, data: list[Point]) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("break_even")]:
            yield Bullets(lines, label="Break-even")
        if found := curves(index):
            colours = {curve.colour: curve.arm.label for curve in found}
            legend = [Legend(colour, label) for colour, label in colours.items()]
            title = "What it costs by operations a connection"
            yield Figure(
                "break-even", title, caption(found), lambda width: draw(found, index, data, width), legend, media=HTML
            )
        if index.many_settings and data:
            yield _table(index, data)


def _point(rounds: Rounds, asked: Asked, arm: PlannedArm, share: float, seed: int) -> Point:
    needed = break_even(rounds, share, seed)
    value, low, high = (each if math.isfinite(each) else None for each in (needed.value, needed.low, needed.high))
    saves = _until(saves_below(rounds, seed))
    return Point(view=asked.view, arm=arm.name, share=share, operations=value, low=low, high=high, saves=saves)


def _until(saved: Operations) -> Until | None:
    if not 0 < saved.value < math.inf:
        return None
    return Until(operations=saved.value, low=saved.low, high=saved.high if math.isfinite(saved.high) else None)


def _texts(index: Index, data: list[Point]) -> Iterator[str]:
    """A text for each protection and view: of all shares, or with several settings of the largest share in each."""
    arms = index.answered
    many = len({arm.context for arm in arms}) > 1
    largest = max((point.share for point in data), default=0.0)
    for protection in dict.fromkeys(arm.protection for arm in arms):
        of = [arm for arm in arms if arm.protection == protection]
        for view, words in VIEWS.items():
            points = [(arm, point) for arm in of for point in data if (point.arm, point.view) == (arm.name, view)]
            asked = [(arm, point) for arm, point in points if not many or point.share == largest]
            if asked:
                first, *others = _clauses(asked)
                yield f"{fmt.capital(words)}, {first.format(of[0].label)}." + "".join(
                    f" {fmt.capital(other.format('it'))}." for other in others
                )


def _clauses(points: list[tuple[Arm, Point]]) -> list[str]:
    """What is reached, what never is, and what this run cannot tell; '{}' stands for what is protected with."""
    reached: dict[float, list[str]] = {}
    for arm, p in points:
        if p.operations is not None:
            reached.setdefault(p.share, []).append(f"{arm.at} {_from(p)}".strip())
    out_of_reach = [(arm, p) for arm, p in points if p.operations is None and p.low is None]
    never = [(arm, p) for arm, p in out_of_reach if p.saves is None]
    saving = {arm.name: (arm, p.saves) for arm, p in out_of_reach if p.saves is not None}
    parts = [f"under {fmt.share(share)} {fmt.listed(each)}" for share, each in reached.items()]
    found = [f"{{}} costs {fmt.listed(parts)}"] if parts else []
    if never:
        share = max(p.share for _, p in never)
        where = fmt.listed([arm.at.strip() for arm, p in never if p.share == share])
        found.append(
            f"{{}} costs {fmt.share(share)} or more {where}".rstrip() + ", however many queries a connection carries"
        )
    for arm, saves in saving.values():
        found.append(f"{{}} saves{arm.at} {_while(saves)}, and costs where it carries more")
    for arm, p in points:
        if p.operations is None and p.low is not None:
            least = fmt.plural_of(whole(p.low), "query", "queries")
            found.append(
                f"this run cannot tell whether {{}} ever costs under {fmt.share(p.share)}{arm.at}; if so, a connection "
                f"must carry at least {least}"
            )
    return found


def _from(point: Point) -> str:
    """'if a connection carries 52 queries or more [48, 57]'."""
    if point.high is not None and point.high <= 1:
        return "from the first query on"
    high = whole(point.high) if point.high is not None else "no upper end in this run"
    queries = fmt.plural_of(whole(point.operations or 0), "query", "queries")
    return f"if a connection carries {queries} or more [{whole(point.low or 0)}, {high}]"


def _while(saves: Until) -> str:
    """'while a connection carries fewer than 52 queries [48, 57]'."""
    high = whole(saves.high) if saves.high is not None else "no upper end in this run"
    queries = fmt.plural_of(whole(saves.operations), "query", "queries")
    return f"while a connection carries fewer than {queries} [{whole(saves.low)}, {high}]"


def _table(index: Index, data: list[Point]) -> Table:
    """A row an arm, a column a setting and share."""
    points = {(item.view, item.arm, item.share): item for item in data}
    shares = sorted({item.share for item in data}, reverse=True)
    columns = [(setting, share) for setting in index.settings for share in shares]
    rows = []
    for view in dict.fromkeys(item.view for item in data):
        for protection, label in index.protections.items():
            found = [points.get((view, _named(setting, protection), share)) for setting, share in columns]
            rows.append([f"{label} ({view})", *(_cell(item) for item in found)])
    head = ["with", *(f"{setting.context}: {fmt.share(share)}" for setting, share in columns)]
    return Table.of(head, rows, title="Operations a connection from which the cost is under a share", media=FILES)


def _named(setting: Setting, protection: str) -> str:
    return next((arm.name for arm in setting.arms if arm.protection == protection), "")


def _cell(item: Point | None) -> str:
    if item is None:
        return fmt.NONE
    if item.operations is None:
        return "never" if item.low is None else f"over {whole(item.low)}"
    if item.high is not None and item.high <= 1:
        return "always"
    high = whole(item.high) if item.high is not None else "no end"
    return f"{whole(item.operations)} [{whole(item.low or 0)}, {high}]"


SECTION = BreakEvenSection()
