"""Upgrades: what a variant, such as TLS, costs or gains on another version of the server.

All versions run at the same time in one lab, and their figures are paired by round, so that a drift of the machine
affects all versions alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Model
from costof.report.blocks import Block, Paragraph, Part, Table
from costof.report.key_figures import PHASES, KeyFigure
from costof.report.sections import Section, sentences
from costof.report.verdict_sentence import verdict_sentence
from costof.results.index import Index, Lead
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Core, Metric, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, differences, log_ratios, mean_over_rounds
from costof.statistics.uneven import disagrees, ratio_of_means
from costof.statistics.verdicts import Contrast, verdicts
from costof.study.arms import PlannedArm

METHOD = (
    "Each row compares the same variant on two versions of the server, {unit} by {unit}. Brackets contain the 95 % "
    "confidence interval. The verdicts are corrected for multiple testing over all rows."
)
CHANGED = (Verdict.COSTS, Verdict.SAVES)
#: The position of the section's part on the page, before the costs of protections (`costs`).
PLACE = 19
#: The reasons of a change mention round trips and bytes if an operation has at least this many more or fewer.
LEAST_ROUND_TRIPS, LEAST_BYTES = 0.05, 100
#: If at most MOST_VERDICTS arms are compared, the verdict has a sentence for each arm, with FIGURES_IN_VERDICT figures.
#: A sentence has one figure more if its first figure is resolved.
MOST_VERDICTS, FIGURES_IN_VERDICT = 2, 2
#: The verdict names at most this many phases of an operation, beside headline metrics.
MOST_PHASES = 2
#: If more effects than this are unresolved, the sentence has their number instead of their names.
MOST_UNRESOLVED = 2
#: Matches a release's number, such as 18 or 10.11, but not the path of a build.
RELEASE = re.compile(r"\d+(\.\d+)*")


class Spec(Model):
    """The factor whose levels are versions of the server.

    The factor must be a context factor: its levels apply to control and arms alike, so that each version has its own
    control.
    """

    factor: str


class VersionChange(Model):
    """The change of one metric between two arms that differ only in the server's version."""

    metric: str
    before: str = Field(description="The arm on the first version of the run.")
    after: str = Field(description="The arm on the other version.")
    before_value: float
    value: float
    difference: Estimate
    ratio: Estimate = Field(description="The arm on the other version divided by that on the first, paired by round.")
    verdict: Verdict
    rounds: int


class Upgrade(Model):
    """The changes between the first version and each other version.

    `versions` has, for each arm, the name of its version as in a sentence, such as 'PostgreSQL 18'.
    """

    factor: str
    versions: dict[str, str]
    changes: list[VersionChange]


