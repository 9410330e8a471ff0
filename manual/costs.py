"""The page Costs: what each protection costs on each measured server, from the stored runs alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from html import escape

from costof import __version__
from costof import format as fmt
from costof.format import Text
from costof.report import markdown
from costof.report.key_figures import interval_verdict
from costof.report.palette import VERDICT_COLOURS
from costof.report.sections.memory import CLIENTS, size_text, sized
from costof.results.index import Index
from costof.results.memory import ArmMemory
from costof.results.models import Effect
from costof.study.plan import Plan
from manual import claims, glance
from manual.protections import Cost, Protection, StoredRun, protections
from manual.reports import command

#: The page marks a run as old if it was measured more than this number of days ago.
FRESH_DAYS = 180
#: The name of the row with the memory of a connection.
MEMORY = "server memory of an idle connection"
HEAD = """# Costs

What each protection costs on each measured server, in every study. `make docs` computes every figure from the raw
results in the repository by the [rules](#rules) below; none is written by hand.
"""
RULES = f"""## Rules

- **Portable figures are separate from local ones.** Added round trips and bytes of an operation were counted at the
  client and are the same on any machine. Added times, rates and CPU time are of the machine named below each table.
- **Each local figure has its 95 % interval**, in brackets, over the rounds of the run.
- **Only verified arms are shown.** An arm has no figures here if it or its control has no evidence of what it used.
- **A missing figure says why.** A dash means that the figure does not exist, such as the bytes of a database driver.
- **Memory** is what a protection adds to the servers' memory of an idle connection, in runs with `--memory`.
- **Old figures are marked**: those older than {FRESH_DAYS} days, or of another version of costof than {__version__}.
- **The configuration** is a hash of the run's plan without its seed. Runs with the same plan have the same hash.
"""
#: This sentence is in each table's caption and not in its head, because a narrow screen does not show the head.
PORTABLE = "Round trips and bytes hold on any machine; the other figures are of the machine of this run."
#: The HTML attribute of a cell without a figure. On a narrow screen, the style sheet hides such cells.
EMPTY = ' class="empty"'
COLUMNS = ("round trips", "bytes", "added", "relative", "CPU, an operation")


def page(runs: Mapping[str, StoredRun], studies: Sequence[str], today: date) -> str:
    """Return the page in Markdown, with a section for each server. `studies` are all studies, measured or not."""
    servers: dict[str, list[StoredRun]] = {}
    for stored in runs.values():
        servers.setdefault(glance.server(stored.result), []).append(stored)
    ordered = sorted(servers.items())
    texts = [HEAD, " · ".join(f"[{markdown.escape(name)}](#{_anchor(name)})" for name, _ in ordered) + "\n"]
    for name, stored_runs in ordered:
        head = f"## {markdown.escape(name)} {{#{_anchor(name)}}}\n"
        texts += [head, *(_study(each, today) for each in stored_runs)]
    if missing := [f"`{study}`" for study in studies if study not in runs]:
        texts.append(f"## Without figures\n\nThe repository has no run of {fmt.listed(missing)}.\n")
    return "\n".join([*texts, RULES])


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def configuration(plan: Plan) -> str:
    """Return a short hash of everything that the plan sets, apart from the seed."""
    content = plan.model_dump(mode="json", by_alias=True, exclude={"seed"})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def age_mark(stored: StoredRun, today: date) -> str:
    """Return a sentence that says why the run is old, such as 'Old: measured 200 days ago.'; '' if it is not old."""
    days = (today - date.fromisoformat(stored.result.started[:10])).days
    version = stored.result.environment.get("costof")
    reasons = [f"measured {days} days ago"] if days > FRESH_DAYS else []
    reasons += [f"measured by costof {version}"] if version != __version__ else []
    return f"Old: {fmt.listed(reasons)}." if reasons else ""


def _study(stored: StoredRun, today: date) -> str:
    result, study = stored.result, stored.result.study
    published, helps = claims.summary(result), glance.helps(result)
    facts = [
        result.started[:10],
        f"costof {result.environment.get('costof', 'of unknown version')}",
        f"{result.environment.get('cores', 'unknown')} cores of {result.environment.get('CPU', 'an unknown CPU')}",
        Index(result).extent,
        f"configuration `{configuration(stored.run.plan)}`",
    ]
    marks = [result.partial and f"Partial: {result.partial}.", age_mark(stored, today)]
    lines = [
        f"### [{markdown.escape(glance.title(study))}](studies/{study}.md)",
        markdown.escape(result.summary.verdict),
        *([f"What helps: {markdown.escape(helps)}"] if helps else []),
        *([f"[{published}](studies/{study}.md#{claims.ANCHOR})."] if published else []),
        *(f"**{markdown.escape(mark)}**" for mark in marks if mark),
        _table(stored),
        f"{' · '.join(facts)} · [report](reports/{study}.html)",
        f"```console\n$ {command(result)}\n```",
    ]
    return "\n\n".join(lines) + "\n"


def _table(stored: StoredRun) -> str:
    """Return the table as HTML, because each cell needs its column's name on a narrow screen."""
    groups = "".join(_group(each) for each in protections(stored))
    control = escape(f"Compared with “{Index(stored.result).control_label}”.")
    head = "".join(f'<th scope="col">{each}</th>' for each in COLUMNS)
    return (
        f'<table class="costs"><caption>{control} {PORTABLE}</caption><thead><tr><th scope="col" rowspan="2"></th>'
        '<th scope="colgroup" colspan="2">on any machine</th>'
        f'<th scope="colgroup" colspan="3">on the machine of this run</th></tr><tr>{head}</tr></thead>'
        f"{groups}</table>"
    )


def _group(protection: Protection) -> str:
    hidden = f'<tr><td colspan="{1 + len(COLUMNS)}">{escape(protection.hidden)}</td></tr>' if protection.hidden else ""
    head = f'<tr><th scope="rowgroup" colspan="{1 + len(COLUMNS)}">{escape(protection.label)}</th></tr>'
    memory = _memory_row(protection.memory) if protection.memory is not None else ""
    return f"<tbody>{head}{hidden}{''.join(map(_row, protection.costs))}{memory}</tbody>"


def _row(cost: Cost) -> str:
    return _table_row(cost.operation, _cells(cost, cost.effect) if cost.effect is not None else cost.missing)


def _table_row(name: str, cells: Iterable[str] | str) -> str:
    """Return a row with a cell for each column, or with the reason why its figures are missing."""
    head = f'<th scope="row">{escape(name)}</th>'
    if isinstance(cells, str):
        return f'<tr>{head}<td colspan="{len(COLUMNS)}">Missing: {escape(cells)}</td></tr>'
    columns = zip(COLUMNS, cells, strict=True)
    labelled = "".join(
        f'<td data-label="{label}"{EMPTY if cell == fmt.NONE else ""}>{cell}</td>' for label, cell in columns
    )
    return f"<tr>{head}{labelled}</tr>"


def _memory_row(memory: ArmMemory) -> str:
    added = memory.added
    if added is None:
        return _table_row(MEMORY, memory.missing or "the control has too few steps")
    verdict = interval_verdict(added)
    all_clients = f"{CLIENTS:,} clients: {_signed(size_text(added.value * CLIENTS), added.value)}"
    colour, words = VERDICT_COLOURS[verdict], escape(verdict.words("lower"))
    notes = f'<small class="{colour}">{words}</small><small>{all_clients}</small>'
    return _table_row(MEMORY, [fmt.NONE, fmt.NONE, _text(sized(added, signed=True)) + notes, fmt.NONE, fmt.NONE])


def _cells(cost: Cost, effect: Effect) -> Iterator[str]:
    extra = cost.extra
    counted = cost.counted and extra is not None
    yield _signed(fmt.count(extra.round_trips), extra.round_trips) if counted and extra else fmt.NONE
    yield _signed(fmt.bytes_text(abs(round(extra.bytes))), round(extra.bytes)) if counted and extra else fmt.NONE
    kind = "gains" if cost.verdict.startswith("gains") else VERDICT_COLOURS[effect.verdict]
    verdict = f'<small class="{kind}">{escape(cost.verdict)}</small>'
    yield _text(fmt.absolute(effect.difference, effect.unit, signed=True)) + verdict
    yield _text(fmt.relative(effect.printed_ratio)) if effect.printed_ratio is not None else fmt.NONE
    has_cpu = extra is not None and extra.roles
    yield _text(fmt.absolute(extra.cpu_ms, "ms", signed=True)) if has_cpu and extra else fmt.NONE


def _signed(text: str, value: float) -> str:
    sign = fmt.MINUS if value < 0 else "+" if value > 0 else ""
    return sign + text.lstrip(fmt.MINUS)


def _text(text: Text) -> str:
    return f"<span>{escape(text.value)}</span> <small>{escape(text.interval)}</small>"
