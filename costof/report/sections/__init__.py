"""The sections of the report: each is one file or folder here with a `SECTION`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, ValidationError

from costof.errors import CostofError, Problem
from costof.report.section import Section
from costof.study.schema import Study


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
    return CostofError(Problem.BROKEN_STUDY, path=f"{study.name}.toml", detail=detail)