class UpgradeSection(Section[Spec, Upgrade]):
    # A run of several versions asks about the upgrade, so this section's sentences come before those of all others.
    name, title, order = "upgrade", "What the other version costs", -2
    spec, data = Spec, Upgrade

    def compute(self, run: Run, core: Core, spec: Spec) -> Upgrade | None:
        factor = run.plan.study.factors.get(spec.factor)
        if factor is None:
            return None
        pairs = version_pairs(run.plan.arms, spec.factor)
        changes = _changes(run, core, pairs)
        if not changes:
            return None
        versions = {arm.name: factor.phrase(arm.levels[spec.factor]) for pair in pairs for arm in pair}
        return Upgrade(factor=spec.factor, versions=versions, changes=changes)

    def lead(self, index: Index, data: Upgrade) -> Lead:
        return Lead(leads=True, fills_summary=True)

    def answer(self, index: Index, data: Upgrade) -> list[Sentence]:
        texts = [_sentence(index, data.versions, changes) for changes in _named(index, data)]
        reasons = dict.fromkeys(text for each in data.changes if (text := _reason(index, data.versions, each)))
        why = " ".join(reasons)
        return [
            *sentences("answer", texts),
            *sentences("verdict", _verdicts(self.key_figures(index, data))),
            *sentences("why", [why] if why else []),
        ]

    def key_figures(self, index: Index, data: Upgrade) -> list[KeyFigure]:
        """Return the changes that the sentences name (`_named`)."""
        return [_key_figure(index, data.versions, change) for changes in _named(index, data) for change in changes]

    def parts(self, index: Index, data: Upgrade) -> list[Part]:
        return [Part(self.name, self.title, [*self.blocks(index, data)], order=PLACE)]

    def blocks(self, index: Index, data: Upgrade) -> Iterator[Block]:
        for pair in dict.fromkeys((each.before, each.after) for each in data.changes):
            before, after = (data.versions[arm] for arm in pair)
            rows: list[list[str | Text]] = [
                [
                    fmt.titled(index.metric_title(each.metric), metric.unit),
                    fmt.number(each.before_value),
                    fmt.number(each.value),
                    fmt.relative(each.ratio),
                    each.verdict.words(metric.better).replace("the margin", fmt.share(metric.margin)),
                ]
                for each in data.changes
                if (each.before, each.after) == pair
                for metric in (index.metrics[each.metric],)
            ]
            head = ["", before, after, "change", "verdict"]
            yield Table.of(head, rows, title=fmt.capital(_subject(index, data.versions, *pair)), texts=(0, 4))
        yield Paragraph(METHOD.format(unit=index.unit), "note")


def version_pairs(arms: Sequence[PlannedArm], factor: str) -> list[tuple[PlannedArm, PlannedArm]]:
    """Return the pairs of arms that differ only in this factor.

    The first arm of each pair has the same level of the factor as the run's first arm.
    """
    measured = [arm for arm in arms if not arm.replicate and factor in arm.levels]
    if not measured:
        return []
    first = measured[0].levels[factor]
    by_levels = {_others(arm.levels, factor): arm for arm in measured if arm.levels[factor] == first}
    return [
        (by_levels[others], arm)
        for arm in measured
        if arm.levels[factor] != first and (others := _others(arm.levels, factor)) in by_levels
    ]


def _others(levels: Mapping[str, str], factor: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in levels.items() if name != factor)


def _changes(run: Run, core: Core, pairs: Sequence[tuple[PlannedArm, PlannedArm]]) -> list[VersionChange]:
    made, contrasts = [], []
    for before, after in pairs:
        for name, metric in run.plan.study.metrics.items():
            values = run.common_values((name, before.name), (name, after.name), fewest=ROUNDS_FOR_INTERVAL)
            logs = log_ratios(*values) if values is not None else None
            if values is None or logs is None:
                continue
            contexts = (before.context, after.context)
            floors = [each for each in core.noise_floor if each.metric == name and each.context in contexts]
            # Judge the change by relative noise only. Absolute noise is that of the control, whose figure may be far
            # from this arm's figure.
            noise = max((each.relative for each in floors), default=0.0)
            change, difference = mean_over_rounds(logs), mean_over_rounds(differences(*values))
            contrasts.append(
                Contrast(
                    change,
                    len(logs),
                    metric.margin,
                    noise,
                    metric.headline,
                    metric.better,
                    difference,
                    noise * fmean(values[0]),
                )
            )
            added, ratio = difference.estimate(len(logs)), change.estimate(len(logs)).through(math.exp)
            # If the ratio by round contradicts the difference or the means, replace it by the ratio of the means.
            of_means = ratio_of_means(*values) if disagrees(added, ratio, values[0], values[1]) else None
            made.append((name, before.name, after.name, values, added, of_means or ratio))
    return [
        VersionChange(
            metric=name,
            before=before,
            after=after,
            before_value=sum(values[0]) / len(values[0]),
            value=sum(values[1]) / len(values[1]),
            difference=added,
            ratio=ratio,
            verdict=verdict,
            rounds=len(values[0]),
        )
        for (name, before, after, values, added, ratio), verdict in zip(made, verdicts(contrasts), strict=True)
    ]


