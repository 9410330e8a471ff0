"""Next steps: advice on the most important (headline) effects that have no verdict yet.

The HTML page shows this advice at its top.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from costof import format as fmt
from costof.report.blocks import TEXT, Block, Bullets
from costof.report.key_figures import KeyFigure
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import LONGEST_WAIT, Effect, Sentence
from costof.statistics.estimate import Verdict

#: The advised budget includes the estimated further time multiplied by this factor. The estimate alone would be too
#: short: after this time, an effect has a verdict in only half of the runs, and preparation between slices takes time.
RESERVE = 1.5
#: (longest budget in seconds, step in seconds): an advised budget is rounded up to a multiple of the step.
STEPS = ((90, 10), (10 * 60, 60), (60 * 60, 5 * 60), (math.inf, 30 * 60))


class NextSection(Section[None, None]):
    name, title, order = "next", "Next steps", 150

    def answer(self, index: Index, data: None) -> list[Sentence]:
        waiting, noisy = _unresolved(index)
        texts = []
        if waiting:
            longest = fmt.roughly(_longest(waiting))
            option = _resume_options(index, "…", waiting) or _longer_options(index, waiting)
            if "--budget" in option:
                option += ", which includes the time so far"
            texts.append(
                f"Measure for about {longest} more ({option}) to get a verdict on {_names(index, waiting, noisy)}."
            )
        return sentences("next", [*texts, *([_less_noise(index, noisy, waiting)] if noisy else [])])

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("next")]:
            yield Bullets(lines, label="Next", media=TEXT)


def next_lines(index: Index, folder: Path, figures: Sequence[KeyFigure]) -> list[str]:
    """Return the line 'Next' of the short answer, or [] if there is nothing to advise.

    - If more rounds would resolve headline effects, the line says with which command or option to measure them.
    - If only a quieter machine or longer slices would resolve them, the line says so, unless the short answer's
      `figures` are all resolved.

    `folder` is the run's folder.
    """
    waiting, noisy = _unresolved(index)
    lines = []
    if waiting:
        options = _resume_options(index, shlex.quote(str(folder)), waiting)
        longer = f"Repeat the run with {_longer_options(index, waiting)} to get a verdict on {_names(index, waiting)}."
        lines.append(f"costof run {options}" if options else longer)
    elif noisy and any(figure.verdict is Verdict.UNRESOLVED for figure in figures):
        lines.append(
            f"Measure on a quieter machine, or with longer windows{_longer_slices(index)}; more rounds do not help."
        )
    return lines


def _unresolved(index: Index) -> tuple[list[Effect], list[Effect]]:
    """Return the headline effects that a longer run would resolve, and those that no affordable run would resolve."""
    metrics = {metric.name for metric in index.headline_metrics}
    headline = [
        each for each in index.core.effects if each.metric in metrics and index.effect_to_report(each.metric, each.arm)
    ]
    return [each for each in headline if each.needed_seconds], [each for each in headline if each.too_noisy]


def _longest(waiting: Sequence[Effect]) -> float:
    return max(effect.needed_seconds or 0.0 for effect in waiting)


def _resume_options(index: Index, folder: str, waiting: Sequence[Effect]) -> str:
    """Return the options that continue a run until these effects are resolved; '' if that needs too many rounds."""
    core = index.core
    more, rounds = RESERVE * _longest(waiting), core.resumable_rounds
    if core.budget_seconds is None or not core.rounds or more / core.measured_seconds * core.rounds > rounds:
        return ""
    total, options = core.measured_seconds + more, [f"--resume {folder}"]
    if not core.partial or total > core.budget_seconds:
        # A complete run continues only with a larger budget.
        options.append(f"--budget {_rounded_up(max(total, core.budget_seconds + 1))}")
    return " ".join([*options, *([f"--hosts {shlex.quote(core.hosts)}"] if core.hosts else [])])


def _rounded_up(seconds: float) -> str:
    """Return the duration as an option's value, such as '90s', '8m' or '1h30m'."""
    step = next(step for most, step in STEPS if seconds <= most)
    rounded = math.ceil(seconds / step) * step
    hours, minutes = divmod(rounded // 60, 60)
    if rounded % 60:
        return f"{rounded}s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")


def _longer_options(index: Index, waiting: Sequence[Effect]) -> str:
    """Return the option that gives a new run enough rounds, or enough starts of the servers, such as '--rounds 370'."""
    core = index.core
    option, units = ("--restarts", len(core.starts)) if core.starts else ("--rounds", core.rounds)
    needed = math.ceil(units * (1 + RESERVE * _longest(waiting) / core.measured_seconds))
    step = 10 ** max(0, len(str(needed)) - 2)
    return f"{option} {math.ceil(needed / step) * step}"


