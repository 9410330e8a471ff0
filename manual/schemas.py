"""A JSON Schema that pydantic has made, as tables of Markdown: one for each model, and links between them.

Kept converters write eight columns for what three hold, and links to explanations of each pattern.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
#: Constraints of a number or of a length, in words.
BOUNDS = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}


def tables(schema: Schema, title: str) -> str:
    """The schema's own fields under `title`, and then each of its definitions."""
    models = {title: schema, **dict(sorted(schema.get("$defs", {}).items()))}
    return "\n".join(_table(name, model) for name, model in models.items() if "properties" in model or "enum" in model)


def _table(name: str, model: Schema) -> str:
    text = f"## {name}\n\n{model.get('description', '')}\n"
    if "enum" in model:
        return text + f"\nOne of {_type(model)}.\n"
    required = model.get("required", ())
    rows = [_row(field, each, field in required) for field, each in model["properties"].items()]
    return text + "\n| field | type | without it | |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _row(field: str, schema: Schema, required: bool) -> str:
    default = "required" if required else _code(schema["default"]) if "default" in schema else ""
    words = " ".join(schema.get("description", "").split()).replace("|", "\\|")
    return f"| `{field}` | {_type(schema)} | {default} | {words} |\n"


def _type(schema: Schema) -> str:
    """Describe what a value may be, with links to the models that are defined on the same page."""
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
    """As JSON; a long default is a model's own, whose table says it."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`".replace("|", "\\|") if len(text) <= 40 else "its own defaults"
