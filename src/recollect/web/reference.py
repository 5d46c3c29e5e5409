"""The API's reference as a page, made from its own description; it needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    name: str
    place: str
    kind: str
    required: bool
    description: str


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    answers: tuple[str, ...]


def operations(schema: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """Operations by tag, in the order of the description."""
    groups: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method, described in methods.items():
            tag = described.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(schema, method, path, described))
    return groups


def _operation(schema: Mapping[str, Any], method: str, path: str, described: Mapping[str, Any]) -> Operation:
    parameters = [_parameter(each, each["in"]) for each in described.get("parameters", [])]
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        resolved = _resolved(schema, body)
        required = resolved.get("required", [])
        parameters += [
            _parameter({"name": name, "schema": field, "required": name in required}, "body")
            for name, field in resolved.get("properties", {}).items()
        ]
    return Operation(
        method.upper(), path, described.get("summary", ""), tuple(parameters), tuple(described["responses"])
    )


def _parameter(described: Mapping[str, Any], place: str) -> Parameter:
    field = described.get("schema", {})
    text = described.get("description") or field.get("description") or ""
    return Parameter(described["name"], place, _kind(field), bool(described.get("required")), text)


def _kind(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(
            dict.fromkeys(_kind(each) for each in field["anyOf"] if each.get("type") != "null")
        )
    kind = field.get("format") or field.get("type") or ("any JSON" if "$ref" not in field else "object")
    if "default" in field and field["default"] is not None:
        kind += f" = {field['default']}"
    return str(kind)


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = schema
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: Mapping[str, Any] = found
    return resolved
