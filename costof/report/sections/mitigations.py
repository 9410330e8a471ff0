"""Mitigations: the share of a protection's cost that one change of a setting recovers, such as another type of key.

A factor is a setting, such as the type of key, and its levels are the values of the setting. The reference is the
protected arm with the first level of every factor. A mitigation is an arm that differs from the reference in one level.
The gain of a mitigation is its figure divided by the reference's figure, paired by round. The recovered share of the
cost has Fieller's interval (`statistics/intervals.py`).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from operator import neg

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Model
from costof.report.blocks import FILES, HTML, Block, Figure, Paragraph, Table
from costof.report.canvas import NARROW, Panel, Scale, Sheet
from costof.report.palette import VERDICT_COLOURS
from costof.report.sections import Section, sentences
from costof.report.summary import NO_MITIGATION
from costof.results.index import Index, Lead
from costof.results.models import Core, Effect, Sentence
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
from costof.studies import study_names
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Plan
from costof.study.schema import Study

HEAD = ["mitigation", "gain", "recovered share of the loss", "verdict"]
GIVES_UP = "gives up"
WHOLE = "the protection"
METHOD = (
    "The gain of a mitigation is the change from the protection alone to the protection with the mitigation, "
    "computed round by round. The recovered share of the loss is the gain of a mitigation divided by the loss, with "
    "its 95 % interval (Fieller). The loss is {loss}. A recovered share above 100 % means that the mitigation gains "
    "more than the protection costs."
)
HOW_TO_READ = (
    "Points show the recovered share of the loss, lines its 95 % interval. A share of 100 % is {loss}. Above 100 %, "
    "a mitigation gains more than that; below 0 %, a mitigation adds to the cost."
)
ALL = 1.0
INVERSE = {Verdict.COSTS: Verdict.SAVES, Verdict.SAVES: Verdict.COSTS}
ROW_HEIGHT = 40
#: Sentences put a mitigation's label in quotes if it begins with one of these words, because it would read as a part of
#: the sentence.
QUOTED = ("for ", "no ", "only ", "with ", "without ", "on ", "at ")


class Spec(Model):
    """The factors of a study whose levels may be mitigations, and the metric by which mitigations are judged.

    - `measure` is a value of `--set` with which a run measures a mitigation, such as "key=rsa-2048,ecdsa-p256". The
      report recommends it if the run did not measure these levels.
    - `unprotected` has, by factor, the levels that give up the whole protection.
    - `gives_up` has, by factor and level, the name of the part of the protection that the level gives up.
    - `several` says whether each level of the study's main factor is a protection of its own. The summary then has the
      costs of all of them, and otherwise only those of the reference.
    """

    metric: str
    factors: list[str]
    measure: str = ""
    unprotected: dict[str, list[str]] = {}
    gives_up: dict[str, dict[str, str]] = {}
    several: bool = False


class Mitigation(Model):
    """An arm that differs from the reference in one level, and what this change recovers."""

    factor: str
    level: str
    label: str
    arm: str
    gain: Estimate = Field(description="The arm with the mitigation divided by the reference, paired by round.")
    recovered: Estimate | None = Field(
        description="Share of the reference's loss against its control; 1 is the whole loss. None if that loss is "
        "unresolved."
    )
    gives_up: str = Field(
        default="",
        description="The part of the protection that it gives up, such as the encryption of the clients' connections.",
    )
    verdict: Verdict = Field(
        description="saves: the mitigation recovers something; costs: it makes the loss larger; no difference above "
        "the margin: it changes nothing; no cost above the margin: it does not gain more than the margin."
    )


class Mitigations(Model):
    """All mitigations of a protection that the run measured, the one with the largest gain first."""

    metric: str
    reference: str = Field(description="The protected arm without a mitigation.")
    control: str = Field(description="The reference's control.")
    beside: list[str] = Field(
        default=[], description="Arms beside the reference that are protections of their own, and no mitigations."
    )
    mitigations: list[Mitigation]
    measure: str = Field(
        default="", description="The value of --set with which a run measures a mitigation; '' if this run has it."
    )
    factor: str = Field(default="", description="The label of the factor in `measure`.")
    reference_levels: dict[str, str] = Field(
        default={},
        description="The reference's levels in words, such as 'one client', of those factors that the control of a "
        "mitigation has too.",
    )

    @property
    def protecting(self) -> list[Mitigation]:
        """Return the mitigations that keep at least a part of the protection."""
        return [each for each in self.mitigations if each.gives_up != WHOLE]

    @property
    def without_protection(self) -> list[Mitigation]:
        """Return the arms that give up the whole protection. Any cost that remains with them has another cause."""
        return [each for each in self.mitigations if each.gives_up == WHOLE]

    @property
    def best(self) -> Mitigation | None:
        """Return the mitigation with the largest gain, preferably one that keeps the protection; None if none helps."""
        helping = [each for each in self.protecting if each.verdict is Verdict.SAVES]
        return next((each for each in helping if not each.gives_up), next(iter(helping), None))


class MitigationsSection(Section[Spec, Mitigations]):
    name, title, order = "mitigations", "Mitigations", 30
    spec, data = Spec, Mitigations

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric]

    def compute(self, run: Run, core: Core, spec: Spec) -> Mitigations | None:
        study = run.plan.study
        spec = _with_installed_advice(study, spec)
        reference = reference_of(run.plan, spec)
        mitigations = _mitigations(run, core, spec, reference) if reference is not None else []
        if reference is None:
            return None
        higher = study.metrics[spec.metric].better == "higher"
        mitigations.sort(key=lambda each: each.gain.value, reverse=higher)
        advice = spec.measure
        factor, _, levels = advice.partition("=")
        known = {arm.levels[factor] for arm in run.plan.arms if factor in arm.levels}
        # On a target, recommend no mitigation: a run cannot change the settings of the user's servers.
        measure = "" if run.plan.target or known >= set(levels.split(",")) else advice
        # The advice is for a run of the installed study, so the factor has its label in that study.
        factors = {**study.factors, **(_installed(study.name) or study).factors}
        return Mitigations(
            metric=spec.metric,
            reference=reference.name,
            control=reference.control_arm or "",
            beside=_beside(run.plan, reference) if spec.several else [],
            mitigations=mitigations,
            measure=measure,
            factor=factors[factor].label if measure else "",
            reference_levels={
                each.factor: changed.phrase(reference.levels[each.factor])
                for each in mitigations
                if (changed := study.factors[each.factor]).context and each.factor in reference.levels
            },
        )

    def lead(self, index: Index, data: Mitigations) -> Lead:
        if not data.mitigations:
            return Lead()
        return Lead(leads=True, reference=data.reference, beside=frozenset(data.beside), judged_by=data.metric)

    def answer(self, index: Index, data: Mitigations) -> list[Sentence]:
        return [
            *sentences("answer", _texts(index, data)),
            *sentences("mitigation", [_what_reduces_the_cost(index, data)]),
        ]

    def blocks(self, index: Index, data: Mitigations) -> Iterator[Block]:
        if data.without_protection:
            yield Paragraph(" ".join(remaining(index, data)))
        if not data.protecting:
            return
        loss = _whose_loss(index, data)
        shares = [(each, each.recovered) for each in data.protecting if each.recovered is not None]
        if shares:
            caption = [
                HOW_TO_READ.format(loss=loss),
                *(f"{fmt.capital(_subject(each))} {_recovers(each, share)}." for each, share in shares),
            ]
            title = "What each mitigation recovers"
            yield Figure(self.name, title, caption, lambda width: _draw(shares, width), media=HTML)
        title = f"Mitigations for {index.label(data.reference)}: '{index.metric_label(data.metric)}'"
        none = f"no gain above {fmt.share(index.metrics[data.metric].margin)}"
        words = {Verdict.SAVES: "recovers", Verdict.COSTS: "adds to the cost", Verdict.UNRESOLVED: "unresolved"}
        partly = any(each.gives_up for each in data.protecting)
        rows: list[list[str | Text]] = [
            [
                each.label,
                _gain(index, data, each),
                _share(each),
                words.get(each.verdict, none),
                *([each.gives_up or "nothing"] if partly else []),
            ]
            for each in data.protecting
        ]
        yield Table.of(
            [*HEAD, *([GIVES_UP] if partly else [])], rows, title=title, texts=(0, 3, 4) if partly else (0, 3)
        )
        yield Paragraph(METHOD.format(loss=loss), "note", media=FILES)


def _with_installed_advice(study: Study, spec: Spec) -> Spec:
    """Return the run's spec with the advice of the installed study of the same name, if there is one.

    The study of this run may be older. The advice is for the next run, which uses the installed study. The installed
    study also says which of its factors are mitigations.
    """
    installed = _installed(study.name)
    if installed is None or "mitigations" not in installed.sections:
        return spec
    newer = Spec.model_validate(installed.sections["mitigations"])
    own = [name for name in spec.factors if name not in installed.factors]
    factors = [*(name for name in newer.factors if name in study.factors), *own]
    advice = newer.model_dump(include={"measure", "unprotected", "gives_up", "several"})
    return spec.model_copy(update=advice | {"factors": factors})


@cache
def _installed(name: str) -> Study | None:
    return load_study(name) if name in study_names() else None


def reference_of(plan: Plan, spec: Spec) -> PlannedArm | None:
    """Return the reference, which is the protected arm without a mitigation; None if there is none.

    It is the first protected arm in the run's first context that has a level of every factor of the spec.
    """
    first = plan.controls[0].context
    fitting = (arm for arm in plan.protected if arm.context == first and set(spec.factors) <= set(arm.levels))
    return next(fitting, None)


def _beside(plan: Plan, reference: PlannedArm) -> list[str]:
    """Return the arms that differ from the reference in the study's main factor and in no other."""
    return [
        arm.name
        for arm in plan.protected
        if arm.context == reference.context
        if [name for name, level in arm.levels.items() if level != reference.levels.get(name, level)]
        == [plan.study.main_factor]
    ]


