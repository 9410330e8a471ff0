"""The result of a run as data: the core result, the numbers of each section, and the first sentences of the report.

The core result has the figures that every report needs. `result.json` holds the result of a run, and every report shows
this result. Its JSON Schema is `docs/result.schema.json`. Tests check that real results match this schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from costof.model import Model
from costof.report.sections import every_section
from costof.report.summary import Summary
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
    summary: Summary
    sections: Sections = Field(default_factory=Sections, description="The numbers of each section, by its name.")