def _named(index: Index, data: Upgrade) -> list[list[VersionChange]]:
    """Return the changes that the sentences name, as one list for each arm.

    A list has the changes in headline metrics, and the largest resolved changes in the time of single phases. Costs and
    savings come first, then other verdicts, and then unresolved changes. Within each of these three groups, headline
    metrics come before phases, and metrics on the wire before those in the application. Arms without any cost or saving
    come last.
    """
    arms: dict[str, list[VersionChange]] = {}
    for change in data.changes:
        arms.setdefault(change.after, []).append(change)
    named = []
    for changes in arms.values():
        headline = [each for each in changes if index.metrics[each.metric].headline]
        on_wire_first = sorted(headline, key=lambda each: index.metrics[each.metric].view != "wire")
        phases = [each for each in changes if _is_phase(index.metrics[each.metric]) and each.verdict in CHANGED]
        phases.sort(key=lambda each: -abs(each.difference.value))
        if headline:
            named.append(sorted([*on_wire_first, *phases[:MOST_PHASES]], key=_rank))
    return sorted(named, key=lambda changes: _rank(changes[0]))


def _rank(change: VersionChange) -> int:
    """Return 0 for a cost or a saving, 1 for another verdict, and 2 for an unresolved change."""
    return 0 if change.verdict in CHANGED else 1 + (change.verdict is Verdict.UNRESOLVED)


def _is_phase(metric: Metric) -> bool:
    """Return whether the metric is the time of one phase of a new connection on the wire, such as the TLS handshake."""
    return metric.phase in PHASES and metric.view == "wire" and metric.unit in NS_PER_UNIT and not metric.headline


def _sentence(index: Index, versions: Mapping[str, str], changes: Sequence[VersionChange]) -> str:
    """Return a sentence such as "An upgrade from PostgreSQL 15 to 18 (plain) changes 'connect' by +6 % [4, 8]"."""
    changed = [f"{_metric(index, each)} by {fmt.relative(each.ratio)}" for each in changes if each.verdict in CHANGED]
    clauses = [f"changes {fmt.listed(changed)}"] if changed else []
    for verdict, words, to in (
        (Verdict.NO_DIFFERENCE, "makes no difference above {}", "to"),
        (Verdict.NO_COST, "adds no cost above {}", "to"),
        (Verdict.UNRESOLVED, "has an unresolved effect", "on"),
    ):
        same = [each for each in changes if each.verdict is verdict]
        if verdict is Verdict.UNRESOLVED and len(same) > MOST_UNRESOLVED:
            main = sum(index.metrics[each.metric].headline for each in changes)
            which = f"all {main}" if len(same) == main else f"{len(same)} of the {main}"
            clauses.append(f"{words} on {which} main metrics")
        elif same:
            margin = fmt.share(max(index.metrics[each.metric].margin for each in same))
            clauses.append(f"{words.format(margin)} {_metrics(index, same, to)}")
    subject = fmt.capital(_subject(index, versions, changes[0].before, changes[0].after))
    return " ".join(f"{subject} {clause}." for clause in clauses)


def _metrics(index: Index, changes: Sequence[VersionChange], to: str) -> str:
    """Return the metrics of the changes by view, such as "to 'connect' and 'query' on the wire".

    `to` is the preposition before the metrics of each view.
    """
    by_view: dict[str, list[str]] = {}
    for each in changes:
        view = index.view_words(each.metric)
        by_view.setdefault(view, []).append(f"'{index.metric_label(each.metric)}'")
    return ", and ".join(f"{to} {fmt.listed(labels)} {view}".rstrip() for view, labels in by_view.items())


