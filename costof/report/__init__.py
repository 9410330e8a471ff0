"""Reports: renderings of a `Result` and of nothing else, so that any of them can be made again from the ledger."""

from __future__ import annotations

from pathlib import Path

from costof.analysis.result import Result
from costof.files import write_whole
from costof.report.markdown import render_markdown
from costof.report.terminal import render_terminal

__all__ = ["render_markdown", "render_terminal", "write_reports"]


def write_reports(result: Result, folder: Path) -> list[Path]:
    """Write `report.html` and `report.md` into `folder`, which exists; the paths written, the one to open first."""
    from costof.report.html import render_html  # only a run that writes reports pays for importing jinja2

    reports = {folder / "report.html": render_html(result), folder / "report.md": render_markdown(result)}
    for path, text in reports.items():
        write_whole(path, text)
    return list(reports)