def _candidates(run: Run, spec: Spec, reference: PlannedArm) -> list[tuple[str, PlannedArm]]:
    """Return (factor, arm) for each arm that may be a mitigation: it differs from the reference in only this factor."""
    candidates: list[tuple[str, PlannedArm]] = []
    firsts = {name: level for each in reversed(run.plan.arms) for name, level in each.levels.items()}
    for arm in run.plan.protected:
        names = {**reference.levels, **arm.levels}
        # If the reference has no level of a factor, such as a pool's size, assume that it has the factor's first level.
        levels = {**firsts, **reference.levels}
        changed = [name for name in names if levels[name] != arm.levels.get(name)]
        is_single = len(changed) == 1 and changed[0] in spec.factors and changed[0] in arm.levels
        pairs = ((spec.metric, each.name) for each in (reference, arm))
        if is_single and run.common_values(*pairs, fewest=ROUNDS_FOR_INTERVAL):
            candidates.append((changed[0], arm))
    return candidates


def _mitigations(run: Run, core: Core, spec: Spec, reference: PlannedArm) -> list[Mitigation]:
    has_loss = any((e.metric, e.arm, e.verdict) == (spec.metric, reference.name, Verdict.COSTS) for e in core.effects)
    metric = run.plan.study.metrics[spec.metric]
    candidates, contrasts = [], []
    for factor, arm in _candidates(run, spec, reference):
        logs = log_ratios(*run.samples.pairs(spec.metric, reference.name, arm.name))
        if logs is None:
            continue
        candidates.append((factor, arm, mean_over_rounds(logs).estimate(len(logs)).through(math.exp)))
        contexts = (reference.context, arm.context)
        floors = (floor for floor in core.noise_floor if floor.metric == spec.metric and floor.context in contexts)
        noise = max((floor.relative for floor in floors), default=0.0)
        # Compute the verdict on removing the mitigation: the reference is compared with the mitigated arm. "Costs" then
        # means that the mitigation helps. Below, `INVERSE` swaps "costs" and "saves".
        without = mean_over_rounds([-each for each in logs])
        contrasts.append(Contrast(without, len(logs), metric.margin, noise, metric.headline, metric.better))
    mitigations = []
    for (factor, arm, gain), verdict in zip(candidates, verdicts(contrasts), strict=True):
        names = (reference.control_arm or "", reference.name, arm.name)
        numbers = (
            run.common_values(*((spec.metric, name) for name in names), fewest=FEWEST_ROUNDS) if has_loss else None
        )
        recovered = None
        if numbers is not None:
            control, without_it, with_it = numbers
            recovered = share_of_whole(differences(without_it, with_it), differences(without_it, control))
        mitigations.append(
            Mitigation(
                factor=factor,
                level=arm.levels[factor],
                label=run.plan.study.factors[factor].phrase(arm.levels[factor]),
                arm=arm.name,
                gain=gain,
                recovered=recovered,
                gives_up=_gives_up(spec, reference, factor, arm),
                verdict=INVERSE.get(verdict, verdict),
            )
        )
    return mitigations


