"""The answer of a run, as data: the core result, each section's numbers by its name, and the sentences.

It is what `result.json` holds and what every report renders. Its JSON Schema is committed as `docs/result.schema.json`
and checked against real output in the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from costof.model import Model
from costof.report.sections import every_section
from costof.results.models import Core, Sentence

if TYPE_CHECKING:
    Sections = Any
else:
    Sections = create_model(
        "Sections",
        __base__=Model,
        **{each.name: (each.data | None, each.default) for each in every_section() if each.data is not None},
    )


class Result(Core):
    answer: list[Sentence]
    sections: Sections = Field(default_factory=Sections, description="What each section has found, by its name.")
