"""Files that docs/many-hosts.md gives: what Ray and KubeRay take them for."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "many-hosts.md").read_text()
KUBERAY = json.loads((ROOT / "tests" / "vectors" / "kuberay-raycluster.json").read_text())["schema"]
# Where Ray lies: to import it takes seconds.
RAY_UP = json.loads(Path(str(distribution("ray").locate_file("ray/autoscaler/ray-schema.json"))).read_text())


def given(field: str) -> dict[str, Any]:
    """The one file with this field."""
    (found,) = (
        each for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if field in (each := yaml.safe_load(text))
    )
    return dict(found)


@pytest.mark.parametrize(("field", "schema"), [("kind", KUBERAY), ("provider", RAY_UP)])
def test_a_file_of_the_page_keeps_to_its_schema(field: str, schema: dict[str, Any]) -> None:
    told = given(field)
    jsonschema.validate(told, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**told, "kind" if field == "kind" else "docker": 1}, schema)


def test_all_of_it_is_of_one_version_of_ray() -> None:
    told = set(re.findall(r"2\.\d+\.\d+", PAGE))
    assert told == set(re.findall(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