def _gives_up(spec: Spec, reference: PlannedArm, factor: str, arm: PlannedArm) -> str:
    """Return the part of the protection that the reference has but the mitigation gives up; '' if there is none.

    The mitigation `arm` differs from the reference in `factor`. If the reference's clients use TLS and those of the
    mitigation do not, the mitigation gives up the encryption of the clients' connections. The exception is a tunnel
    that begins on the clients' own host.
    """
    if arm.levels[factor] in spec.unprotected.get(factor, []):
        return WHOLE
    parts = spec.gives_up.get(factor, {})
    part = parts.get(arm.levels[factor], "")
    if part and part != parts.get(reference.levels.get(factor, ""), ""):
        return part
    if reference.settings.speaks_tls and not arm.settings.speaks_tls and not arm.settings.near_round_trips:
        return "the encryption of the clients' connections"
    return ""


def _what_reduces_the_cost(index: Index, data: Mitigations) -> str:
    """Return what reduces the cost, such as 'an ECDSA key saves 0.42 of the 1.03 ms added to a new connection.'"""
    if data.best is not None:
        but = f", but gives up {data.best.gives_up}" if data.best.gives_up else ""
        return f"{_gains(index, data, data.best)}{but}.{_control_with_it(index, data, data.best)}"
    keeping = [each for each in data.protecting if not each.gives_up]
    which = "other levels" if keeping else "one"
    other = f"; to measure {which}, vary the {data.factor} with --set {data.measure}" if data.measure else ""
    if not keeping:
        return f"{NO_MITIGATION}{other}."
    by_verdict = {verdict: [_subject(each) for each in keeping if each.verdict is verdict] for verdict in Verdict}
    if unresolved := by_verdict[Verdict.UNRESOLVED]:
        return f"this run cannot tell what {fmt.listed(unresolved)} {_verb(unresolved, 'save')}{other}."
    clauses = []
    if harmful := by_verdict[Verdict.COSTS]:
        clauses.append(f"{fmt.listed(harmful)} {_verb(harmful, 'add')} to the cost")
    if idle := by_verdict[Verdict.NO_DIFFERENCE] + by_verdict[Verdict.NO_COST]:
        clauses.append(f"{fmt.listed(idle)} {_verb(idle, 'save')} nothing measurable")
    return f"nothing that this run measured: compared with {index.label(data.reference)}, {fmt.listed(clauses)}{other}."


