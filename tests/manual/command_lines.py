"""Command lines in README and the docs."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manual.__main__ import COSTS, INDEX, PROCESSORS, PUBLISHED, REFERENCE, REPORTS
from manual.reports import DOCS, ROOT

#: A typed line: a prompt, which may start with the name of a machine, and a command.
TYPED = re.compile(r"[\w-]*\$ (.*)")
SETTING = re.compile(r"\w+=")
BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Line:
    """A command line on a page. `words` are a shell's words, up to the first pipe or redirection."""

    page: str
    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return Path(self.words[0]).name

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def committed_pages() -> list[Path]:
    return [ROOT / "README.md", *(path for path in sorted(DOCS.rglob("*.md")) if not made(path))]


def made(path: Path) -> bool:
    return path in {COSTS, INDEX, PROCESSORS, PUBLISHED} or path.parent in {REFERENCE, REPORTS}


def lines() -> list[Line]:
    return [line for page in committed_pages() for line in _lines_of(page)]


def _lines_of(page: Path) -> Iterator[Line]:
    for _, block in BLOCK.findall(page.read_text()):
        for text in re.sub(r"\\\n\s*", "", block).splitlines():
            line = TYPED.fullmatch(text.strip())
            assert line, f"{page.name}: a line of a console without a prompt: {text}"
            typed = line[1]
            words = list(itertools.dropwhile(SETTING.match, shlex.split(typed, comments=True)))
            end = next((words.index(sign) for sign in (">", "|") if sign in words), len(words))
            yield Line(str(page.relative_to(ROOT)), typed, tuple(words[:end]))
