"""Print the JSON Schema of `result.json`: `python -m costof.report > docs/result.schema.json`."""

import json
import sys

from costof.report.result import Result

json.dump(Result.model_json_schema(), sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