def _verb(labels: list[str], verb: str) -> str:
    return verb if len(labels) > 1 else f"{verb}s"


def _gains(index: Index, data: Mitigations, best: Mitigation) -> str:
    """Return what a mitigation gains, in the unit of the metric.

    For a rate, the text has the rates without and with the mitigation; for a time, the part of the added time that it
    saves.
    """
    metric = index.metrics[data.metric]
    loss, values = index.effect(metric.name, data.reference), index.value(metric.name, data.reference)
    assert values is not None
    before = values.mean.value
    with_it = index.value(metric.name, best.arm)
    after = with_it.mean.value if with_it is not None else before * best.gain.value
    words = index.metric_words(metric.name)
    if _is_rate(index, data):
        rate = fmt.with_unit(fmt.number(after), metric.unit)
        reference = index.label(data.reference)
        return f"compared with {reference}, {_subject(best)} raises {words} from {fmt.number(before)} to {rate}"
    saved = fmt.with_unit(fmt.number(before - after, fmt.significant_decimals(before - after, 2)), metric.unit)
    if loss is None or best.recovered is None:
        return f"{_subject(best)} saves {saved} of {words}"
    added = f"the {fmt.absolute(loss.difference, metric.unit).value} that {index.label(data.reference)} adds to {words}"
    if before - after >= loss.difference.value:
        return f"{_subject(best)} saves {saved}, more than {added}"
    return f"{_subject(best)} saves {saved} of {added}"


def _control_with_it(index: Index, data: Mitigations, best: Mitigation) -> str:
    """Return a further sentence with the control's rate, to compare with the mitigation's rate.

    Return '' if the metric is no rate, or if the mitigation's arm has no figures.
    """
    on_arm = index.effect(data.metric, best.arm)
    if on_arm is None or not _is_rate(index, data):
        return ""
    change = f"With {_subject(best)}" if data.reference_levels.get(best.factor) else "For comparison"
    rate = fmt.with_unit(fmt.number(on_arm.control_value), index.metrics[data.metric].unit)
    return f" {change}, {fmt.in_quotes(index.label(data.control))} reaches {rate}."


