"""The files that users read and write: a study's, and those of a run."""

from __future__ import annotations

import json
from importlib import resources

from pydantic import TypeAdapter

import costof.study
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, AnyRecord
from costof.study.plan import Plan
from manual.schemas import tables

STUDY = """# A study's file

Made from the models that read it. `costof new FILE` writes one to fill in, whose first line names the JSON Schema of
this page, so that editors complete and check it. What goes together, and why, is in
[Your own question](../own-questions.md) and [Extending](../extending.md).

"""
RESULT = """# result.json

Made from the models that write it. It is beside the reports of a run, and what `costof show RUN --json` prints. Its
JSON Schema is [result.schema.json](../result.schema.json).

"""
LEDGER = f"""# The ledger

Made from the models that read it. A run's folder holds `{PLAN}`, written once before anything is measured, and
`{SLICES}`, a record a line in the order in which things happened. Every report is made of these two alone.

"""


def pages() -> dict[str, str]:
    study = json.loads((resources.files(costof.study) / "schema.json").read_text())
    return {
        "study-file": STUDY + tables(study, "Study"),
        "result": RESULT + tables(Result.model_json_schema(), "Result"),
        "ledger": LEDGER + tables(_of_ledger(), "Plan"),
    }


def _of_ledger() -> dict[str, object]:
    """The plan's schema, and what records have besides; each definition once."""
    plan = Plan.model_json_schema()
    records = TypeAdapter(AnyRecord).json_schema()
    return {**plan, "$defs": plan["$defs"] | records["$defs"]}
