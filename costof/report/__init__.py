"""Analysis of a run's ledger into a `Result`, and the reports that show it.

Reports show only what is in a `Result`, so every report can be rebuilt from the ledger.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from costof import format as fmt
from costof.files import write_together
from costof.report import markdown, terminal
from costof.report.blocks import (
    TERMINAL,
    Block,
    Bullets,
    CallOut,
    Checks,
    Document,
    Handout,
    Headlines,
    KeyFigures,
    Lines,
    Paragraph,
    Part,
)
from costof.report.how_sure import how_sure
from costof.report.key_figures import first_of_each_arm
from costof.report.result import Result, Sections
from costof.report.sections import Section, every_section, section_spec, sentences
from costof.report.sections.answer import chosen_end, too_few_rounds
from costof.report.sections.next_steps import next_lines
from costof.report.summary import BREAK_EVEN, NO_MITIGATION, REDUCES_COST, ROUNDS, summary
from costof.report.verdict_sentence import MOST_ARMS
from costof.results.core import build_core
from costof.results.index import Index, Lead
from costof.results.ledger import Ledger
from costof.results.models import Core, Sentence
from costof.results.run import read_run

__all__ = [
    "analyse",
    "build_result",
    "document",
    "render_embedded",
    "render_html",
    "render_markdown",
    "render_terminal",
    "write_reports",
]


def analyse(ledger: Ledger) -> Result:
    """Return the result of a run. Raises `NOT_A_RUN`, or `NOTHING_MEASURED` if the servers never started."""
    run = read_run(ledger)
    study = run.plan.study
    specs = {section.name: section_spec(section, study) for section in every_section()}
    used = [each for each in every_section() if each.spec is None or specs[each.name] is not None]
    core = build_core(run, ledger.folder.name)
    data = {each.name: each.compute(run, core, specs[each.name]) for each in used if each.data is not None}
    return build_result(core, Sections(**data))


def build_result(core: Core, sections: Sections) -> Result:
    """Return the result of a run, with its answer and summary, made from the core result and the sections' data."""
    leads = {section.name: section.lead(Index(core), data) for section, data in _present(sections)}
    answer = _answer(Index(core, [*leads.values()]), sections, leads)
    index = Index(core, [*leads.values()], answer)
    present = [] if too_few_rounds(core) else [*_present(sections)]
    if index.summary_is_filled:
        present = [(section, data) for section, data in present if leads[section.name].fills_summary]
    figures = [figure for section, data in present for figure in section.key_figures(index, data)]
    brief = summary(index, figures)
    sure = how_sure(index, brief.figures, sections.checks or [])
    return Result(**dict(core), answer=answer, summary=brief.model_copy(update={"sure": sure}), sections=sections)


def _answer(index: Index, sections: Sections, leads: Mapping[str, Lead]) -> list[Sentence]:
    """Return the sentences of all sections. If one section fills the summary, leave out the reasons of the others.

    If the run has too few rounds for a verdict, return only three kinds of sentences: warnings, sentences about
    overloaded arms, and a sentence that says why there is no answer.
    """
    answers = [
        sentence
        for section, data in _present(sections)
        for sentence in section.answer(index, data)
        if sentence.kind != "why" or leads[section.name].fills_summary or not index.summary_is_filled
    ]
    if (too_few := too_few_rounds(index.core)) is None:
        return answers
    kept = [sentence for sentence in answers if sentence.kind in ("leading_warning", "warning", "verdict")]
    is_overloaded = any(sentence.kind == "verdict" for sentence in kept)
    return [*kept, *sentences("verdict" if is_overloaded else "answer", [too_few])]


def _present(sections: Sections) -> Iterator[tuple[Section[Any, Any], Any]]:
    """Yield each section of the report with its data. Sections for which this run has no data are left out.

    A section that shows only the core result has no data of its own, and is yielded with None.
    """
    for section in every_section():
        data = getattr(sections, section.name, None)
        if section.data is None or data is not None:
            yield section, data


