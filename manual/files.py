"""Reference of the files that users read and write: study files and the files of a run."""

from __future__ import annotations

import json
from importlib import resources

from pydantic import TypeAdapter

import costof.study
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, AnyRecord
from costof.run.events import EVENT
from costof.study.plan import Plan
from manual.schemas import tables

STUDY = """# A study's file

Generated from the models that read it. `costof new FILE` writes a template. Its first line names the JSON Schema of
this page, so that editors complete and check the file. [Your own question](../own-questions.md) and
[Extending](../extending.md) explain how to write one.

"""
RESULT = """# result.json

Generated from the models that write it. It is in the folder of a run, and `costof show RUN --json` prints it. Its JSON
Schema is [result.schema.json](../result.schema.json).

"""
LEDGER = f"""# The ledger

Generated from the models that read it. A run's folder contains `{PLAN}`, written once before anything is measured, and
`{SLICES}`, with one record a line in the order of events. Every report is made from these two files alone.

"""
EVENTS = """# Events

Generated from the models that write them. `--json-lines` prints one event a line on standard output;
[In a pipeline](../pipelines.md#events) explains them.

"""


def pages() -> dict[str, str]:
    study = json.loads((resources.files(costof.study) / "schema.json").read_text())
    return {
        "study-file": STUDY + tables(study, "Study"),
        "result": RESULT + tables(Result.model_json_schema(), "Result"),
        "ledger": LEDGER + tables(_ledger_schema(), "Plan"),
        "events": EVENTS + tables({"$defs": EVENT.json_schema()["$defs"]}, "Event"),
    }


def _ledger_schema() -> dict[str, object]:
    """Return the schemas of the plan and of all records. Each definition occurs only once."""
    plan = Plan.model_json_schema()
    records = TypeAdapter(AnyRecord).json_schema()
    return {**plan, "$defs": plan["$defs"] | records["$defs"]}
