"""Reference of the files that users read and write (study files, the files of a run), and of the commands' JSON."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Literal

from pydantic import TypeAdapter

import costof.study
from costof.cli.compare import Comparison
from costof.cli.doctor import Finding
from costof.cli.history import Histories
from costof.cli.list import StudySummary
from costof.programs.parts import ServerConfiguration
from costof.programs.server import LabServer, modules
from costof.report.result import Result
from costof.results.ab_figures import AbFigures
from costof.results.ledger import PLAN, SLICES, AnyRecord
from costof.results.selftest import Selftest
from costof.run.events import EVENT, LimitOutcome
from costof.study.plan import Plan
from manual.schemas import tables

#: The file for the schema that `outputs_schema` returns. It is in the folder of the reference.
SCHEMA = "commands.schema.json"
STUDY = """# A study's file

Generated from the models that read it. `costof new FILE` writes a template. Its first line names the JSON Schema of
this page, so that editors complete and check the file. [Your own question](../own-questions.md) and
[Extending](../extending.md) explain how to write one.

"""
RESULT = f"""# JSON of the commands

Generated from the models that write it. The first table says what each command prints with `--json`.
[{SCHEMA}]({SCHEMA}) is the JSON Schema of all of it. [Result](#result) is also the file result.json in the folder of a
run, with a JSON Schema of its own: [result.schema.json](../result.schema.json). [Events](events.md) has the output of
`--json-lines`.

"""
LEDGER = f"""# The ledger

Generated from the models that read it. A run's folder contains `{PLAN}`, written once before anything is measured, and
`{SLICES}`, with one record a line in the order of events. Every report is made from these two files alone.

"""
#: The type of what each command prints with `--json`.
OUTPUTS: dict[str, Any] = {
    "run": Result,
    "show": Result,
    "versus": Result,
    "gate": list[LimitOutcome],
    "compare": Comparison,
    "history": Histories,
    "selftest": Selftest,
    "ab": AbFigures,
    "doctor": list[Finding],
    "list": list[StudySummary],
}
EVENTS = """# Events

Generated from the models that write them. `--json-lines` prints one event a line on standard output;
[In a pipeline](../pipelines.md#events) explains them.

"""


def pages() -> dict[str, str]:
    study = json.loads((resources.files(costof.study) / "schema.json").read_text())
    return {
        "study-file": STUDY + tables(study, "Study") + _servers(),
        "result": RESULT + tables(outputs_schema(), "Commands"),
        "ledger": LEDGER + tables(_ledger_schema(), "Plan"),
        "events": EVENTS + tables({"$defs": EVENT.json_schema()["$defs"]}, "Event"),
    }


def _servers() -> str:
    """Return a table of the fields of `lab.server` for each server program that has fields of its own."""
    text = ""
    for module in modules():
        server = getattr(module, "lab_server", None)
        if isinstance(server, type) and issubclass(server, LabServer):
            configuration, name = server.configuration_type, module.__name__.rpartition(".")[2]
            if configuration is not ServerConfiguration:
                text += f"\n{tables(configuration.model_json_schema(), f'lab.server of {name}')}"
    return text


def outputs_schema() -> dict[str, Any]:
    """Return the JSON Schema of what each command prints with `--json`: a property for each command."""
    mode: Literal["validation"] = "validation"
    schemas, definitions = TypeAdapter.json_schemas(
        (command, mode, TypeAdapter(output)) for command, output in OUTPUTS.items()
    )
    properties = {command: schemas[command, mode] for command in OUTPUTS}
    return {**definitions, "title": "Output of costof's commands with --json", "properties": properties}


def _ledger_schema() -> dict[str, object]:
    """Return the schemas of the plan and of all records. Each definition occurs only once."""
    plan = Plan.model_json_schema()
    records = TypeAdapter(AnyRecord).json_schema()
    return {**plan, "$defs": plan["$defs"] | records["$defs"]}
