"""The answer to a run's question in Markdown, for a study's page or another page of the site.

The answer has these parts: a sentence with a few lines below it, a frame with picture and calculator, mitigations,
published figures, and evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape as escape_html

from costof import format as fmt
from costof.report import document
from costof.report.blocks import Medium, Part
from costof.report.markdown import escape, render_blocks
from costof.report.result import Result
from costof.report.sections.mitigations import Mitigations
from costof.results.index import VIEWS, Index
from costof.statistics.estimate import Verdict
from manual import claims, glance, own_servers, processors
from manual.kept import KEPT

#: The file with a report's figures, picture and calculator, which the page shows in an iframe.
EMBEDDED = "{run}-embedded.html"
FRAME = '<div class="answer"><iframe src="{source}" title="{title}"></iframe></div>'
#: The last paragraph of an answer.
MORE = (
    "[The whole report](../reports/{study}.html) of this run, [its raw results](../runs/{study}.tar.xz), the study's "
    "[other settings](../reference/studies.md#{study}), and the [costs](../costs.md) of all studies."
)
#: The last paragraph of an answer to another question than the study's, such as the cost of an upgrade.
MORE_BEYOND_STUDY = (
    "[The whole report](reports/{run}.html) of this run, [its raw results](runs/{run}.tar.xz), and the "
    "[study](studies/{study}.md) with its [other settings](reference/studies.md#{study})."
)
#: The sections of the report that compare two versions of a server, metric by metric.
CHANGES = ("upgrade",)
NO_MITIGATION = (
    "This run measured no mitigation, because none of its arms keeps the protection and differs from the protected arm "
    "in a single setting."
)
MEASURED_ELSEWHERE = " For mitigations of this server, see {links}."
TO_MEASURE = " To measure one, vary the {data.factor}: `costof run {study} --profile quick --set {data.measure}`."


def _verdict(result: Result) -> str:
    """Return the verdict as a quotation in Markdown, with a paragraph for each of its lines."""
    return "\n>\n".join(f"> **{escape(line)}**" for line in result.summary.lines)


def answer(result: Result, results: Mapping[str, Result], former: Result | None, needed: Sequence[str] = ()) -> str:
    """Return the answer in Markdown.

    `results` has all studies' results, for links to studies of the same server. `former` is the study's run on another
    processor, if there is one. `needed` has sentences about what operations need (`protections.needs_in_verdict`).
    """
    parts, kept = {part.name: part for part in document(result).parts}, KEPT.get(result.run)
    frame = FRAME.format(
        source=f"../reports/{EMBEDDED.format(run=result.run)}", title="Figures, picture and calculator"
    )
    texts = [
        _verdict(result),
        "\n".join(
            [
                *glance.sure(result),
                *glance.control(result),
                *(f"- {note}" for note in (kept.notes if kept is not None else ())),
                *glance.lines(result, results, needed),
                *glance.break_even(result),
                *glance.intervals(result),
                *glance.memory(result),
                own_servers.line(result.study),
            ]
        ),
        frame,
        *_mitigations(result, results, parts.get("mitigations")),
    ]
    if published := [*claims.paragraphs(result)]:
        texts += [f"## {claims.TITLE}", *published]
    texts += ["## Evidence", *_evidence(result), processors.line(former, result), *_same_server(result, results)]
    texts.append(MORE.format(study=result.study))
    return "\n\n".join(filter(None, texts)).replace(fmt.NBSP, " ") + "\n\n"


def answer_beyond_study(result: Result) -> str:
    """Return, in Markdown, a run's answer to another question than the study's, such as the cost of an upgrade.

    The answer is for a page in `docs/` itself. It has no mitigations, published figures or other studies, because these
    are about the study's question.
    """
    parts = {part.name: part for part in document(result).parts}
    why = [f"- **Why:** {escape(result.summary.why)}"] if result.summary.why else []
    texts = [
        _verdict(result),
        "\n".join([*glance.sure(result), *why, *glance.intervals(result)]),
        FRAME.format(source=f"reports/{EMBEDDED.format(run=result.run)}", title="Figures and picture"),
        *(text for name in CHANGES if name in parts for text in render_blocks([*parts[name].select(Medium.MARKDOWN)])),
        *_evidence(result),
        MORE_BEYOND_STUDY.format(run=result.run, study=result.study),
    ]
    return "\n\n".join(filter(None, texts)).replace(fmt.NBSP, " ") + "\n\n"


def _mitigations(result: Result, results: Mapping[str, Result], part: Part | None) -> Iterator[str]:
    """Yield the section about mitigations. Yield nothing for a study that judges none, such as one of topologies."""
    data = result.sections.mitigations
    links = fmt.listed([glance.link(other.study) for other in glance.helping_elsewhere(result, results)])
    if data is None and not links:
        return
    yield "## What helps, best first"
    if part is None or data is None or not data.protecting:
        elsewhere = MEASURED_ELSEWHERE.format(links=links) if links else ""
        advises = data is not None and data.measure
        yield NO_MITIGATION + elsewhere + (TO_MEASURE.format(study=result.study, data=data) if advises else "")
        return
    yield from map(escape, _reservations(Index(result), data))
    yield from render_blocks([*part.select(Medium.MARKDOWN)])


def _reservations(index: Index, data: Mitigations) -> Iterator[str]:
    """Yield what to consider before choosing a mitigation (a setting that makes the protection cheaper).

    If some mitigations give up a part of the protection, the first item names the best one that keeps the whole
    protection. For each mitigation that makes other metrics worse, a further item says by how much.
    """
    helping = [each for each in data.protecting if each.verdict is Verdict.SAVES]
    best = data.best
    if best is not None and not best.gives_up and any(each.gives_up for each in helping):
        share = f" (it recovers {fmt.percentage(best.recovered)} of the loss)" if best.recovered else ""
        yield f"The best one that keeps the whole protection: {best.label}{share}."
    for each in helping:
        if costs := [*glance.costs_elsewhere(index, data, each)]:
            control = index.label(data.control)
            yield f"{fmt.capital(each.label)} {fmt.listed(costs)}, compared with the control ({control})."


def _same_server(result: Result, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a list of the other studies of the same server, with their answers. Yield nothing if there are none."""
    if others := glance.same_server(result, results):
        yield f"Other studies of {escape(glance.server(result))}:"
        yield "\n".join(f"- {glance.link(other.study)} {escape(glance.cost(other))}" for other in others)


def _evidence(result: Result) -> Iterator[str]:
    """Yield HTML with the run's checks (such as whether the machine was quiet), and with the evidence of each arm.

    Evidence proves that an arm had its settings, such as the TLS version. The reader clicks to open the list of
    evidence.
    """
    yield " · ".join(escape(check.words) for check in result.sections.checks or [])
    index, items = Index(result), []
    for arm in (each for each in result.arms if not each.replicate):
        for item in arm.evidence:
            facts = ", ".join(f"{name}: {value}" for name, value in item.facts.items())
            left_out = f", {item.discarded} left out" if item.discarded else ""
            view = f" {VIEWS[item.view]}" if VIEWS.get(item.view) else f", {item.view}"
            slices = f" ({fmt.plural(item.slices, 'slice')}{left_out})"
            items.append(
                f"<li><b>{escape_html(index.label_at(arm.name) + view)}</b>: {escape_html(facts + slices)}</li>"
            )
    if items:
        yield "\n".join(["<details><summary>What each arm used</summary><ul>", *items, "</ul></details>"])
