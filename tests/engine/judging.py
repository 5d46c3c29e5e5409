"""Two judges of filters: Postgres, and what a filter means, said once more and simply, to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from recollect.db.database import Database
from recollect.engine.filters import compile_filter

Judge = Callable[[dict[str, Any], Any], bool]

MEMORY: dict[str, Any] = {
    "id": "0197a3a0-0000-7000-8000-00000000000a",
    "user_id": "ana",
    "agent_id": None,
    "app_id": "shop",
    "run_id": None,
    "kind": "fact",
    "role": None,
    "categories": ["personal_finance", "Food"],
    "memory": "Pays Invoices by card. 100% \\d+",
    "metadata": {
        "source": "email",
        "priority": 7,
        "score": 0.8,
        "tags": ["red", "Blue", 3],
        "lists": [["deep"]],
        "done": False,
        "nothing": None,
        "none": [],
    },
    "created_at": "2026-03-01T12:00:00.000000Z",
    "updated_at": "2026-03-02T00:00:00.000000Z",
    "occurred_at": None,
    "expiration_date": None,
}

SIMPLE = {
    "user_id", "agent_id", "app_id", "run_id", "id", "kind", "role", "memory",
    "created_at", "updated_at", "occurred_at", "expiration_date", "categories",
}  # fmt: skip


@contextmanager
def postgres_as_judge(template: Database) -> Iterator[Judge]:
    """Says whether a memory passes, by its columns and by the path."""
    elsewhere = make_conninfo(template.admin, dbname="postgres")  # the template is copied meanwhile
    with psycopg.connect(elsewhere, autocommit=True) as connection:

        def judge(memory: dict[str, Any], wanted: Any) -> bool:
            compiled = compile_filter(wanted)
            for column in ("user", "agent", "app", "run"):
                value = getattr(compiled, column)
                if value is not None and memory[f"{column}_id"] != value:
                    return False
            if compiled.path is None:
                return True
            row = connection.execute(
                "select jsonb_path_match(%s, %s::jsonpath, %s, true)",
                (Jsonb(memory), compiled.path, Jsonb(compiled.values)),
            ).fetchone()
            assert row is not None
            assert row[0] is not None, f"{compiled.path} is neither true nor false"
            found: bool = row[0]
            return found

        yield judge


def passes(memory: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_holds(memory, key, value) for key, value in wanted.items())


def _holds(memory: Mapping[str, Any], key: str, value: Any) -> bool:  # noqa: PLR0911 - one for each
    match key:
        case "AND":
            return all(passes(memory, each) for each in value)
        case "OR":
            return any(passes(memory, each) for each in value)
        case "NOT":
            return not any(passes(memory, each) for each in (value if isinstance(value, list) else [value]))
        case "metadata":
            return all(_asked(memory["metadata"].get(name), each) for name, each in value.items())
        case "keywords":
            sought = value if isinstance(value, dict) else {"icontains": value}
            return _asked(memory["memory"], sought)
        case "timestamp":
            return _asked(memory["occurred_at"] or memory["created_at"], value)
        case "categories":
            return _asked_of_categories(memory["categories"], value)
        case _ if key in SIMPLE:
            return _asked(memory[key], value)
        case _:
            return _asked(memory["metadata"].get(key.removeprefix("metadata.")), value)


def _asked(found: Any, value: Any) -> bool:
    if value == "*":
        return found is not None
    if not isinstance(value, dict):
        return _equal(found, value)
    return all(_judge(found, operator, operand) for operator, operand in value.items())


def _asked_of_categories(found: list[str], value: Any) -> bool:
    if value == "*":
        return found != []
    asked = value if isinstance(value, dict) else {"eq": value}
    return all(_judge_categories(found, operator, operand) for operator, operand in asked.items())


def _judge_categories(found: list[str], operator: str, operand: Any) -> bool:
    if operator in {"contains", "icontains"}:
        sought = operand if isinstance(operand, list) else [operand]
        return all(any(_within(each, category, any_case=True) for category in found) for each in sought)
    return _judge(found or None, operator, operand)


def _judge(found: Any, operator: str, operand: Any) -> bool:
    match operator:
        case "eq":
            return _equal(found, operand)
        case "ne":
            return not _equal(found, operand)
        case "in":
            return any(_equal(found, each) for each in operand)
        case "nin":
            return not any(_equal(found, each) for each in operand)
        case "contains" | "icontains":
            sought = operand if isinstance(operand, list) else [operand]
            return all(_contains(found, each, any_case=operator == "icontains") for each in sought)
    return any(_in_order(each, operator, operand) for each in _items(found))


def _items(found: Any) -> list[Any]:
    return [found, *found] if isinstance(found, list) else [found]


def _equal(found: Any, operand: Any) -> bool:
    if operand is None:
        return found is None
    if isinstance(operand, list):
        return isinstance(found, list) and all(any(_same(entry, each) for entry in found) for each in operand)
    return any(_same(each, operand) for each in _items(found))


def _same(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) and _kind(one) != "other" and _comparable(one) == _comparable(other)


def _in_order(found: Any, operator: str, operand: Any) -> bool:
    if _kind(found) != _kind(operand) or _kind(found) == "other":
        return False
    one, other = _comparable(found), _comparable(operand)
    decide: dict[str, Callable[[], bool]] = {
        "gt": lambda: one > other,
        "gte": lambda: one >= other,
        "lt": lambda: one < other,
        "lte": lambda: one <= other,
    }
    return decide[operator]()


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
    return "other"


def _comparable(value: Any) -> Any:
    # As JSON writes it: a decimal.
    return Decimal(repr(value)) if _kind(value) == "number" else value


def _contains(found: Any, sought: Any, *, any_case: bool) -> bool:
    if isinstance(found, list):
        if any_case:
            return any(isinstance(each, str) and _like(sought, each, any_case=True) for each in found)
        return any(_same(each, sought) for each in found)
    return isinstance(found, str) and isinstance(sought, str) and _within(sought, found, any_case=any_case)


def _within(sought: str, text: str, *, any_case: bool) -> bool:
    last = len(text) - len(sought)
    return any(_like(sought, text[at : at + len(sought)], any_case=any_case) for at in range(last + 1))


def _like(sought: str, text: str, *, any_case: bool) -> bool:
    if len(sought) != len(text):
        return False
    if not any_case:
        return sought == text
    return all(
        one == other or other in {one.lower(), one.upper()} for one, other in zip(sought, text, strict=True)
    )