def _verdicts(figures: Sequence[KeyFigure]) -> list[str]:
    """Return a sentence for each arm with its first figures, such as a phase and a new connection.

    Return [] if there is only one arm, or if there are more than `MOST_VERDICTS`: the summary then writes the verdict.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm, []).append(figure)
    if not 1 < len(by_arm) <= MOST_VERDICTS:
        return []
    more = {arm: group[0].verdict is not Verdict.UNRESOLVED for arm, group in by_arm.items()}
    return [verdict_sentence(group[: FIGURES_IN_VERDICT + more[arm]]) for arm, group in by_arm.items()]


def _subject(index: Index, versions: Mapping[str, str], before: str, after: str) -> str:
    """Return the change between two arms as the subject of a sentence: 'an upgrade from PostgreSQL 15 to 18 (plain)'.

    If the second version is not a later release of the same program, return text such as 'PostgreSQL 15 instead of
    PostgreSQL 18 (plain)'.
    """
    old, new, arm = versions[before], versions[after], index.arm(after)
    (program, _, first), (other, _, second) = old.rpartition(" "), new.rpartition(" ")
    releases = [[*map(int, version.split("."))] for version in (first, second) if RELEASE.fullmatch(version)]
    is_later = program == other and len(releases) == 2 and releases[0] < releases[1]
    change = f"an upgrade from {old} to {second}" if is_later else f"{new} instead of {old}"
    label, distances = index.label(after), index.core.distances
    away = f" {fmt.away(distances[arm.context])} away" if arm is not None and len({*distances.values()}) > 1 else ""
    return f"{change} ({label}){away}" if arm is not None and arm.control else f"{change} with {label}{away}"


def _reason(index: Index, versions: Mapping[str, str], change: VersionChange) -> str:
    """Return why a headline metric changes: "With TLS, 'connect' takes 1 round trip fewer on PostgreSQL 18.".

    Return '' if operations on both versions have the same number of round trips and about the same number of bytes.
    """
    before, after = (index.value(change.metric, arm) for arm in (change.before, change.after))
    if before is None or after is None or before.round_trips is None or after.round_trips is None:
        return ""
    if not index.metrics[change.metric].headline:
        return ""
    parts, more = [], after.round_trips - before.round_trips
    if abs(more) >= LEAST_ROUND_TRIPS:
        which = "more" if more > 0 else "fewer"
        parts.append(fmt.plural_formatted(fmt.count(abs(more)), f"{which} round trip", f"{which} round trips"))
    sent, sent_before = ((each.bytes_sent or 0) + (each.bytes_received or 0) for each in (after, before))
    if abs(sent - sent_before) >= LEAST_BYTES:
        which = "more" if sent > sent_before else "less"
        parts.append(f"{fmt.bytes_text(abs(sent - sent_before))} {which} data")
    if not parts:
        return ""
    words = index.metric_words(change.metric)
    return (
        f"{fmt.capital(words)} with {index.label(change.after)} needs {fmt.listed(parts)} on {versions[change.after]}."
    )


def _key_figure(index: Index, versions: Mapping[str, str], change: VersionChange) -> KeyFigure:
    metric = index.metrics[change.metric]
    # The figure's row has a title such as 'a new connection, on the wire'.
    title = [index.metric_words(change.metric).strip("'"), index.view_words(change.metric)]
    return KeyFigure(
        name=metric.name,
        arm=change.after,
        arm_label=_subject(index, versions, change.before, change.after),
        label=", ".join(filter(None, title)),
        words=_metric(index, change),
        unit=metric.unit,
        view=metric.view,
        metrics=[metric.name],
        arms=[change.before, change.after],
        better=metric.better,
        without=change.before_value,
        value=change.value,
        difference=change.difference,
        ratio=change.ratio,
        control_label=versions[change.before],
        verdict=change.verdict,
        margin=metric.margin,
    )


def _metric(index: Index, change: VersionChange) -> str:
    """Return the metric as part of a sentence: its label in quotes, with its view if there are several.

    The label of a phase follows the words 'the phase'.
    """
    words = index.metric_in_view(change.metric)
    return f"the phase {words}" if _is_phase(index.metrics[change.metric]) else words


SECTION = UpgradeSection()
