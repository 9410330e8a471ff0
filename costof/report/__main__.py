"""`python -m costof.report` prints the JSON Schema of `result.json`, which `docs/result.schema.json` holds."""

import json
import sys

from costof.report.result import Result

json.dump(Result.model_json_schema(), sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
