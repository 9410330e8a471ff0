"""The answer as GitHub-flavoured Markdown: to be pasted into the ticket or pull request that the decision lives in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from costof.analysis.result import Result, Table
from costof.document import format as fmt
from costof.report import ab, distance, split, trees, winning_back, words
from costof.report.environment import flat
from costof.report.reading import PublishedRow, Reading, Setting, ViewRows

SPECIAL = re.compile(r"[\\`*<>|~]|^[#+-](?= )|(?<!\w)_|_(?!\w)|\](?=[(:\[])")
"""What GitHub's Markdown takes as markup; an interval's brackets and `snake_case` are left as people read them."""
TEXT_COLUMNS = ("verdict",)


def render_markdown(result: Result) -> str:
    """The whole report as one string that ends with a newline."""
    reading = Reading(result)
    blocks = [block for section in SECTIONS for block in section(reading)]
    return "\n\n".join(blocks).replace(fmt.NBSP, " ") + "\n"


def escape(text: str) -> str:
    """Words of the user's, literally: no markup, no HTML, and no end of a table's cell."""
    return SPECIAL.sub(lambda found: "\\" + found.group(), " ".join(text.split()))


def table(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """A table whose first `left` columns are words and whose others are figures."""
    rule = ["---" if index < left or name in TEXT_COLUMNS else "---:" for index, name in enumerate(head)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def bullets(lines: list[str]) -> str:
    """A list of sentences, each escaped."""
    return "\n".join(f"- {escape(line)}" for line in lines)


def _heading(reading: Reading) -> Iterator[str]:
    yield f"# {escape(reading.result.question)}"
    yield f"{escape(words.subtitle(reading))} · {escape(reading.result.started)}"


def _answer(reading: Reading) -> Iterator[str]:
    if reading.result.partial:
        yield f"> **Partial run.** {escape(reading.result.partial)}"
    answers = [sentence.text for sentence in reading.sentences("answer")] or [words.NO_ANSWER]
    yield "\n".join(f"**{escape(text)}**" for text in answers)
    if details := [sentence.text for sentence in reading.sentences("detail")]:
        yield bullets(details)
    for sentence in reading.sentences("caution"):
        yield f"Caution: {escape(sentence.text)}"
    for arm in reading.arms_in_error:
        yield f"**Arm in error.** {escape(reading.failure(arm))}"


def _tables(reading: Reading) -> Iterator[str]:
    for study_table in reading.tables:
        yield from _study_table(study_table, "##")
    yield "## What it costs"
    reason = words.empty_reason(reading)
    if reason:
        yield reason
    for view in reading.views:
        yield f"### {escape(view.title)}"
        yield _view_table(reading, view)
    if reading.views:
        yield words.INTERVALS
        published = words.published_source(reading)
        yield from [escape(published)] if published else []


def _study_table(of: Table, level: str) -> Iterator[str]:
    if of.title:
        yield f"{level} {escape(of.title)}"
    rows = [[escape(cell.text) for cell in row] for row in of.rows]
    yield table([escape(column) for column in of.columns], rows)
    if of.note:
        yield escape(of.note)


def _winning_back(reading: Reading) -> Iterator[str]:
    result = reading.result
    if result.cures:
        yield f"## {escape(winning_back.cure_title(result))}"
        yield _escaped(winning_back.CURE_HEAD, winning_back.cure_rows(result))
        yield escape(winning_back.METHOD)
    if result.sizing:
        yield "## How many new clients a core takes"
        yield _escaped(winning_back.sizing_head(result.sizing), winning_back.sizing_rows(result))
        if checks := winning_back.check_rows(result):
            yield "### Bursts: predicted and measured"
            yield _escaped(winning_back.CHECK_HEAD, checks)
        yield escape(winning_back.MODEL)


def _trees(reading: Reading) -> Iterator[str]:
    if reading.result.trees:
        yield "## Who followed whom"
        yield table(trees.HEAD, [[escape(cell) for cell in row] for row in trees.rows(reading.result)], left=2)
        yield escape(trees.METHOD)


def _split(reading: Reading) -> Iterator[str]:
    if not reading.result.split:
        return
    yield f"## {split.TITLE}"
    yield from map(escape, split.sentences(reading, reading.nearest))
    for setting in reading.settings:
        yield from [f"### {escape(setting.title)}"] if setting.title else []
        rows = [[escape(cell) for cell in row] for row in split.rows(reading, setting)]
        yield table(split.HEAD, rows, left=2)
    yield escape(split.METHOD)


def _escaped(head: list[str], rows: list[list[str]]) -> str:
    return table([escape(each) for each in head], [[escape(cell) for cell in row] for row in rows])


def _as_ab(reading: Reading) -> Iterator[str]:
    for each in ab.summary(reading):
        yield from _study_table(each, "##")
    for figures in reading.result.ab:
        for each in ab.of_arm(reading, figures):
            yield from _study_table(each, "###")


def _view_table(reading: Reading, view: ViewRows) -> str:
    many, published = reading.many_arms, any(row.published for row in view.rows)
    head = [
        "metric",
        *(["with"] if many else []),
        reading.control_name,
        reading.arm_heading,
        "difference",
        "relative",
        "verdict",
    ]
    rows = []
    for row in view.rows:
        name = fmt.titled(row.metric.label, row.metric.unit)
        cells = [name, *([row.arm.protection] if many else []), row.control, row.value]
        cells += [str(row.difference), str(row.relative), row.verdict]
        if published:
            cells.append("; ".join(_published(theirs) for theirs in row.published))
        rows.append([escape(cell) for cell in cells])
    return table([escape(each) for each in [*head, *(["published"] if published else [])]], rows, left=1 + many)


def _published(row: PublishedRow) -> str:
    """'3.70 → 19.85 (5.36×)'; with the series where there are several, the ratio alone where only that is known."""
    text = f"{row.control} → {row.value} ({row.relative})" if row.control else row.relative
    series = row.name.removeprefix("published").lstrip(", ")
    return f"{series}: {text}" if series else text


def _reasons(reading: Reading) -> Iterator[str]:
    explanations = [escape(sentence.text) for sentence in reading.sentences("explanation")]
    phases = [(setting, found) for setting in reading.settings if (found := phase_table(reading, setting))]
    if explanations or phases:
        yield "## Why"
        yield from explanations
        for setting, text in phases:
            yield from [f"### A connection{escape(setting.suffix)}"] if setting.title else []
            yield text
        if said := words.near_end(reading):
            yield escape(said)
    if lines := words.break_evens(reading):
        yield "## Break-even"
        yield bullets(lines)
        if points := words.break_even_table(reading):
            head, rows = points
            yield table([escape(each) for each in head], [[escape(cell) for cell in row] for row in rows])
    if noise := words.noise_floor(reading):
        yield "## Noise floor"
        yield escape(noise)


def phase_table(reading: Reading, setting: Setting) -> str | None:
    """A connection's phases by arm of a setting: time, round trips, bytes sent and received."""
    arms = setting.shown_arms
    rows = []
    for metric in reading.phase_metrics():
        values = [reading.value(metric.name, arm.name) for arm in arms]
        if any(values):
            rows.append([escape(metric.label), *(words.phase_cell(value, metric.unit) for value in values)])
    return table(["phase", *(escape(arm.label) for arm in arms)], rows) if rows else None


