"""The sections of the report. Each file or folder here defines one section, as its constant `SECTION`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from costof.errors import CostofError, ErrorText
from costof.model import first_error
from costof.report.blocks import Block, Part
from costof.report.key_figures import KeyFigure
from costof.results.index import Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.study.schema import Study

Spec = TypeVar("Spec")
Data = TypeVar("Data")


class Section(Generic[Spec, Data]):
    """A section of the report, with its own numbers, sentences and blocks.

    - `data` is the type of the section's numbers in result.json; None if the section shows only the core result.
    - `spec` is the type of the table `[sections.<name>]` in a study's file. If `spec` is None, studies have no such
      table, and every report has the section.
    - `default` replaces the table in studies that lack it. If `default` is None, the reports of these studies do not
      have the section.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int]
    spec: ClassVar[Any] = None
    data: ClassVar[Any] = None
    default: ClassVar[Any] = None

    def metrics(self, spec: Spec) -> Sequence[str]:
        """Return the names of the metrics in the spec. The study must define all of them."""
        return ()

    def compute(self, run: Run, core: Core, spec: Spec) -> Data | None:
        """Return the section's numbers; None if the run has no data for this section."""
        return None

    def lead(self, index: Index, data: Data) -> Lead:
        """Return how this section changes the sentences about costs at the top of the report.

        The section `costs` writes these sentences. A change is, for example, to leave out an arm.
        """
        return Lead()

    def answer(self, index: Index, data: Data) -> Sequence[Sentence]:
        return ()

    def key_figures(self, index: Index, data: Data) -> Sequence[KeyFigure]:
        """Return the section's figures for the summary, the most important ones first."""
        return ()

    def brief(self, index: Index, data: Data) -> Iterable[Block]:
        """Return the blocks of this section for the short answer on a terminal."""
        return ()

    def blocks(self, index: Index, data: Data) -> Iterable[Block]:
        """Return the section's blocks. A section without blocks does not appear in the report."""
        raise NotImplementedError

    def parts(self, index: Index, data: Data) -> list[Part]:
        """Return the section as parts of the report. By default it is one part with all blocks."""
        return [Part(self.name, self.title, [*self.blocks(index, data)])]


def sentences(kind: Any, texts: Sequence[str]) -> list[Sentence]:
    return [Sentence(kind=kind, text=text) for text in texts]


@cache
def every_section() -> tuple[Section[Any, Any], ...]:
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return tuple(sorted((module.SECTION for module in modules), key=lambda section: section.order))


def section_spec(section: Section[Any, Any], study: Study) -> Any:
    """Return the section's spec from the study's file, or its default (which may be None) if the file has none.

    Raises `BROKEN_STUDY` for an invalid table or unknown metrics.
    """
    if section.spec is None or section.name not in study.sections:
        return section.default
    try:
        spec = TypeAdapter(section.spec).validate_python(study.sections[section.name])
    except ValidationError as error:
        raise _broken(study, first_error(error, "sections", section.name)) from error
    if unknown := [name for name in section.metrics(spec) if name not in study.metrics]:
        raise _broken(study, f"sections.{section.name}: unknown metrics {unknown}")
    return spec


def check(study: Study) -> None:
    """Raise `BROKEN_STUDY` if a table `[sections.…]` in the study's file is invalid."""
    if unknown := sorted(study.sections.keys() - {section.name for section in every_section()}):
        raise _broken(study, f"unknown sections {unknown}")
    for section in every_section():
        section_spec(section, study)


def _broken(study: Study, detail: str) -> CostofError:
    return CostofError(ErrorText.BROKEN_STUDY, path=f"{study.name}.toml", detail=detail)
