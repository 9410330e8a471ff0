"""The sections of the report: each is one file or folder here with a `SECTION`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from costof.errors import CostofError, ErrorText
from costof.report.blocks import Block, Part
from costof.results.index import Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.study.schema import Study

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


@cache
def every_section() -> tuple[Section[Any, Any], ...]:
    modules = (import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return tuple(sorted((module.SECTION for module in modules), key=lambda section: section.order))


def spec_of(section: Section[Any, Any], study: Study) -> Any:
    """What the study asks of the section: its default where the study says nothing, which may be None.

    Raises `BROKEN_STUDY` for a table that is not of the section's form or speaks of unknown metrics.
    """
    if section.spec is None or section.name not in study.sections:
        return section.default
    try:
        spec = TypeAdapter(section.spec).validate_python(study.sections[section.name])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("sections", section.name, *first["loc"])))
        raise _broken(study, f"{place}: {first['msg']}") from error
    if unknown := [name for name in section.metrics(spec) if name not in study.metrics]:
        raise _broken(study, f"sections.{section.name}: there are no metrics {unknown}")
    return spec


def check(study: Study) -> None:
    """Check every section's table. Raises `BROKEN_STUDY`."""
    if unknown := sorted(study.sections.keys() - {section.name for section in every_section()}):
        raise _broken(study, f"there are no sections {unknown}")
    for section in every_section():
        spec_of(section, study)


def _broken(study: Study, detail: str) -> CostofError:
    return CostofError(ErrorText.BROKEN_STUDY, path=f"{study.name}.toml", detail=detail)
