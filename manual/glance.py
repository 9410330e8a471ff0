"""The answer to a study's question in a few lines: costs, what makes the protection cheaper, published figures.

The site's first page has these lines for every study. Each study's page begins with the lines about that study.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from costof import format as fmt
from costof.report import versions
from costof.report.how_sure import HIGH
from costof.report.key_figures import CORES
from costof.report.markdown import escape
from costof.report.result import Result
from costof.report.sections.break_even import SECTION as BREAKS_EVEN
from costof.report.sections.breakdown import SECTION as BREAKDOWN
from costof.report.sections.cost_model import reason
from costof.report.sections.costs import cost_clause
from costof.report.sections.memory import SECTION as MEMORY
from costof.report.sections.mitigations import Mitigation, Mitigations, remaining
from costof.report.summary import BREAK_EVEN, HOW_SURE, reasons
from costof.report.verdict_sentence import MOST_IN_VERDICT, verdict_sentence
from costof.results.index import Index
from costof.results.models import Effect, Metric
from costof.statistics.estimate import Verdict
from costof.study.library import load_study
from manual import claims
from manual.kept import KEPT

HEAD = """## What each protection costs

Each question leads to the picture, the calculator and the evidence. [Costs](costs.md) has all figures on one page.
Other pages compare [five publications](published.md) with our runs, and runs on [two processors](processors.md).
"""


def title(study: str) -> str:
    return load_study(study).title


def link(study: str) -> str:
    return f"[{escape(title(study))}]({study}.md)"


def helping_elsewhere(result: Result, results: Mapping[str, Result]) -> list[Result]:
    """Return the other studies of the same server and protection that measured settings that lower the cost."""
    others = same_server(result, results)
    return [other for other in others if helps(other) and _protection(other) == _protection(result)]


def _protection(result: Result) -> str:
    return load_study(result.study).protection


def server(result: Result) -> str:
    """Return the first measured server with its version, such as 'postgres 15.18'."""
    servers = ((name, version) for name, version in versions(result).items() if name != "costof")
    return next((f"{name} {version}" for name, version in servers), "server of unknown version")


def lines(result: Result, results: Mapping[str, Result], needed: Sequence[str] = ()) -> Iterator[str]:
    """Yield items of a Markdown list: the reason for the cost, the settings that lower it, and the published figures.

    `results` has the results of all studies, because another study of the same server and protection may have measured
    settings that lower the cost. `needed` has sentences about what operations need with each protection.
    """
    helping = [escape(text) for text in [helps(result)] if text]
    helping += [f"{link(other.study)} {escape(helps(other))}" for other in helping_elsewhere(result, results)]
    data = result.sections.mitigations
    causes = [*_why(result, needed), *(remaining(Index(result), data) if data is not None else [])]
    why = [f"- **Why:** {escape(' '.join(causes))}"] if causes else []
    helping = [f"- **What helps:** {text}" for text in helping]
    # Mitigations that this study measured come before the reason, because they answer the study's question. Mitigations
    # that only other studies measured come after it.
    yield from [*helping, *why] if helps(result) else [*why, *helping]
    if published := claims.lead(result):
        larger = claims.larger_run(result.study)
        decides = f" {larger} decides where they differ." if larger else ""
        yield f"- **Published:** {published} [All beside ours](#{claims.ANCHOR}).{decides}"
    elif result.published is None:
        yield "- **Published:** No published figures are compared."
    else:
        yield f"- **Published:** No published figure is judged; [those that are known](#{claims.ANCHOR})."


def _why(result: Result, needed: Sequence[str]) -> list[str]:
    """Return the summary's reasons for the cost, then `needed`, which replaces the summary's own such sentence."""
    index, model = Index(result, answer=result.answer), result.sections.cost_model
    own = fmt.without_intervals(reason(index, model)) if needed and model is not None else ""
    return [*(each for each in reasons(index, result.summary.figures) if each != own), *needed]


def sure(result: Result) -> Iterator[str]:
    """Yield an item of a list that says how sure the figures are, unless they are as sure as a run's can be."""
    text = result.summary.sure
    if text and not text.startswith(HIGH):
        yield f"- **{HOW_SURE}:** {escape(text)}"


def control(result: Result) -> Iterator[str]:
    """Yield an item of a list that names the control and what it costs itself, such as a gateway that encrypts nothing.

    Yield nothing if the run did not measure this.
    """
    data, index = result.sections.breakdown, Index(result)
    controls = {arm.name for arm in result.arms if arm.control}
    # The control is the end of a step only if the step adds the control's own programs.
    steps = tuple(fmt.capital(step.label) for step in data or [] if step.end in controls)
    if data and steps:
        texts = [each.text for each in BREAKDOWN.answer(index, data) if each.kind == "answer"]
        own = " ".join(text for text in texts if text.startswith(steps))
        yield f"- **Compared with:** {escape(f'{index.control_label}. {own}')}"


def intervals(result: Result) -> Iterator[str]:
    """Yield an item of a list for each key figure: its difference from the control, with the 95 % interval."""
    by_arm: dict[str, list[str]] = {}
    for figure in result.summary.figures:
        added = fmt.absolute(figure.difference, figure.shown_unit, signed=True)
        text = f"{figure.whole_label} {added.value} {added.interval}".strip()
        by_arm.setdefault(figure.arm_label, []).append(f"{text} ({figure.verdict_word})")
    if by_arm:
        arms = (f"{label}: {', '.join(texts)}" for label, texts in by_arm.items())
        yield f"- **With 95 % intervals:** {escape('; '.join(arms))}."