def _texts(index: Index, data: Mitigations) -> list[str]:
    by_verdict = {verdict: [each for each in data.protecting if each.verdict is verdict] for verdict in Verdict}
    helping, harmful, unresolved = (by_verdict[each] for each in (Verdict.SAVES, Verdict.COSTS, Verdict.UNRESOLVED))
    texts, without_gain = [text.removesuffix(".") for text in remaining(index, data)], []
    metric = index.metric_in_view(data.metric)
    if helping:
        protection = index.label(data.reference)
        compared = f"compared with {protection}"
        improves = "raises" if _is_rate(index, data) else fmt.verbs(index.metrics[data.metric].unit).less
        clauses: list[str] = []
        stated = ""
        for each in helping:
            level = data.reference_levels.get(each.factor, "")
            if each.recovered is None:
                clause = f"{_subject(each)} {improves} {metric} by {_improvement(index, data, each)}"
            elif each.recovered.low <= ALL:
                share = fmt.percentage(each.recovered)
                part = f"all ({share})" if round(each.recovered.value, 2) >= ALL else str(share)
                if level and level != stated:
                    clauses.append(fmt.capital(f"with {level}, {_loss_in_words(index, data)}"))
                stated = level
                loss_in_words = "this loss" if level else _whose_loss(index, data, [each])
                clause = f"{_subject(each)} recovers {part} of {loss_in_words}"
            else:
                # "Recovers 333 % of the loss" is hard to read, so the sentence says how much the metric improves.
                reference, instead = (f"with {protection}", f" instead of {level}") if level else (compared, "")
                gain = _improvement(index, data, each)
                clause = f"{reference}, {_subject(each)}{instead} {improves} {metric} by {gain}"
            clauses.append(fmt.capital(clause + _but(index, data, each)))
        texts.append(". ".join(clauses))
    if idle := [_subject(each) for each in by_verdict[Verdict.NO_DIFFERENCE] + by_verdict[Verdict.NO_COST]]:
        without_gain.append(f"{fmt.listed(idle)} {'recovers' if len(idle) == 1 else 'recover'} nothing measurable")
    if harmful:
        rate = _is_rate(index, data)
        worsens, loss = ("lowers", fmt.loss) if rate else (fmt.verbs(index.metrics[data.metric].unit).more, fmt.gain)
        more: dict[str, list[str]] = {}
        for each in harmful:
            clause = f"{_subject(each)} {worsens} {metric} by {loss(each.gain)}"
            more.setdefault(_reference_at(index, data, each), []).append(clause)
        without_gain += [f"compared with {reference}, {fmt.listed(each)}" for reference, each in more.items()]
    if without_gain:
        resolved = not (helping or unresolved)
        texts.append(f"{'No mitigation recovers anything: ' if resolved else ''}{'; '.join(without_gain)}")
    if names := [_subject(each) for each in unresolved]:
        texts.append(f"this run cannot tell what {fmt.listed(names)} {'recovers' if len(names) == 1 else 'recover'}")
    return [f"{fmt.capital(text)}." for text in texts]


def _share(each: Mitigation) -> Text:
    """Return the share of the loss that a mitigation recovers; 'none: adds 39 %' if it increases the loss by 39 %."""
    if each.recovered is None:
        return Text(fmt.NONE)
    if each.verdict is not Verdict.COSTS:
        return fmt.percentage(each.recovered)
    added = fmt.percentage(each.recovered.through(neg))
    return Text(f"none: adds {added.value}", added.interval)


def _recovers(each: Mitigation, share: Estimate) -> str:
    if each.verdict is Verdict.COSTS:
        return f"adds {fmt.percentage(share.through(neg))} to the loss"
    if each.verdict is Verdict.SAVES:
        return f"recovers {fmt.percentage(share)}"
    return f"has a recovered share of {fmt.percentage(share)}"


def _subject(each: Mitigation) -> str:
    """Return a mitigation's label as the subject of a clause, in quotes if it would read as a part of the sentence."""
    return f"the setting '{each.label}'" if each.label.startswith(QUOTED) else each.label


def _reference_at(index: Index, data: Mitigations, each: Mitigation) -> str:
    """Return the reference's label, with the level that the mitigation changes: 'the firewall (paranoia 1)'.

    The level is left out if the label already shows it.
    """
    reference, control = index.arm(data.reference), index.arm(data.control)
    label = index.label(data.reference)
    level = reference.levels.get(each.factor) if reference else None
    if level is None or level in label or each.factor in data.reference_levels:
        return label
    is_main = control is not None and control.levels.get(each.factor, level) != level
    return label if is_main else f"{label} ({each.factor} {level})"


