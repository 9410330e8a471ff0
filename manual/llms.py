"""`llms.txt` of the site: every page with its answer or first sentence, for programs that read it (llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from manual.reports import DOCS, ROOT

#: In the navigation of mkdocs.yml, this entry is replaced by the pages of all studies.
STUDIES = "studies/"


def llms_text() -> str:
    """Return the text of llms.txt: the pages of the site's navigation, by section. The generated pages must exist."""
    site = configuration()
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}"]
    for title, pages in navigation():
        lines += ["", f"## {title}", "", *(_line(DOCS / page) for page in pages)]
    return "\n".join([*lines, ""])


def navigation() -> Iterator[tuple[str, list[str]]]:
    """Yield each section of the site's navigation with its pages. Pages outside of sections come first, as "Start"."""
    first: list[str] = []
    sections = []
    for entry in configuration()["nav"]:
        ((title, pages),) = entry.items()
        if isinstance(pages, str):
            first.append(pages)
        else:
            sections.append((title, pages))
    yield "Start", first
    yield from sections


def configuration() -> dict[str, Any]:
    """Return the site's configuration, with the studies' pages in the order of the table in studies.md."""
    site: dict[str, Any] = YAML(typ="safe").load(ROOT / "mkdocs.yml")
    studies = re.findall(rf"\(({STUDIES}[\w-]+\.md)\)", (ROOT / "docs" / "studies.md").read_text())
    for entry in site["nav"]:
        for title, pages in entry.items():
            if isinstance(pages, list) and STUDIES in pages:
                at = pages.index(STUDIES)
                entry[title] = [*pages[:at], *studies, *pages[at + 1 :]]
    return site


def _line(path: Path) -> str:
    text = path.read_text()
    title = next(line for line in text.splitlines() if line.startswith("# ")).removeprefix("# ")
    page = path.relative_to(DOCS).with_suffix(".html")
    sentence = " ".join(_answer(text)) or next(_first_sentences(text), "")
    return f"- [{title}]({page}){f': {sentence}' if sentence else ''}"


def _answer(text: str) -> Iterator[str]:
    """Yield the verdict on a study's page, and then the page's text after "What helps:"."""
    for pattern in (r"^> \*\*(.+)\*\*$", r"^- \*\*What helps:\*\* (.+)$"):
        yield from (_without_links(found) for found in re.findall(pattern, text, re.MULTILINE))


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _first_sentences(text: str) -> Iterator[str]:
    """Yield the first sentence of each paragraph, without links."""
    for paragraph in re.split(r"\n{2,}", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        if re.match(r"[A-Z`*]", paragraph):
            plain = _without_links(" ".join(paragraph.split()))
            yield re.split(r"(?<=[.!?:]) (?=[A-Z`])", plain)[0]
