"""`python -m costof.study` prints the JSON Schema of a study's file, which `costof/study/schema.json` holds.

Editors complete and check a file by it whose first line names it.
"""

import json
import sys

from costof.study.commands import LEFT_OUT
from costof.study.schema import Study

schema = Study.model_json_schema()
for model, fields in LEFT_OUT.items():
    part = schema if model == "Study" else schema["$defs"][model]
    part["required"] = [name for name in part["required"] if name not in fields]
# The file's own name.
del schema["properties"]["name"]
json.dump(schema, sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
