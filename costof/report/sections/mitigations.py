"""Mitigations: what one change recovers of what the protection costs.

A mitigation is one level of one factor that differs from the reference, a protected arm at the factors' first levels.
What it recovers is the arm with it against the reference, paired by round, in the same run; the share of the loss has
Fieller's interval (`statistics/intervals.py`).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Model
from costof.report.blocks import FILES, HTML, Block, Figure, Paragraph, Table
from costof.report.canvas import NARROW, Panel, Scale, Sheet
from costof.report.sections import Section, sentences
from costof.results.index import Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import (
    FEWEST_ROUNDS,
    ROUNDS_FOR_INTERVAL,
    differences,
    log_ratios,
    mean_over_rounds,
    share_of_whole,
)
from costof.statistics.verdicts import Contrast, verdicts
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

HEAD = ["mitigation", "gain", "recovered of the loss", "verdict"]
METHOD = (
    "A mitigation's gain is the arm with it over the arm without it, paired by round; what it recovers is that gain "
    "divided by what the protection lost, with Fieller's interval on the same means."
)
HOW_TO_READ = "The point is what a mitigation recovers of the loss, the line its 95 % interval; 100 % is all of it."
ALL = 1.0
FROM_THE_OTHER_SIDE = {Verdict.COSTS: Verdict.SAVES, Verdict.SAVES: Verdict.COSTS}
COLOURS = {
    Verdict.SAVES: "saves",
    Verdict.COSTS: "costs",
    Verdict.NO_DIFFERENCE: "none",
    Verdict.NO_COST: "none",
    Verdict.UNRESOLVED: "unresolved",
}
ROW_HEIGHT = 40


class Spec(Model):
    """Which levels may recover what the protection costs, and by which metric that is judged."""

    metric: str
    factors: list[str]


class Mitigation(Model):
    factor: str
    level: str
    label: str
    arm: str
    gain: Estimate = Field(description="The arm with it over the reference, as a ratio, paired by round.")
    recovered: Estimate | None = Field(
        description="Share of the reference's loss against its control; 1 is all of it. None where that loss is not "
        "resolved: a share of it would be a share of nothing."
    )
    verdict: Verdict = Field(
        description="saves: it recovers something; costs: it takes more; no difference above the margin: with it or "
        "without it is the same; no cost above the margin: to go without it costs nothing above the margin."
    )


class Mitigations(Model):
    """The mitigations, the one with the largest gain first."""

    metric: str
    reference: str = Field(description="The protected arm without any of them.")
    control: str = Field(description="The reference's control.")
    found: list[Mitigation]


@dataclass(frozen=True)
class Candidate:
    """An arm that differs from the reference in one factor."""

    factor: str
    level: str
    arm: PlannedArm


class MitigationsSection(Section[Spec, Mitigations]):
    name, title, order = "mitigations", "What recovers it", 30
    spec, data = Spec, Mitigations

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric]

    def compute(self, run: Run, core: Core, spec: Spec) -> Mitigations | None:
        reference = reference_of(run.plan, spec)
        found = _mitigations(run, core, spec, reference) if reference is not None else []
        if reference is None or not found:
            return None
        higher = run.plan.study.metrics[spec.metric].better == "higher"
        found.sort(key=lambda each: each.gain.value, reverse=higher)
        return Mitigations(metric=spec.metric, reference=reference.name, control=reference.baseline or "", found=found)

    def lead(self, index: Index, data: Mitigations) -> Lead:
        return Lead(leads=True, reference=data.reference)

    def answer(self, index: Index, data: Mitigations) -> list[Sentence]:
        return sentences("answer", _texts(index, data))

    def blocks(self, index: Index, data: Mitigations) -> Iterator[Block]:
        shares = [(each, each.recovered) for each in data.found if each.recovered is not None]
        if shares:
            caption = [HOW_TO_READ, *(f"{each.label}: {fmt.percentage(share)}." for each, share in shares)]
            title = "What each mitigation recovers"
            yield Figure(self.name, title, caption, lambda width: _draw(shares, width), media=HTML)
        title = f"What recovers '{index.metric_label(data.metric)}', against {index.label(data.reference)}"
        none = f"no gain above {fmt.share(index.metrics[data.metric].margin)}"
        words = {Verdict.SAVES: "recovers", Verdict.COSTS: "takes more", Verdict.UNRESOLVED: "unresolved"}
        rows: list[list[str | Text]] = [
            [
                each.label,
                _gain(index, data, each),
                fmt.percentage(each.recovered) if each.recovered else fmt.NONE,
                words.get(each.verdict, none),
            ]
            for each in data.found
        ]
        yield Table.of(HEAD, rows, title=title, texts=(0, 3))
        yield Paragraph(METHOD, "note", media=FILES)


def reference_of(plan: Plan, spec: Spec) -> PlannedArm | None:
    """The protected arm at the first levels, in the first context: what a mitigation is held against.

    An arm that some factor of the mitigations does not apply to (plain, without a balancer) is no protected one.
    """
    first = plan.controls[0].context
    fitting = (arm for arm in plan.protected if arm.context == first and set(spec.factors) <= set(arm.levels))
    return next(fitting, None)


def _candidates(run: Run, spec: Spec, reference: PlannedArm) -> list[Candidate]:
    found: list[Candidate] = []
    firsts = {name: level for each in reversed(run.plan.arms) for name, level in each.levels.items()}
    for arm in run.plan.protected:
        names = {**reference.levels, **arm.levels}
        # What an arm needs besides, such as the size of a pool, is no other change while it stands at its first level.
        levels = {**firsts, **reference.levels}
        changed = [name for name in names if levels[name] != arm.levels.get(name)]
        alone = len(changed) == 1 and changed[0] in spec.factors and changed[0] in arm.levels
        pairs = ((spec.metric, each.name) for each in (reference, arm))
        if alone and run.common_values(*pairs, fewest=ROUNDS_FOR_INTERVAL):
            found.append(Candidate(changed[0], arm.levels[changed[0]], arm))
    return found


def _mitigations(run: Run, core: Core, spec: Spec, reference: PlannedArm) -> list[Mitigation]:
    lost = any((e.metric, e.arm, e.verdict) == (spec.metric, reference.name, Verdict.COSTS) for e in core.effects)
    metric = run.plan.study.metrics[spec.metric]
    candidates, contrasts = [], []
    for candidate in _candidates(run, spec, reference):
        logs = log_ratios(*run.samples.pairs(spec.metric, reference.name, candidate.arm.name))
        if logs is None:
            continue
        candidates.append((candidate, mean_over_rounds(logs).estimate(len(logs)).through(math.exp)))
        contexts = (reference.context, candidate.arm.context)
        floors = (floor for floor in core.noise_floor if floor.metric == spec.metric and floor.context in contexts)
        noise = max((floor.relative for floor in floors), default=0.0)
        # Going without it is judged, as a protection is: so "no cost above the margin" says that nothing is lost.
        without = mean_over_rounds([-each for each in logs])
        contrasts.append(Contrast(without, len(logs), metric.margin, noise, metric.headline, metric.better))
    found = []
    for (each, gain), verdict in zip(candidates, verdicts(contrasts), strict=True):
        names = (reference.baseline or "", reference.name, each.arm.name)
        numbers = run.common_values(*((spec.metric, name) for name in names), fewest=FEWEST_ROUNDS) if lost else None
        recovered = None
        if numbers is not None:
            control, without_it, with_it = numbers
            recovered = share_of_whole(differences(without_it, with_it), differences(without_it, control))
        found.append(
            Mitigation(
                factor=each.factor,
                level=each.level,
                label=run.plan.study.factors[each.factor].phrase(each.level),
                arm=each.arm.name,
                gain=gain,
                recovered=recovered,
                verdict=FROM_THE_OTHER_SIDE.get(verdict, verdict),
            )
        )
    return found


def _texts(index: Index, data: Mitigations) -> list[str]:
    of = {verdict: [each for each in data.found if each.verdict is verdict] for verdict in Verdict}
    helping, harmful, unresolved = of[Verdict.SAVES], of[Verdict.COSTS], of[Verdict.UNRESOLVED]
    texts, others = [], []
    if helping:
        first, amount = helping[0], _amount(index, data, helping[0])
        if first.recovered is None:
            # Without a resolved loss there is no share of it.
            recovers = f"gains {amount} of '{index.metric_label(data.metric)}'"
        elif first.recovered.low > ALL:
            recovers = f"recovers more than the whole loss ({amount})"
        else:
            recovers = f"recovers {amount} of the loss"
        more = [f"{each.label} {_amount(index, data, each)}" for each in helping[1:]]
        texts.append("; ".join([f"{first.label} {recovers}", *more]))
    if idle := [each.label for each in of[Verdict.NO_DIFFERENCE] + of[Verdict.NO_COST]]:
        others.append(f"{fmt.listed(idle)} {'recovers' if len(idle) == 1 else 'recover'} nothing measurable")
    if harmful:
        others.append(fmt.listed([f"{each.label} takes more ({_gain(index, data, each)})" for each in harmful]))
    if others:
        resolved = not (helping or unresolved)
        texts.append(f"{'No mitigation recovers anything: ' if resolved else ''}{'; '.join(others)}")
    if names := [each.label for each in unresolved]:
        texts.append(f"this run cannot tell what {fmt.listed(names)} {'recovers' if len(names) == 1 else 'recover'}")
    return [f"{fmt.capital(text)}." for text in texts]


def _amount(index: Index, data: Mitigations, each: Mitigation) -> str:
    return str(fmt.percentage(each.recovered) if each.recovered else _gain(index, data, each))


def _gain(index: Index, data: Mitigations, each: Mitigation) -> Text:
    """'+140 % [131, 149]' of a rate; a time as every ratio is shown."""
    if index.metrics[data.metric].better == "lower" or each.gain.value < 1:
        return fmt.relative(each.gain)
    shown = fmt.gain(each.gain)
    return Text(f"+{shown.value}", shown.interval)


def _draw(shown: list[tuple[Mitigation, Estimate]], width: int) -> Sheet:
    letters = 20 if width <= NARROW else 40
    ends = [100 * end for _, share in shown for end in (share.low, share.high)]
    panel = Panel(
        x=Scale.around([*ends, 0, 100], 0.06),
        y=Scale(len(shown) - 0.5, -0.5),
        x_label="recovered, % of the loss",
        most_x_ticks=5,
        y_ticks={row: textwrap.fill(each.label, letters) for row, (each, _) in enumerate(shown)},
    )
    panel.upright(0, "ink", 1)
    panel.upright(100, "soft", 1, dashes="4 3")
    for row, (each, share) in enumerate(shown):
        colour = COLOURS[each.verdict]
        panel.line([(share.low * 100, row), (share.high * 100, row)], colour, 3)
        panel.dot(share.value * 100, row, colour, 9)
    return Sheet(width, [panel], [76 + ROW_HEIGHT * len(shown)])


SECTION = MitigationsSection()