def _longer_slices(index: Index) -> str:
    return " (--profile default)" if index.core.profile == "quick" else ""


def _less_noise(index: Index, noisy: Sequence[Effect], waiting: Sequence[Effect]) -> str:
    why = [effect.unresolved for effect in noisy if effect.unresolved]
    spreads = [each.deviation_between_rounds for each in why if each.deviation_between_rounds is not None]
    smallest = [each.smallest_detectable for each in why if each.smallest_detectable is not None]
    by_margin: dict[str, dict[str, None]] = {}
    for effect in noisy:
        metric = index.metrics[effect.metric]
        by_margin.setdefault(fmt.share(metric.margin), {})[f"'{metric.label}'"] = None
    metrics = fmt.listed([label for labels in by_margin.values() for label in labels])
    reason = unlikely = ""
    if spreads and smallest:
        if noise := _largest_noise(index, noisy):
            noise += ", so a smaller effect can stay hidden"
        else:
            differ = f"{index.unit}s differ by {'' if len(spreads) == 1 else 'up to '}{fmt.percent(max(spreads))}"
            noise = f"noise hides effects of up to {fmt.percent(max(smallest))}: {differ} (standard deviation)"
        reason = f" In {metrics}, {noise}."
    # For each effect, the largest cost within its interval. A higher cost is unlikely.
    costs = [
        max(0.0, effect.ratio.high - 1 if index.metrics[effect.metric].better == "lower" else 1 / effect.ratio.low - 1)
        for effect in noisy
        if effect.ratio is not None and effect.ratio.low > 0
    ]
    size = "an unresolved cost"
    if costs:
        largest = fmt.with_unit(fmt.number(100 * max(costs), 1), "%")
        its, exclude = ("Its", "interval excludes") if len(noisy) == 1 else ("Their", "intervals exclude")
        unlikely, size = f" {its} 95 % {exclude} a cost above {largest}.", f"a cost of up to {largest}"
    unit = "the measuring time" if index.core.requested_rounds is None else "as many rounds"
    margins = ", and ".join(f"{margin} for {fmt.listed([*labels])}" for margin, labels in by_margin.items())
    effects = "effect" if len(noisy) == 1 else "effects"
    return (
        f"Even {LONGEST_WAIT} times {unit} would not resolve the {effects} on {_names(index, noisy, waiting)}."
        f"{unlikely}{reason} Measure on an idle machine, or use longer windows{_longer_slices(index)}. If {size} does "
        f"not matter to you, raise the 'margin' of {metrics} in the study's file. A cost below the margin of its "
        f"metric counts as no cost. The margin is now {margins}."
    )


def _largest_noise(index: Index, noisy: Sequence[Effect]) -> str:
    """Return by how much the control and its identical copy differ, in words.

    A run cannot detect effects below this difference. Return '' if the difference is unknown, or if other noise hides
    even larger effects.
    """
    detectable = [
        (each.unresolved.smallest_detectable, each)
        for each in noisy
        if each.unresolved is not None and each.unresolved.smallest_detectable is not None
    ]
    smallest, effect = max(detectable, key=lambda pair: pair[0])
    arm = index.arm(effect.arm)
    floor = index.noise(effect.metric, arm.context) if arm is not None else None
    if floor is None:
        return ""
    noise = floor.relative if index.metrics[effect.metric].better == "lower" else floor.relative / (1 + floor.relative)
    if noise < 0.99 * smallest:
        return ""
    return (
        f"identical copies of the control differ by {'' if len(noisy) == 1 else 'up to '}{fmt.percent(floor.relative)}"
    )


def _names(index: Index, effects: Sequence[Effect], others: Sequence[Effect] = ()) -> str:
    """Return the metrics of the effects in words, such as "'query' on the wire".

    If `others` has an effect in the same metric, the arms are named too: "'query' on the wire (for 'TLS')".

    Arms that are the same for all metrics are named once, after the last metric.
    """
    ambiguous, metrics = {other.metric for other in others}, dict.fromkeys(effect.metric for effect in effects)
    arms = {
        metric: f" (for {fmt.listed([index.quoted(each.arm) for each in effects if each.metric == metric])})"
        if metric in ambiguous
        else ""
        for metric in metrics
    }
    if len({*arms.values()}) == 1:
        return fmt.listed([*map(index.metric_in_view, metrics)]) + next(iter(arms.values()))
    return fmt.listed([index.metric_in_view(metric) + arms[metric] for metric in metrics])


SECTION = NextSection()
