"""The form of an answer, as a JSON schema that servers can hold a model to."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

# What servers take. All else (lengths, bounds, patterns) is told in words, and checked in the answer.
_KEPT = frozenset({"type", "enum", "const", "$ref", "description"})
_SILENT = frozenset({"title", "default", "examples", "discriminator", "additionalProperties", "required"})


class NotExpressible(Exception):
    """A form that is open somewhere, as a dict of any keys is: no server can hold a model to it."""


def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """In full, for a model to read."""
    return answer.model_json_schema()


def as_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def enforceable(schema: dict[str, Any]) -> dict[str, Any]:
    """The same form within what every server can enforce: closed objects, all of whose fields are there."""
    made: dict[str, Any] = {name: value for name, value in schema.items() if name in _KEPT}
    if "$defs" in schema:
        made["$defs"] = {name: enforceable(part) for name, part in schema["$defs"].items()}
    if "$ref" in made:
        # Beside it some servers take nothing, not even a description.
        made.pop("description", None)
        return made
    # A type is one of several: which of them is found by trying, so "oneOf" is no different.
    for name in ("anyOf", "oneOf"):
        if name in schema:
            made["anyOf"] = [enforceable(part) for part in schema[name]]
    if "allOf" in schema:
        made["allOf"] = [enforceable(part) for part in schema["allOf"]]
    match schema.get("type"):
        case "object":
            made |= _closed(schema)
        case "array":
            if "items" not in schema:
                raise NotExpressible
            made["items"] = enforceable(schema["items"])
        case None if not made.keys() & {"anyOf", "allOf", "enum", "const"}:
            raise NotExpressible
    return _with_rest_in_words(schema, made)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not properties or schema.get("additionalProperties"):
        raise NotExpressible
    return {
        "properties": {name: enforceable(part) for name, part in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _with_rest_in_words(schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    told = {"$defs", "anyOf", "oneOf", "allOf", "properties", "items"}
    rest = {name: value for name, value in schema.items() if name not in _KEPT | _SILENT | told}
    if rest:
        made["description"] = " ".join(filter(None, (made.get("description"), as_text(rest))))
    return made
