"""Conversion of pydantic's JSON Schemas to Markdown tables: one for each model, with links between them.

No existing converter is used, because they write more columns and links than readers of the reference need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
#: Signs that show the constraints of a number or a length in the tables.
BOUNDS = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}


def tables(schema: Schema, title: str) -> str:
    """Return a table of the schema's fields, under `title`, and a table of each of its definitions."""
    models = {title: schema, **dict(sorted(schema.get("$defs", {}).items()))}
    return "\n".join(_table(name, model) for name, model in models.items() if "properties" in model or "enum" in model)


def _table(name: str, model: Schema) -> str:
    text = f"## {name}\n\n{model.get('description', '')}\n"
    if "enum" in model:
        return text + f"\nOne of {_type(model)}.\n"
    required = model.get("required", ())
    rows = [_row(field, each, field in required) for field, each in model["properties"].items()]
    return text + "\n| field | type | default | |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _row(field: str, schema: Schema, required: bool) -> str:
    default = "required" if required else _code(schema["default"]) if "default" in schema else ""
    text = " ".join(schema.get("description", "").split()).replace("|", "\\|")
    return f"| `{field}` | {_type(schema)} | {default} | {text} |\n"


def _type(schema: Schema) -> str:
    """Return the type of a value in words, with links to models on the same page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_type(each) for each in several))
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return ", ".join(_code(each) for each in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        if parts := schema.get("prefixItems"):
            return f"list of {', '.join(_type(part) for part in parts)}"
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"{_type(values)} by name" if isinstance(values, Mapping) else "anything by name"
    bounds = [words.format(schema[name]) for name, words in BOUNDS.items() if name in schema]
    pattern = [f"`{schema['pattern']}`".replace("|", "\\|")] if "pattern" in schema else []
    return " ".join(["nothing" if kind == "null" else kind, *bounds, *pattern])


def _code(value: object) -> str:
    """Return a default value as JSON, or 'its own defaults' for a model with a table, whose JSON is long."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`".replace("|", "\\|") if len(text) <= 40 else "its own defaults"
