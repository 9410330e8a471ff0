"""Evidence: the facts that show what each arm used, the measured network links, errors by class, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.errors import WarningText
from costof.report.blocks import FILES, HTML, Block, Bullets, Heading, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Sentence

HEAD = ["variant", "source", "facts", "slices", "slices discarded"]
LINKS = ["link", "method", "configured", "median", "difference", "p99", "probes"]
UNVERIFIED = ("verify", "none")


class EvidenceSection(Section[None, None]):
    name, title, order = "evidence", "Evidence", 140

    def answer(self, index: Index, data: None) -> list[Sentence]:
        """Return a warning about arms without certificate verification, whose TLS does not stop a man in the middle."""
        off = [arm.label + arm.at for arm in index.answered if UNVERIFIED in arm.levels.items()]
        texts = [WarningText.NOT_VERIFIED.text(arms=fmt.listed(off), how="verify = none")] if off else []
        return sentences("warning", texts)

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        text = (
            "Evidence shows that each variant used what it should, such as TLS 1.3. A variant without evidence has no "
            "figures."
        )
        yield Paragraph(text, media=HTML)
        rows: list[list[str]] = []
        for arm in index.core.arms:
            name = index.label_at(arm.name) + ("; control" if arm.control and not arm.replicate else "")
            for item in arm.evidence:
                facts = "; ".join(f"{fact}: {value}" for fact, value in item.facts.items())
                rows.append([name, item.view, facts, str(item.slices), str(item.discarded)])
            if not arm.evidence:
                rows.append([name, "", f"no evidence: {arm.error}" if arm.error else "no evidence", "", ""])
        yield Table.of(HEAD, rows, texts=(0, 1, 2), media=FILES)
        links = [
            [
                link.name,
                link.method,
                fmt.milliseconds(link.nominal_ms),
                fmt.milliseconds(link.median_ms),
                fmt.with_unit(fmt.number(link.median_ms - link.nominal_ms, 3, signed=True), "ms"),
                fmt.milliseconds(link.p99_ms),
                f"{link.probes:,}",
            ]
            for link in index.core.links
        ]
        if links:
            title = f"Links: configured and measured{' in the last start' if index.core.starts else ''}"
            yield Table.of(LINKS, links, title=title, texts=(0, 1), media=FILES)
        errors = [
            f"{fmt.plural(error.count, 'operation')} of '{index.workload_label(error.workload)}' with "
            f"{index.label_at(error.arm)} failed ({error.error_class}), including those of the warm-up; the first "
            f"error: {error.detail}"
            for error in index.core.errors
        ]
        yield Heading("Errors", media=FILES if errors else HTML)
        if errors:
            yield Bullets(errors, label="Errors", tone="error")
        else:
            answered = ": every operation of every variant succeeded" if index.core.rounds else ""
            yield Paragraph(f"None{answered}.", media=HTML)
        if warnings := index.core.warnings:
            yield Heading("Warnings", media=FILES)
            yield Bullets(warnings, label="Warnings", tone="warning")


SECTION = EvidenceSection()
