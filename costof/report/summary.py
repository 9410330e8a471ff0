"""The summary of a result: a verdict on each protection, a few key figures, the reason, and the best mitigation.

A terminal, the head of a page, its card and its copy as Markdown all show this summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.key_figures import (
    CONNECTION,
    CORES,
    OPERATION,
    KeyFigure,
    first_of_each_arm,
    two_digits,
    uneven_lines,
)
from costof.report.verdict_sentence import MOST_IN_VERDICT, verdict_figures, verdict_lines
from costof.results.index import Index
from costof.results.metrics import NS_PER_UNIT
from costof.statistics.estimate import Verdict
from costof.study.commands import COMMAND

MOST_FIGURES = 6
MOST_SENTENCES = 2
"""The verdict of a run without key figures has at most this many of the main sentences of the report."""
HOW_SURE, REDUCES_COST = "How sure", "What reduces the cost"
ROUNDS, BREAK_EVEN = "Rounds", "Break-even"
BESIDE_VERDICT = (HOW_SURE, REDUCES_COST)
NO_MITIGATION = "this run measured no mitigation"
NO_COST = "nothing, because this run found no cost"


class Summary(Model):
    verdict: str
    lines: list[str] = Field(
        default=[], description="The verdict, a line for each of its statements, such as one for each protection."
    )
    limits: str = Field(default="", description="Whether the limits of the run are kept; '' without limits.")
    figures: list[KeyFigure]
    rounds: str = Field(
        default="", description="Which rounds dominate a figure, and how far; '' if every round counts alike."
    )
    why: str = Field(default="", description="The reason for the cost, such as round trips and CPU time.")
    sure: str = Field(
        default="", description="How sure the figures are, and what makes them less sure; '' without figures."
    )
    mitigation: str = Field(
        default="",
        description="How much of the cost the best mitigation saves, or that none saves any or that none was measured; "
        "'' if nothing was protected.",
    )
    room: str = Field(default="", description="How many of the machine's cores the load needs with the protection.")
    break_even: str = Field(default="", description="From how many queries a connection the cost is small.")

    @property
    def beside_verdict(self) -> list[tuple[str, str]]:
        """Return (label, text) of the lines below the verdict: how sure it is, and what reduces the cost."""
        texts = (self.sure, self.mitigation)
        return [(label, text) for label, text in zip(BESIDE_VERDICT, texts, strict=True) if text]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Return (label, text) of further lines that are not empty: uneven rounds, cores, reason, break-even point."""
        texts = [
            (ROUNDS, self.rounds),
            ("Cores", self.room),
            ("Why", self.why),
            (BREAK_EVEN, self.break_even),
        ]
        return [(label, text) for label, text in texts if text]


def summary(index: Index, figures: Iterable[KeyFigure]) -> Summary:
    """Return the summary of a result whose sections have these key figures, the most important ones first."""
    ordered = _by_importance(_at_the_distance(figures))
    shown = first_of_each_arm(ordered, MOST_FIGURES)
    ready = [sentence.text for sentence in index.sentences("verdict")]
    if not ready and not shown:
        ready = [sentence.text for sentence in index.sentences("answer")][:MOST_SENTENCES]
    filled = index.summary_is_filled
    # The first warning is the most serious one. Further warnings would leave no room for the figures.
    first = [sentence.text for sentence in index.sentences("leading_warning")][:1]
    lines = [*first, *([*map(fmt.without_intervals, ready)] or verdict_lines(ordered))]
    return Summary(
        verdict=" ".join(lines),
        lines=lines,
        figures=shown,
        limits=_first(index, "limits"),
        rounds=" ".join(uneven_lines(shown, index.unit)),
        why=" ".join(reasons(index, shown)),
        room=_first(index, "room"),
        mitigation="" if filled else _mitigation(index, shown),
        break_even="" if filled else _first(index, "break_even"),
    )


def reasons(index: Index, figures: Sequence[KeyFigure]) -> list[str]:
    """Return the sentences that explain these figures: what operations need or what limits a rate, and a driver's part.

    A sentence about a metric that is not among the figures is left out.
    """
    metrics = {name for figure in figures for name in figure.metrics}
    explained = (each for each in index.sentences("why") if not each.metric or each.metric in metrics)
    first = next((fmt.without_intervals(each.text) for each in explained), "")
    return [*filter(None, [first, _driver(figures)])]