def _loss_in_words(index: Index, data: Mitigations) -> str:
    """Return the loss that mitigations reduce, as a clause: "TLS lowers 'commits a second' by 11,057 /s"."""
    effect = index.effect(data.metric, data.reference)
    assert effect is not None
    size, label, words = _loss(index, effect), index.label(data.reference), index.metric_in_view(data.metric)
    return f"{label} adds {size} to {words}" if effect.difference.value > 0 else f"{label} lowers {words} by {size}"


def _loss(index: Index, effect: Effect) -> str:
    size = effect.difference.through(neg) if effect.difference.value < 0 else effect.difference
    return fmt.absolute(size, index.metrics[effect.metric].unit).value


def _whose_loss(index: Index, data: Mitigations, mitigations: Sequence[Mitigation] = ()) -> str:
    """Return the loss that mitigations reduce, such as "the 11,057 /s by which TLS lowers 'commits a second'".

    `mitigations` are by default all that keep a part of the protection. If they change factors that the control has
    too, the text ends with the reference's levels of these factors, such as 'with one client'.
    """
    effect = index.effect(data.metric, data.reference)
    if effect is None:
        return "the loss"
    factors = [each.factor for each in mitigations or data.protecting]
    levels = [*dict.fromkeys(filter(None, (data.reference_levels.get(factor, "") for factor in factors)))]
    where = f" with {fmt.listed(levels)}" if levels else ""
    loss, label = _loss(index, effect), index.label(data.reference)
    change = f"that {label} adds to" if effect.difference.value > 0 else f"by which {label} lowers"
    return f"the {loss} {change} {index.metric_in_view(data.metric)}{where}"


def remaining(index: Index, data: Mitigations) -> list[str]:
    """Return a sentence for each arm that gives up the whole protection, with the share of the loss that remains.

    This share of the loss has another cause than the protection itself.
    """
    return [
        f"{fmt.capital(_subject(each))} already causes "
        f"{fmt.percentage(each.recovered.through(lambda share: 1 - share))} of {_whose_loss(index, data)}. Only "
        "the rest is due to the protection itself."
        for each in data.without_protection
        if each.recovered is not None
    ]


def _but(index: Index, data: Mitigations, each: Mitigation) -> str:
    """Return the disadvantages of a mitigation, as text to append to its gain; '' if there are none.

    - The part of the protection that the mitigation gives up.
    - The cost that the protection still has if the control gets the same mitigation.
    """
    text = f", but gives up {each.gives_up}" if each.gives_up else ""
    effect, arm = index.effect(data.metric, each.arm), index.arm(each.arm)
    elsewhere = arm is not None and arm.context != index.context(data.reference)
    if elsewhere and effect is not None and effect.verdict is Verdict.COSTS and effect.ratio is not None:
        amount = fmt.loss(effect.ratio) if _is_rate(index, data) else fmt.relative(effect.ratio)
        control, protection = index.label(data.control), index.label(data.reference)
        metric = index.metric_in_view(data.metric)
        change = f"lowers {metric} by {amount}" if _is_rate(index, data) else f"raises {metric} by {amount}"
        compared = f"compared with {fmt.in_quotes(control)}"
        text += f". With {_subject(each)} in both cases, {protection} still {change} {compared}"
    return text


def _is_rate(index: Index, data: Mitigations) -> bool:
    return index.metrics[data.metric].better == "higher"


def _improvement(index: Index, data: Mitigations, each: Mitigation) -> Text:
    """Return by how much a mitigation raises a rate or lowers a time, such as '140 % [131, 149]'."""
    return fmt.gain(each.gain) if _is_rate(index, data) else fmt.loss(each.gain)


def _gain(index: Index, data: Mitigations, each: Mitigation) -> Text:
    """Return the gain as a signed change, such as '+140 % [131, 149]'; for a rate never as a factor such as '×2.4'."""
    if not _is_rate(index, data) or each.gain.value < 1:
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
        colour = VERDICT_COLOURS[each.verdict]
        panel.line([(share.low * 100, row), (share.high * 100, row)], colour, 3)
        panel.dot(share.value * 100, row, colour, 9)
    return Sheet(width, [panel], [76 + ROW_HEIGHT * len(shown)])


SECTION = MitigationsSection()