def break_even(result: Result) -> Iterator[str]:
    """Yield an item of a list that says below how many queries a connection a variant saves time; nothing if none does.

    Such a variant needs less time for a new connection than the control, and more for a query.
    """
    data, index = result.sections.break_even, Index(result)
    if texts := [each.text for each in BREAKS_EVEN.answer(index, data or []) if " saves time " in each.text]:
        control_label = fmt.in_quotes(index.control_label)
        yield f"- **{BREAK_EVEN}:** {escape(' '.join(texts))} All compared with {escape(control_label)}."


def memory(result: Result) -> Iterator[str]:
    """Yield an item of a list that says what each arm adds to the servers' memory for an idle connection.

    Yield nothing if the run did not measure memory.
    """
    data = result.sections.memory
    if data is not None and (sentences := MEMORY.answer(Index(result), data)):
        yield f"- **Memory of an idle connection:** {escape(' '.join(each.text for each in sentences))}"


def overview(results: Sequence[Result], repeated: Collection[str] = ()) -> str:
    """Return the list of all questions for the first page, in Markdown: each with its answer in short.

    `results` has the studies' runs, and the runs about other questions, such as upgrades. `repeated` has the studies
    whose published figures were repeated at the published size.
    """
    items = []
    for result in results:
        kept = KEPT.get(result.run)
        if kept is not None and not kept.is_of_study:
            items.append(f"- **[{escape(kept.question)}]({kept.page}#{kept.name})** {escape(cost(result))}")
            continue
        page = f"studies/{result.study}.md"
        texts = [escape(cost(result)), escape(helps(result))]
        if result.study in repeated:
            texts.append(f"[Published figures, repeated at their size](published.md#{result.study}).")
        elif published := claims.summary(result):
            texts.append(f"[{published}]({page}#{claims.ANCHOR}).")
        items.append(f"- **[{escape(title(result.study))}]({page})** {' '.join(filter(None, texts))}")
    return "\n".join([HEAD, *items, ""]).replace(fmt.NBSP, " ")


def cost(result: Result) -> str:
    """Return the verdict as a sentence, and the condition under which it holds."""
    kept = KEPT.get(result.run)
    return " ".join(filter(None, [_verdict(result), kept.condition if kept is not None else ""]))


def _verdict(result: Result) -> str:
    """Return the verdict as a sentence. Leave out the number of CPU cores if there are other figures to show."""
    shown = result.summary.figures
    others = [figure for figure in shown if figure.name != CORES]
    if not others or result.summary.verdict != verdict_sentence(shown):
        return result.summary.verdict
    has_one_arm = len({figure.arm for figure in shown}) == 1
    return verdict_sentence(others[: MOST_IN_VERDICT - 1] if has_one_arm else others)


def helps(result: Result) -> str:
    """Return what the best mitigation saves and how it worsens other metrics; '' if no mitigation was measured."""
    data = result.sections.mitigations
    if data is None or not data.protecting:
        return ""
    text, index = fmt.capital(result.summary.mitigation), Index(result)
    if data.best is not None and (costs := [*costs_elsewhere(index, data, data.best)]):
        text += f" Compared with the control ({index.label(data.control)}), it {fmt.listed(costs)}."
    return fmt.without_intervals(" ".join([text, *_helps_others(result, data)]))


def _helps_others(result: Result, data: Mitigations) -> Iterator[str]:
    """Yield the rate of each other protection of the verdict without and with the best mitigation.

    For example: "Compared with a flush of the redo log, it raises 'commits a second' from 4,000 to 20,000 /s."
    """
    index, best = Index(result), data.best
    metric = index.metrics[data.metric]
    reference, mitigated = index.arm(data.reference), index.arm(best.arm) if best is not None else None
    if best is None or metric.better != "higher" or reference is None or mitigated is None:
        return
    main = load_study(result.study).main_factor
    labels: dict[str, str] = {}
    for figure in result.summary.figures:
        labels |= {arm.levels[main]: figure.arm_label for arm in map(index.arm, figure.arms) if arm is not None}
    by_levels = {frozenset(arm.levels.items()): arm.name for arm in index.arms}
    for level in (each for each in labels if each != reference.levels[main]):
        names = [by_levels.get(frozenset({**arm.levels, main: level}.items()), "") for arm in (reference, mitigated)]
        before, after = (index.value(data.metric, name) for name in names)
        if before is not None and after is not None and after.mean.low > before.mean.high:
            rates = (
                f"from {fmt.number(before.mean.value)} to {fmt.with_unit(fmt.number(after.mean.value), metric.unit)}"
            )
            yield f"Compared with {labels[level]}, it raises {index.metric_words(data.metric)} {rates}."


def costs_elsewhere(index: Index, data: Mitigations, mitigation: Mitigation) -> Iterator[str]:
    """Yield what the mitigation costs in each other key metric, such as "lowers 'queries a second' by 12 %".

    Leave out metrics in which the protection alone costs as much or more: there the mitigation does no harm.
    """
    for metric in (each for each in index.headline_metrics if each.name != data.metric):
        effect, alone = (index.effect(metric.name, arm) for arm in (mitigation.arm, data.reference))
        if effect is None or effect.verdict is not Verdict.COSTS or effect.printed_ratio is None:
            continue
        if alone is None or _worsens(metric, effect) > _worsens(metric, alone):
            yield cost_clause(index, metric, effect)


def _worsens(metric: Metric, effect: Effect) -> float:
    """Return the factor by which the metric gets worse: 2 for a doubled time or a halved rate."""
    factor = effect.printed_ratio.value if effect.printed_ratio is not None else 1.0
    return factor if metric.better == "lower" else 1 / factor


def same_server(result: Result, results: Mapping[str, Result]) -> list[Result]:
    """Return the results of other studies that measured the same server in the same version."""
    return [other for other in results.values() if other.study != result.study and server(other) == server(result)]
