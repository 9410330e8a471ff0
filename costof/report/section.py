"""What a section of the report is: its question in a study's file, its numbers, its sentences, and what it shows.

A section is one file (or folder) of `costof/report/sections/` with an instance of a `Section` called `SECTION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from costof.report.blocks import Block, Part
from costof.results.index import Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run

Spec = TypeVar("Spec")
Data = TypeVar("Data")


class Section(Generic[Spec, Data]):
    """`spec` is the type of `[sections.<name>]` in a study, `data` that of the numbers in result.json.

    A section without a `spec` is every study's; one without `data` shows the core result. `default` stands for what a
    study does not ask.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int]
    spec: ClassVar[Any] = None
    data: ClassVar[Any] = None
    default: ClassVar[Any] = None

    def metrics(self, spec: Spec) -> Sequence[str]:
        """Return the names of metrics in the spec; they must be the study's."""
        return ()

    def compute(self, run: Run, core: Core, spec: Spec) -> Data | None:
        """Return its numbers; None where the run has nothing of it."""
        return None

    def lead(self, index: Index, data: Data) -> Lead:
        """Return what it makes of the costs in the answer."""
        return Lead()

    def answer(self, index: Index, data: Data) -> Sequence[Sentence]:
        """Return its sentences of the answer."""
        return ()

    def blocks(self, index: Index, data: Data) -> Iterable[Block]:
        """Return its blocks; a section without any is left out."""
        raise NotImplementedError

    def parts(self, index: Index, data: Data) -> list[Part]:
        """Return its parts of the report: one."""
        return [Part(self.name, self.title, [*self.blocks(index, data)])]


def sentences(kind: Any, texts: Sequence[str]) -> list[Sentence]:
    return [Sentence(kind=kind, text=text) for text in texts]