def _at_the_distance(figures: Iterable[KeyFigure]) -> list[KeyFigure]:
    """Return the figures that hold at the user's distance; all figures if none is predicted for this distance.

    Predicted figures come first. Measured times are left out: they hold for another distance, and users would take them
    for the answer.
    """
    every = [*figures]
    predicted = [figure for figure in every if figure.predicted]
    if not predicted:
        return every
    return [*predicted, *(figure for figure in every if not figure.predicted and figure.unit not in NS_PER_UNIT)]


def _mitigation(index: Index, figures: Sequence[KeyFigure]) -> str:
    """Return what reduces the cost; '' without figures, or for a run of commands that measured no mitigation."""
    text = _first(index, "mitigation")
    measures_only_commands = all(metric.view == COMMAND for metric in index.core.metrics)
    if not figures or (measures_only_commands and text in {"", f"{NO_MITIGATION}."}):
        return ""
    verdicts = {figure.verdict for figure in figures}
    if text and not text.startswith(NO_MITIGATION):
        return text
    has_cost = Verdict.COSTS in verdicts or verdicts == {Verdict.UNRESOLVED}
    return text or f"{NO_MITIGATION}." if has_cost else f"{NO_COST}."


def _by_importance(figures: Iterable[KeyFigure]) -> list[KeyFigure]:
    """Return the figures grouped by arm, with the most important ones of each arm first.

    - If the arm adds clearly more time in an application than on the wire, the application's time comes first, because
      users wait for the application.
    - In a run with a single arm, the figures that the verdict names come first.
    - In a run with several arms, all arms begin with the quantity that has most verdicts (`_decided_first`), and the
      figure by which mitigations are judged comes before the cores.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm, []).append(figure)
    groups = _decided_first([_application_first(group) for group in by_arm.values()])
    if len(groups) == 1 and len({figure.name for figure in groups[0]}) > 1:
        shown = verdict_figures(groups[0], MOST_IN_VERDICT)
        return [*shown, *(figure for figure in groups[0] if not any(figure is each for each in shown))]
    ordered: list[KeyFigure] = []
    for group in groups:
        judged = any(figure.decides and figure.name != CORES for figure in group)
        ordered += sorted(group, key=lambda figure: figure.name == CORES) if judged else group
    return ordered


def _decided_first(groups: list[list[KeyFigure]]) -> list[list[KeyFigure]]:
    """Return the figures of each arm, reordered so that all arms begin with the quantity that has most verdicts.

    The order matters because the summary's sentence compares the first figures of all arms. If each first figure
    already has a verdict, the order is not changed.
    """
    if len(groups) < 2 or all(group[0].verdict is not Verdict.UNRESOLVED for group in groups):
        return groups
    decided: dict[str, int] = {}
    for figure in (each for group in groups for each in group if each.name != CORES):
        decided[figure.words] = decided.get(figure.words, 0) + (figure.verdict is not Verdict.UNRESOLVED)
    best = max(decided, key=lambda words: decided[words], default="")
    return [sorted(group, key=lambda figure: figure.words != best) for group in groups]


def _application_first(group: list[KeyFigure]) -> list[KeyFigure]:
    on_wire = next((figure for figure in group if figure.unit in NS_PER_UNIT and figure.view == "wire"), None)
    slower = [
        figure
        for figure in group
        if on_wire is not None and figure.view == "app" and figure.unit == on_wire.unit
        if figure.verdict is Verdict.COSTS and figure.difference.low > on_wire.difference.high
    ]
    if not slower:
        return group
    largest = max(slower, key=lambda figure: figure.difference.value)
    rest = [
        figure.model_copy(update={"words": f"{figure.words} on the wire"})
        if figure.view == "wire" and figure.name in (CONNECTION, OPERATION) and "on the wire" not in figure.words
        else figure
        for figure in group
        if figure is not largest
    ]
    return [largest, *rest]


def _driver(figures: Sequence[KeyFigure]) -> str:
    """Return a sentence about the added time of a connection that comes from the application's driver.

    Return '' unless the arm adds clearly more than twice as much time in the application as on the wire.
    """
    wire = next((f for f in figures if f.name == CONNECTION and f.view == "wire"), None)
    app = figures[0] if figures else None
    if wire is None or app is None or app.view != "app" or app.verdict is not Verdict.COSTS:
        return ""
    rest = app.difference.value - wire.difference.value
    if app.arm != wire.arm or app.unit != wire.unit or app.difference.low <= 2 * wire.difference.high:
        return ""
    own = fmt.with_unit(two_digits(rest), app.unit)
    return (
        f"{own} of the {app.added.lstrip('+')} come from the application's driver; without it, "
        f"{wire.added.lstrip('+')} are added."
    )


def _first(index: Index, kind: str) -> str:
    return next((fmt.without_intervals(sentence.text) for sentence in index.sentences(kind)), "")
