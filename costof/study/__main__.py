"""`python -m costof.study` prints the JSON Schema of a study file, kept as `costof/study/schema.json`.

An editor completes and checks a study file whose first line names this schema.
"""

import json
import sys

from costof.study.commands import OPTIONAL_FIELDS
from costof.study.schema import Study

schema = Study.model_json_schema()
for model, fields in OPTIONAL_FIELDS.items():
    part = schema if model == "Study" else schema["$defs"][model]
    part["required"] = [name for name in part["required"] if name not in fields]
# A study file has no field `name`, because a study is named after its file.
del schema["properties"]["name"]
json.dump(schema, sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
