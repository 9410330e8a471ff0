"""Evidence: what proves that each arm was what it says, the links as measured, errors by class, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.errors import Caution
from costof.lab.round_trips import LinkEvidence
from costof.report.blocks import FILES, HTML, Block, Bullets, Cell, Heading, Paragraph, Table
from costof.report.section import Section, sentences
from costof.results.index import Index
from costof.results.models import Arm, Sentence

HEAD = ["arm", "seen by", "facts", "slices", "discarded"]
LINKS = ["link", "method", "asked for", "median", "off by", "99 % within", "probes"]
UNVERIFIED = ("verify", "none")


class EvidenceSection(Section[None, None]):
    name, title, order = "evidence", "Evidence", 140

    def answer(self, index: Index, data: None) -> list[Sentence]:
        """Warn of certificates that were not checked: such TLS is open to anybody in the middle."""
        off = [arm.label + arm.at for arm in index.answered if UNVERIFIED in arm.levels.items()]
        texts = [Caution.NOT_VERIFIED.text(arms=fmt.listed(off), how="verify = none")] if off else []
        return sentences("caution", texts)

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        yield Paragraph(
            "Each arm had to prove that it was what it says; an arm without evidence has no figures.", media=HTML
        )
        rows = [row for arm in index.core.arms for row in _rows(arm)]
        yield Table.of(HEAD, rows, texts=(0, 1, 2), media=FILES)
        if links := index.core.links:
            title = f"Links: asked for and measured{' in the last start' if index.core.starts else ''}"
            yield Table.of(LINKS, map(_link, links), title=title, texts=(0, 1), media=FILES)
        yield from _errors(index)
        if warnings := index.core.warnings:
            yield Heading("Warnings", media=FILES)
            yield Bullets(warnings, label="Warnings", tone="caution")


def _rows(arm: Arm) -> Iterator[list[str | Cell]]:
    role = "; the noise" if arm.twin else "; control" if arm.control else ""
    name = Cell(arm.name, full=f"{arm.name}: {arm.label}{role}")
    for item in arm.evidence:
        facts = "; ".join(f"{name}: {fact}" for name, fact in item.facts.items())
        yield [name, item.view, facts, str(item.slices), str(item.discarded)]
    if not arm.evidence:
        yield [name, "", f"no evidence: {arm.error}" if arm.error else "no evidence", "", ""]


def _link(link: LinkEvidence) -> list[str]:
    return [
        link.name,
        link.method,
        fmt.milliseconds(link.asked_ms),
        fmt.milliseconds(link.median_ms),
        fmt.with_unit(fmt.number(link.median_ms - link.asked_ms, 3, signed=True), "ms"),
        fmt.milliseconds(link.p99_ms),
        f"{link.probes:,}",
    ]


def _errors(index: Index) -> Iterator[Block]:
    lines = [
        f"{error.count:,} × {error.error_class} in {error.workload} on {error.arm}; the first: {error.detail}"
        for error in index.core.errors
    ]
    if lines:
        yield Heading("Errors", media=FILES)
        yield Bullets(lines, label="Errors", tone="error")
    else:
        answered = ": every operation of every arm was answered" if index.core.rounds else ""
        yield Heading("Errors", media=HTML)
        yield Paragraph(f"None{answered}.", media=HTML)


SECTION = EvidenceSection()