def document(result: Result, *more: Part) -> Document:
    """Return the report of a result as a document that ends with the parts `more`."""
    index = Index(result, answer=result.answer)
    placed = [
        (section.order if part.order is None else part.order, part)
        for section, data in _present(result.sections)
        for part in section.parts(index, data)
    ]
    placed.sort(key=lambda each: each[0])
    return _document(result, index, [*(part for _, part in placed), *more])


def _document(result: Result, index: Index, parts: list[Part]) -> Document:
    measured = f"{fmt.duration(result.measured_seconds)} measured"
    if result.resolved_early and result.budget_seconds:
        budget = fmt.duration(result.budget_seconds)
        measured += f" of a budget of {budget}, ended early because every main effect had a verdict"
    elif result.resumed_with_budget and result.budget_seconds:
        measured += f" of a budget of {fmt.duration(result.budget_seconds)}"
    return Document(
        title=result.question,
        subtitle=" · ".join([result.study, f"{result.profile} profile", index.extent, measured]),
        started=result.started,
        parts=parts,
        origin=f"Made by costof from the results of run {result.run}.",
        handout=Handout(
            question=result.question,
            run=result.run,
            extent=f"{result.study}, {index.extent}, {fmt.duration(result.measured_seconds)} measured",
            started=result.started[:10],
            summary=result.summary,
            checks=result.sections.checks or [],
            versions=versions(result),
            command=result.command,
        ),
    )


VERSION = re.compile(r"(?:[A-Za-z][\w.-]* )?\d+\.\d[\w.+-]*")
NO_VERSION = {"kernel", "load before", "steal"}


def versions(result: Result) -> dict[str, str]:
    """Return program versions by name: first costof, then the measured servers, then the measuring programs."""
    facts = result.environment.items()
    found = {name: VERSION.match(fact) for name, fact in facts if isinstance(fact, str) and name not in NO_VERSION}
    return {name: match[0] for name, match in found.items() if match}


def render_terminal(result: Result, console: Console, folder: Path | None = None, *, full: bool = False) -> None:
    """Print the short answer on a terminal or, if `full`, the whole report.

    `folder` is the run's folder (default: the run's name). If there are too few rounds for an answer, only the short
    form is printed, because users would take the uncertain figures of the whole report for an answer.
    """
    place = folder or Path(result.run)
    if full and too_few_rounds(result) is None:
        path = f"{place / 'report.html'}"
        if result.sections.cost_model is not None:
            path += " (with a calculator for your own loads)"
        where = Part("files", "", [Bullets([path], label="Full report", media=TERMINAL)])
        terminal.render_terminal(document(result, where), console)
    else:
        shortened = (short_document(result, place, shortness) for shortness in SHORTNESS)
        short = next((each for each in shortened if terminal.count_lines(each, console.width) <= MOST_LINES), None)
        terminal.render_terminal(short or short_document(result, place, SHORTNESS[-1]), console)


#: The short answer should fit into MOST_LINES lines. If it does not fit, it is built again at the next level of
#: SHORTNESS, which is shorter. For each level, `MOST_FIGURES` has the maximum number of figures, and `LEFT_OUT` has the
#: labels of the lines to omit. A line about a measured mitigation is not omitted, but shortened to its first sentence.
#: Each protection that the verdict names keeps at least one figure.
MOST_LINES = 30
SHORTNESS = range(6)
MOST_FIGURES = (6, 6, 4, 3, 3, 2)
_REASONS = {BREAK_EVEN, ROUNDS, "Why"}
_ALL = {*_REASONS, REDUCES_COST}
LEFT_OUT: tuple[set[str], ...] = (set(), {BREAK_EVEN}, {BREAK_EVEN, ROUNDS}, _REASONS, _ALL, _ALL)
#: The first words of the warning that the machine was busy before the run. If the short answer has checks, it leaves
#: this warning out, because one of the checks says whether the machine was quiet during the run.
BUSY_BEFORE = "the machine was busy"