def _near_and_far(reading: Reading) -> Iterator[str]:
    model = reading.result.cost_model
    if model is None:
        return
    yield "## Near and far: the cost model"
    off = distance.worst(reading, model)
    yield escape(f"{distance.FORMULA} {distance.SOURCES}" + (f" {off}" if off else ""))
    head = [escape(each) for each in distance.parameter_head(model)]
    for title, rows in distance.parameter_rows(reading, model):
        yield f"### {escape(title)}"
        yield table(head, [[escape(cell) for cell in row] for row in rows])
    for title, predictions in distance.predictions(reading, model):
        yield f"### Predicted and measured: {escape(title)}"
        cells = [[row.label, row.context, str(row.predicted), str(row.measured), row.error] for row in predictions]
        rows = [[escape(cell) for cell in row] for row in cells]
        yield table(["with", "at", "predicted", "measured", "error"], rows, left=2)


def _links(reading: Reading) -> Iterator[str]:
    if rows := words.link_rows(reading):
        yield "## Links: asked for and measured"
        yield table(words.LINK_HEAD, [[escape(cell) for cell in row] for row in rows], left=2)


def _cpu(reading: Reading) -> Iterator[str]:
    if not reading.result.cpu:
        return
    roles, limits = words.cpu_roles(reading), words.cpu_limits(reading)
    yield "## CPU by role\n\nSeconds per 1,000 operations."
    for setting in reading.settings:
        rows = [
            [
                escape(line.workload),
                escape(line.arm),
                *(line.roles.get(role, fmt.NONE) for role in roles),
                line.total,
                *(line.limits.get(name, fmt.NONE) for name in limits),
            ]
            for line in words.cpu_lines(reading, setting)
        ]
        yield from [f"### {escape(setting.title)}"] if setting.title else []
        head = ["workload", "arm", *(escape(role) for role in roles), "total", *map(escape, limits)]
        yield table(head, rows, left=2)
    if busy := words.bottlenecks(reading):
        yield bullets(busy)


def _evidence(reading: Reading) -> Iterator[str]:
    rows = [
        [escape(arm.name), escape(item.view), escape(facts), str(item.slices), str(item.thrown_out)]
        for arm in reading.result.arms
        for item in arm.evidence
        for facts in ["; ".join(f"{name}: {fact}" for name, fact in item.facts.items())]
    ]
    if rows:
        yield "## Evidence"
        yield table(["arm", "seen by", "facts", "slices", "thrown out"], rows, left=3)


def _limits(reading: Reading) -> Iterator[str]:
    if errors := words.error_lines(reading):
        yield "## Errors"
        yield bullets(errors)
    if reading.result.warnings:
        yield "## Warnings"
        yield bullets(list(reading.result.warnings))
    if following := [sentence.text for sentence in reading.sentences("next")]:
        yield "## Next"
        yield bullets(following)


def _method(reading: Reading) -> Iterator[str]:
    yield "## Method and environment"
    yield bullets(words.method(reading))
    rows = [[escape(name), escape(value)] for name, value in flat(reading.result.environment)]
    yield from [table(["environment", ""], rows, left=2)] if rows else []


SECTIONS: list[Callable[[Reading], Iterator[str]]] = [
    _heading,
    _answer,
    _tables,
    _winning_back,
    _trees,
    _split,
    _as_ab,
    _reasons,
    _near_and_far,
    _cpu,
    _evidence,
    _links,
    _limits,
    _method,
]
"""The report's parts in order; one that has nothing to say yields nothing."""
