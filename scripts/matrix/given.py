"""Converts the values of `--config` to the types of the configuration.

Snakemake reads mappings and lists of `--config` with every number and boolean as text:
`measure={repeat: 2}` becomes `{"repeat": "2"}`. A single value becomes a number if it looks like one:
`models=1` becomes 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

from scripts.matrix import reading

_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
"""JSON Schema's types for scalars other than text, and their Python types."""


def typed(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """A value of `--config` in which texts are converted to numbers and booleans, if `schema` requires or
    permits these. A text that fits no type is not changed; the check against the schema reports it.

    `root` is the whole schema, to which references in `schema` refer.
    """
    schema = _resolved(schema, value, root)
    match value:
        case dict():
            named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            others = others if isinstance(others, Mapping) else {}
            return {key: typed(inner, named.get(key, others), root) for key, inner in value.items()}
        case list():
            return [typed(item, schema.get("items", {}), root) for item in value]
        case str():
            return _typed_text(value, schema)
    return value


def _resolved(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that applies to a value, with references followed and the branch of an `if` chosen."""
    while True:
        if "$ref" in schema:
            found: Any = root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        elif "if" in schema:
            side = (
                "then" if jsonschema.Draft202012Validator(schema["if"]).is_valid(value) else "else"
            )
            schema = schema.get(side, {})
        else:
            return schema


def _typed_text(text: str, schema: Mapping[str, Any]) -> Any:
    """A text converted to the number or boolean that the schema requires."""
    if "enum" in schema or "oneOf" in schema:
        return text
    wanted = schema.get("type", list(_TYPES))
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if "string" in wanted:
        return text
    found = reading.scalar(text)
    kinds = {kind for name in wanted for kind in _TYPES.get(name, ())}
    return found if type(found) in kinds else text