def short_document(result: Result, folder: Path, shortness: int = 0) -> Document:
    """Return the short answer for a small terminal: the summary, the checks, and how to see the whole report.

    `shortness` is a level in `SHORTNESS`: 0 is the longest answer, and higher levels have fewer figures and reasons.
    """
    index, brief = Index(result, answer=result.answer), result.summary
    blocks: list[Block] = []
    if result.partial:
        wider = chosen_end(result)
        blocks.append(CallOut("partial", f"{result.partial.rstrip('.')}.{wider}" if wider else result.partial))
    blocks.append(Headlines([*brief.lines, *filter(None, [brief.limits])]))
    for label, text in brief.beside_verdict:
        if label not in LEFT_OUT[shortness]:
            blocks.append(Paragraph(text, label=label))
        elif not text.startswith(NO_MITIGATION):
            first, end, _ = text.partition(". ")
            blocks.append(Paragraph(f"{first}{end.rstrip()}", label=label))
    warnings = [sentence.text for sentence in index.sentences("warning")]
    left_out = set(result.lost_hosts)
    if result.sections.checks:
        left_out |= {text for text in result.warnings if text.startswith(BUSY_BEFORE)}
    others = [text for text in result.warnings if text not in left_out]
    # Warnings about lost hosts come first, because the loss of a host changes the load on the remaining hosts.
    warnings = [
        *map(fmt.capital, result.lost_hosts),
        *warnings,
        *(index.failure(arm) for arm in index.arms_in_error),
        *map(fmt.capital, others),
    ]
    arms = {figure.arm for figure in brief.figures}
    figures = first_of_each_arm(brief.figures, max(MOST_FIGURES[shortness], min(len(arms), MOST_ARMS)))
    blocks += [KeyFigures(figures)] if figures else []
    blocks += [block for section, data in _present(result.sections) for block in section.brief(index, data)]
    lines: list[tuple[str, str]] = []
    if warnings:
        # Shorten the warning to its first sentence, which says what is wrong.
        first = warnings[0].partition(". ")[0].rstrip(".") + "."
        further = len(warnings) - 1
        more = f" See all figures for {fmt.plural(further, 'more warning')}." if further else ""
        # If the short answer has no figures, there is room for the full text of every warning.
        shown = [first + more] if figures else warnings
        lines += [("Warning", text) for text in shown]
    if result.sections.checks and brief.sure:
        lines.append(("Checks", terminal.marks(result.sections.checks)))
    elif result.sections.checks:
        blocks.append(Checks(result.sections.checks))
    reasons = [each for each in brief.reasons if each[0] not in LEFT_OUT[shortness]]
    report = ("Report", str(folder / "report.html"))
    figures_command = ("All figures", f"costof show --full {shlex.quote(str(folder))}")
    next_steps = [("Next", text) for text in next_lines(index, folder, figures)]
    blocks.append(Lines([*lines, *reasons, report, figures_command, *next_steps]))
    whole, load = _document(result, index, [Part("summary", "", blocks)]), result.sections.load
    # If the subtitle has a second part, 'of a budget of 5 min, ended early because …', leave it to the full report.
    subtitle = whole.subtitle.partition(" of ")[0] if result.resolved_early else whole.subtitle
    subtitle = f"{subtitle} · {load.load.in_words}" if load is not None else subtitle
    return replace(whole, title="", subtitle=subtitle)


def render_markdown(result: Result) -> str:
    return markdown.render_markdown(document(result))


def render_html(result: Result) -> str:
    from costof.report import html  # deferred: importing jinja2 is slow

    return html.render_html(document(result))


def render_embedded(result: Result) -> str:
    """Return a page with only the key figures, the picture and the calculator, to embed in an iframe of another page.

    The page sends its height in CSS pixels to the page around it, as a message `{costofHeight: …}`.
    """
    from costof.report import html  # deferred: importing jinja2 is slow

    return html.render_html(document(result), "embedded.html.j2")


def write_reports(result: Result, folder: Path) -> list[Path]:
    """Write `result.json`, `report.html` and `report.md` into an existing folder, and return their paths in this order.

    If one of them cannot be written, all files of an earlier report stay as they are. Raises `OSError`.
    """
    reports = {
        folder / "result.json": result.model_dump_json(indent=2) + "\n",
        folder / "report.html": render_html(result),
        folder / "report.md": render_markdown(result),
    }
    write_together(reports)
    return list(reports)
