"""The answer on the page of a study: a sentence, a frame with picture and calculator, mitigations, claims, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape as escape_html

from costof import format as fmt
from costof.report import document
from costof.report.blocks import Medium, Part, Table
from costof.report.markdown import escape, render_blocks
from costof.report.result import Result
from costof.results.index import VIEWS, Index
from manual import claims

#: The report's figures, picture and calculator, as a page for a frame.
EMBEDDED = "{study}-embedded.html"
NO_MITIGATION = "No arm of this run is a mitigation: none differs from the protected arm in one setting."


def answer(result: Result, results: Mapping[str, Result]) -> str:
    """Return the answer in Markdown. `results` are those of all studies, for links to studies of the same server."""
    parts = {part.name: part for part in document(result).parts}
    frame = f"../reports/{EMBEDDED.format(study=result.study)}"
    title = escape_html(f"{result.question} Figures, picture and calculator")
    texts = [
        f"> **{escape(result.summary.verdict)}**",
        *(f"{escape(text)}" for text in [result.summary.why] if text),
        f'<div class="answer"><iframe src="{frame}" title="{title}"></iframe></div>',
        "## What helps, best first",
        *_mitigations(result, parts.get("mitigations")),
    ]
    if published := [*claims.section(result)]:
        texts += ["## Published figures beside ours", *published]
    texts += ["## Evidence", *_evidence(result)]
    if others := [*_same_server(result, results)]:
        texts += [f"## More about {server(result)}", "\n".join(others)]
    return "\n\n".join(texts).replace(fmt.NBSP, " ") + "\n\n"


def server(result: Result) -> str:
    """Return the measured server with its version, such as 'postgres 15.18'."""
    handout = document(result).handout
    assert handout is not None
    # A run lists the versions of costof, of the measured servers and of the measuring programs, in this order.
    servers = ((name, version) for name, version in handout.versions.items() if name != "costof")
    return next((f"{name} {version}" for name, version in servers), "server of unknown version")


def _mitigations(result: Result, part: Part | None) -> Iterator[str]:
    sentences = [result.summary.mitigation] if result.summary.mitigation else []
    yield from map(escape, sentences)
    if part is None:
        if not sentences:
            yield NO_MITIGATION
        return
    blocks = [replace(block, title="") if isinstance(block, Table) else block for block in part.select(Medium.MARKDOWN)]
    yield from render_blocks(blocks)


def _evidence(result: Result) -> Iterator[str]:
    index = Index(result)
    checks = result.sections.checks or []
    yield " · ".join(escape(check.words) for check in checks)
    lines = []
    for arm in result.arms:
        for item in arm.evidence:
            facts = ", ".join(f"{name} {value}" for name, value in item.facts.items())
            left_out = f", {item.discarded} left out" if item.discarded else ""
            view = f" {VIEWS[item.view]}" if VIEWS.get(item.view) else f", {item.view}"
            slices = f" ({fmt.plural(item.slices, 'slice')}{left_out})" if item.slices else ""
            copy = ", the control's copy" if arm.replicate else ""
            lines.append(f"- {escape(f'{index.label_at(arm.name)}{copy}{view}: {facts}{slices}')}")
    if lines:
        yield "\n".join(lines)


def _same_server(result: Result, results: Mapping[str, Result]) -> Iterator[str]:
    for study, other in results.items():
        if study != result.study and server(other) == server(result):
            yield f"- [{escape(other.question)}]({study}.md) {escape(other.summary.mitigation or other.summary.verdict)}"
    yield "- [Costs](../costs.md) of every study, in one table"
