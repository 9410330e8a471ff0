"""The lines that `costof versus` prints after its report: each difference between commands, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from costof import format as fmt
from costof.errors import WarningText
from costof.report.result import Result
from costof.report.sections.answer import figures_alone
from costof.results.index import verdict_words
from costof.results.models import Effect, Metric
from costof.results.run import Run
from costof.statistics.histogram import lower_bounds, merged
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.outliers import MAD_TO_DEVIATION, far_above
from costof.study.commands import COMMAND

#: A command that takes less than this gets a warning if a shell starts it, because the shell takes about 1 ms to start.
SHORT_MS = 5.0
#: An execution is an outlier if it is more than this many robust standard deviations above the median.
OUTLIER_DEVIATIONS = 10.0
#: Outliers get a warning if they change a command's mean by more than CHANGED_MEAN (2 %). A slow first execution gets a
#: warning if it is an outlier that exceeds the median by more than SLOW_FIRST (10 %).
CHANGED_MEAN, SLOW_FIRST = 0.02, 0.1
QUIET = "run it again on a quiet machine"


@dataclass(frozen=True)
class Tried:
    """The options that the user has given, so that warnings do not recommend them.

    - `shell_needed`: whether a command contains shell syntax.
    - `single_runs`: whether each round executes each command once. The first execution is then measured, unless there
      is a warm-up.
    """

    in_shell: bool
    shell_needed: bool
    warmup: bool
    prepare: bool
    single_runs: bool


def differences(result: Result, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each headline difference, such as '`b` takes 12.3 ms longer than `a` [11.0, 13.6]: costs'.

    `names` has the text that stands for each arm. If there is only one command, yield the time that it takes.
    """
    if len(names) == 1:
        for arm, name in names.items():
            yield from map(_plain, figures_alone(result, arm, f"`{name}`"))
    metrics = {metric.name: metric for metric in result.metrics if metric.headline}
    controls = {arm.name: arm.control_arm for arm in result.arms if not arm.replicate}
    for effect in result.effects:
        control = controls.get(effect.arm)
        if effect.metric in metrics and control is not None:
            yield _difference(effect, metrics[effect.metric], names[effect.arm], names[control])


def _difference(effect: Effect, metric: Metric, name: str, control: str) -> str:
    estimate, less = effect.difference, effect.difference.value < 0
    # If the text says 'less' or 'lower', negate the interval, so that it has the sign that the text implies.
    shown = fmt.absolute(estimate.through(lambda value: -value) if less else estimate, effect.unit)
    if metric.phase == COMMAND:
        text = f"`{name}` takes {shown.value} {'less' if less else 'longer'} than `{control}`"
    else:
        text = f"`{name}`: '{metric.label}' is {shown.value} {'lower' if less else 'higher'} than with `{control}`"
    # Leave out the relative difference if its sign contradicts that of the difference, as may happen in noisy data.
    has_share = effect.printed_ratio is not None and (effect.printed_ratio.value < 1) == less
    share = f" ({fmt.relative(effect.printed_ratio).value})" if effect.printed_ratio is not None and has_share else ""
    return _plain(f"{text} {shown.interval}{share}: {verdict_words(effect, metric)}")


def warnings(run: Run, names: Mapping[str, str], tried: Tried) -> Iterator[str]:
    """Yield warnings about the times of commands, which recommend options that the user has not given."""
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.phase == COMMAND and metric.headline]
    means = {
        arm: float(np.mean(values)) for metric in metrics for arm in names if (values := run.samples.means(metric, arm))
    }
    if not means:
        return
    shortest = min(means, key=means.__getitem__)
    if tried.in_shell and means[shortest] < SHORT_MS:
        remedy = "to avoid it, write the commands without shell syntax" if tried.shell_needed else "use -N"
        took = _milliseconds(means[shortest])
        yield WarningText.SHORT_IN_SHELL.text(command=f"`{names[shortest]}`", took=took, remedy=remedy)
    slow = [(arm, first, others) for arm in means for first, others in _slow_first_run(run, metrics[0], arm, tried)]
    for arm, first, others in slow:
        remedy = (
            "to run with warm caches add --warmup 1, or clear them by --prepare"
            if not tried.prepare
            else "if --prepare does not clear them, add --warmup 1"
        )
        yield WarningText.FIRST_RUN_SLOW.text(
            command=f"`{names[arm]}`", first=_milliseconds(first), others=_milliseconds(others), remedy=remedy
        )
    worst = max(((each, arm) for arm in means for each in _outliers(run, metrics[0], arm)), default=None)
    if worst is not None and not slow:
        (share, count, total), arm = worst
        remedy = QUIET if tried.warmup or tried.prepare else f"{QUIET}, or try --warmup-each 1 or --prepare"
        yield WarningText.OUTLIERS.text(
            command=f"`{names[arm]}`",
            runs=f"{count:,} of {total:,} runs",
            share=_plain(fmt.percent(share)),
            remedy=remedy,
        )


def _slow_first_run(run: Run, metric: str, arm: str, tried: Tried) -> Iterator[tuple[float, float]]:
    """Yield the time of the command's first execution and the median of the others, in ms, if the first is an outlier.

    Yield nothing if the run has a warm-up, because the warm-up contains the first execution.
    """
    by_round = run.samples.by_round(metric, arm)
    if not tried.single_runs or tried.warmup or len(by_round) < FEWEST_ROUNDS or min(by_round) != 0:
        return
    times = [by_round[number] for number in sorted(by_round)]
    others = float(np.median(times[1:]))
    if far_above(times, SLOW_FIRST * others)[0]:
        yield times[0], others


def _outliers(run: Run, metric: str, arm: str) -> Iterator[tuple[float, int, int]]:
    """Yield the share by which outliers raise the arm's mean, and the numbers of outliers and of executions.

    Yield nothing if the share is `CHANGED_MEAN` or less.
    """
    encoded = [text for texts in run.histograms(metric, arm).values() for text in texts]
    if not encoded:
        return
    counts = merged(encoded)
    values = np.repeat(lower_bounds(counts.buckets).astype(float), counts.counts)
    beyond = values - np.median(values)
    limit = OUTLIER_DEVIATIONS * MAD_TO_DEVIATION * float(np.median(np.abs(beyond)))
    # An outlier must also exceed the median by CHANGED_MEAN. Otherwise, if the histogram rounds most times to the same
    # value, the measured spread is 0, and every slower time would be an outlier.
    far = beyond > max(limit, CHANGED_MEAN * float(np.median(values)))
    if len(values) < FEWEST_ROUNDS or not far.any():
        return
    share = float(values.mean() / values[~far].mean() - 1)
    if share > CHANGED_MEAN:
        yield share, int(far.sum()), len(values)


def _milliseconds(value: float) -> str:
    return _plain(fmt.with_unit(fmt.number(value), "ms"))


def _plain(text: str) -> str:
    """Return the text with ordinary spaces, so that `grep '14.2 ms'` works."""
    return text.replace(fmt.NBSP, " ")
