"""Where the loss goes, in words and rows: what each step along a chain of roles adds to each of them."""

from __future__ import annotations

from costof.analysis.result import Metric, Result, SplitPart, SplitStep
from costof.document import format as fmt
from costof.document.format import Shown
from costof.report.reading import Reading, Setting
from costof.statistics.estimate import Estimate

TITLE = "Where the loss goes"
HEAD = ["step", "part", "before", "adds", "share"]
METHOD = (
    "A step's parts are what it adds to an operation, paired by round; a part's share is of all that the step adds, "
    "with Fieller's interval. In a closed loop the CPU time that is added is what throughput is lost to, as far as the "
    "cores are busy."
)
TOTAL = "together"


def steps(reading: Reading, setting: Setting) -> list[SplitStep]:
    """The steps of one setting."""
    return [step for step in reading.result.split if step.context == setting.context]


def sentences(reading: Reading, setting: Setting) -> list[str]:
    """One for each step of a setting."""
    return [_sentence(reading.result, step) for step in steps(reading, setting)]


def answer(result: Result) -> list[str]:
    """What the chain's presence costs in the first setting, and what its largest step adds there."""
    first = [step for step in result.split if step.context == result.split[0].context]
    controls = {arm.name for arm in result.arms if arm.control}
    presence = [step for step in first if step.end in controls]
    rest = [step for step in first if step not in presence]
    largest = max(rest, key=lambda step: step.total.value, default=None)
    return [_sentence(result, step) for step in [*presence, *([largest] if largest else [])]]


def without(result: Result) -> set[str]:
    """The arms that go without the chain: what a step starts from, and no protection."""
    return {step.start for step in result.split} - {arm.name for arm in result.arms if arm.control}


def _sentence(result: Result, step: SplitStep) -> str:
    """'The gateway's presence takes 10 % [9, 11] of 'transactions a second'; it adds 0.6 ms of CPU time …'."""
    start = f"{_capital(step.label)} {_change(step, _metric(result, step))}"
    added = f"it adds {fmt.absolute(step.total, step.parts[0].unit)} of {step.what}"
    shares = [f"{_percent(part.share)} {part.label}" for part in step.parts if part.share]
    return f"{start}; {added}{f': {fmt.listed(shares)}' if shares else ', which is not resolved'}."


def _change(step: SplitStep, metric: Metric) -> str:
    """'takes 12 % [11, 13] of 'transactions a second''; unresolved where its interval holds no change."""
    name = f"'{metric.label}'"
    if step.ratio.low <= 1 <= step.ratio.high:
        return f"leaves {name} unresolved at {fmt.relative(step.ratio)}"
    if metric.better == "higher" and step.ratio.value < 1:
        return f"takes {fmt.loss(step.ratio)} of {name}"
    return f"changes {name} by {fmt.relative(step.ratio)}"


def rows(reading: Reading, setting: Setting) -> list[list[str]]:
    """A row for each part of each step, and one for all of them; the step is said once."""
    found = []
    for step in steps(reading, setting):
        parts = [_part(part) for part in step.parts]
        parts.append([TOTAL, "", str(_added(step.total, step.parts[0].unit)), ""])
        parts += [_part(part) for part in step.beside]
        told = f"{step.label}: {_relative(step)}"
        found += [[told if index == 0 else "", *cells] for index, cells in enumerate(parts)]
    return found


def title(reading: Reading, setting: Setting) -> str:
    """'Where the loss of 'transactions a second' goes, 16 terminals'."""
    metric = _metric(reading.result, reading.result.split[0])
    return f"Where the loss of '{metric.label}' goes{setting.suffix}"


def _relative(step: SplitStep) -> str:
    return str(fmt.relative(step.ratio))


def _part(part: SplitPart) -> list[str]:
    before = _with_unit(part.before, part.unit)
    return [part.label, before, str(_added(part.added, part.unit)), _percent(part.share) if part.share else ""]


def _with_unit(value: float, unit: str) -> str:
    return fmt.with_unit(fmt.number(value, fmt.significant_decimals(value)), unit)


def _added(added: Estimate, unit: str) -> Shown:
    return fmt.absolute(added, unit, signed=True)


def _percent(share: Estimate | None) -> str:
    if share is None:
        return fmt.NONE
    percent = Estimate(value=share.value * 100, low=share.low * 100, high=share.high * 100, rounds=share.rounds)
    return str(fmt.absolute(percent, "%", decimals=min(1, fmt.decimals_of(percent))))


def _metric(result: Result, step: SplitStep) -> Metric:
    return next(metric for metric in result.metrics if metric.name == step.metric)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
