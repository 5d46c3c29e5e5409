"""Which memories are meant: filters in mem0's language, compiled for Postgres.

A filter becomes a jsonpath over ``private.described`` and its variables. Nothing that a caller wrote is part
of the path but quoted names and the text of ``contains``, which jsonpath takes as a literal alone. The path
is strict, and everything in it either holds or does not: a field that is missing, or of another type, fails
a condition and passes its negation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard
from uuid import UUID

from recollect.errors import InvalidInput, RecollectError
from recollect.kit.text import check_json

MAX_DEPTH = 20
MAX_CONDITIONS = 200
MAX_LISTED = 1_000
# Of what is looked for inside a text: it is made into an automaton, whose size grows with it.
MAX_SOUGHT = 1_000

_NEVER = "(1 == 0)"
_ORDER = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_EQUALITY = frozenset({"eq", "ne", "in", "nin"})
_CONTAINMENT = frozenset({"contains", "icontains"})
OPERATORS: Final = _EQUALITY | _CONTAINMENT | _ORDER.keys()


class InvalidFilter(InvalidInput):
    """The filter cannot be understood."""

    code = "invalid_filter"


@dataclass(frozen=True)
class Compiled:
    """Equalities that an index serves, and the rest."""

    user: str | None = None
    agent: str | None = None
    app: str | None = None
    run: str | None = None
    path: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def compile_filter(given: Mapping[str, Any] | None) -> Compiled:
    compiler = _Compiler()
    parts = [] if given is None or given == {} else compiler.all_of(given, "", 0, is_at_top=True)
    path = "strict " + " && ".join(parts) if parts else None
    return Compiled(**compiler.lifted, path=path, values=compiler.values)


@dataclass(frozen=True)
class _Field:
    """``items``: what a condition is asked of; it holds if it does for one of them. A list is its entries
    (``entries``), too. ``read`` brings an operand into the form in which the field is kept."""

    whole: str
    items: tuple[str, ...]
    operators: frozenset[str]
    read: Callable[[Any], Any]
    wants: str
    entries: str | None = None
    bare: str = "eq"
    bare_list: str | None = None
    column: str | None = None
    ignores_case: bool = False


# Operands ---------------------------------------------------------------------------------------


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def _scalar(given: Any) -> str | int | float | bool:
    if not isinstance(given, str | int | float):
        raise TypeError
    return given


def _moment(given: Any) -> str:
    """As private.described writes it: of one width and in UTC, so that the order of texts is that of time."""
    if _is_number(given):
        moment = datetime.fromtimestamp(given, UTC)
    else:
        moment = datetime.fromisoformat(_text(given).strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _id(given: Any) -> str:
    try:
        return str(UUID(_text(given)))
    except ValueError:
        return _text(given)  # nobody's id: it matches nothing


def _is_number(given: Any) -> TypeGuard[int | float]:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _is_list(given: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(given, list | tuple)


# Fields -----------------------------------------------------------------------------------------


def _known(
    name: str, read: Callable[[Any], Any], wants: str, operators: Iterable[str], **more: Any
) -> _Field:
    path = f'$."{name}"'
    return _Field(
        **{"whole": path, "items": (path,), **more}, operators=frozenset(operators), read=read, wants=wants
    )


def _time(name: str, **more: Any) -> _Field:
    wants = "a moment such as 2026-03-01T12:00:00Z, a date, or seconds since 1970"
    return _known(name, _moment, wants, _EQUALITY | _ORDER.keys(), **more)


def _words(name: str, **more: Any) -> _Field:
    return _known(name, _text, "text", _EQUALITY | _CONTAINMENT, **more)


_ids = _known("id", _id, "an id as text", _EQUALITY, bare_list="in")
_keywords = _known("memory", _text, "text", _CONTAINMENT, bare="icontains")
_FIELDS: Final[dict[str, _Field]] = {
    "user_id": _words("user_id", column="user"),
    "agent_id": _words("agent_id", column="agent"),
    "app_id": _words("app_id", column="app"),
    "run_id": _words("run_id", column="run"),
    "id": _ids,
    "memory_ids": _ids,
    "kind": _words("kind"),
    "role": _words("role"),
    "memory": _words("memory"),
    "text": _words("memory"),
    "keywords": _keywords,
    "keywords_search": _keywords,
    "created_at": _time("created_at"),
    "updated_at": _time("updated_at"),
    "occurred_at": _time("occurred_at"),
    # When it was said; what came without a time was said when it came.
    "timestamp": _time(
        "occurred_at",
        items=('$."occurred_at"', '$ ? (@."occurred_at" == null)."created_at"'),
        whole='$."created_at"',
    ),
    "expiration_date": _time("expiration_date"),
    # To mem0 a category contains a text as a text does, in whichever case. One without categories has none at
    # all: "*" asks for any.
    "categories": _known(
        "categories",
        _text,
        "text",
        _EQUALITY | _CONTAINMENT,
        whole='$."categories"[*]',
        items=('$."categories"[*]',),
        bare_list="eq",
        ignores_case=True,
    ),
}


def _field_of(key: str) -> _Field:
    if key in _FIELDS:
        return _FIELDS[key]
    # What no memory has by itself is looked for in its metadata.
    name = _quoted(key.removeprefix("metadata."))
    whole = f'$."metadata" ? (exists(@.{name})).{name}'
    entries = f'$."metadata" ? (@.{name}.type() == "array").{name}[*]'
    wants = "text, a number, true or false"
    return _Field(whole, (whole, entries), OPERATORS, _scalar, wants, entries, bare_list="eq")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# Compiling --------------------------------------------------------------------------------------


class _Compiler:
    """Takes a filter apart. Its depth is bounded before it goes deeper; ``place`` is where it is."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.lifted: dict[str, str] = {}
        self._conditions = 0

    def all_of(self, given: Any, place: str, depth: int, *, is_at_top: bool = False) -> list[str]:
        """Predicates that all have to hold; fewer than were given where a column answers them."""
        if not isinstance(given, Mapping):
            raise _wrong(place, 'is not an object; write conditions as {"user_id": "ana"}.')
        if not given:
            raise _wrong(place, "has no condition.")
        if depth > MAX_DEPTH:
            raise _wrong(place, f"is more than {MAX_DEPTH} levels deep.")
        found: list[str] = []
        for key, value in given.items():
            here = _within(place, key)
            match key:
                case "AND":
                    for index, each in enumerate(_listed(value, here)):
                        found += self.all_of(each, f"{here}[{index}]", depth + 1, is_at_top=is_at_top)
                case "OR":
                    found.append(self._any_of(_listed(value, here), here, depth))
                case "NOT":
                    several = _listed(value, here) if _is_list(value) else [value]
                    found.append(f"!({self._any_of(several, here, depth)})")
                case "metadata":
                    found += self._metadata(value, here)
                case _:
                    found += self._conditions_on(_field_of(key), value, here, is_at_top=is_at_top)
        return found

    def _any_of(self, several: Sequence[Any], place: str, depth: int) -> str:
        parts = [
            " && ".join(self.all_of(each, f"{place}[{index}]", depth + 1))
            for index, each in enumerate(several)
        ]
        return "(" + " || ".join(f"({part})" for part in parts) + ")"

    def _metadata(self, given: Any, place: str) -> list[str]:
        if given == "*":
            return ['exists($."metadata".keyvalue())']
        if not isinstance(given, Mapping) or not given:
            raise _wrong(place, 'needs keys, as in {"metadata": {"source": "email"}}.')
        found: list[str] = []
        for key, value in given.items():
            here = _within(place, key)
            if key in OPERATORS:
                hint = f'{{"metadata": {{"source": {{"{key}": ...}}}}}}'
                raise _wrong(here, f"needs a key of the metadata before it, as in {hint}.")
            found += self._conditions_on(_field_of(f"metadata.{key}"), value, here)
        return found

    def _conditions_on(self, asked: _Field, given: Any, place: str, *, is_at_top: bool = False) -> list[str]:
        if given == "*":
            self._count(1, place)
            return [f"exists({asked.whole} ? (@ != null))"]
        if not isinstance(given, Mapping):
            bare = asked.bare_list if _is_list(given) and asked.bare_list else asked.bare
            given = {bare: given}
        elif not given:
            raise _wrong(place, "has no operator.")
        found: list[str] = []
        for operator, operand in given.items():
            here = _within(place, operator) if operator != asked.bare or len(given) > 1 else place
            if operator not in asked.operators:
                known = ", ".join(sorted(asked.operators))
                raise _wrong(here, f"{_quoted(str(operator))} is no operator here; there are {known}.")
            if is_at_top and operator == "eq" and self._is_lifted(asked, operand, here):
                continue
            found.append(self._condition(asked, operator, operand, here))
        return found

    def _is_lifted(self, asked: _Field, operand: Any, place: str) -> bool:
        """Whether a column answers it. Of two that contradict each other the second stays: none passes."""
        if asked.column is None or not isinstance(operand, str):
            return False
        return self.lifted.setdefault(asked.column, _checked(asked, operand, place)) == operand

    def _condition(self, asked: _Field, operator: str, operand: Any, place: str) -> str:
        # Each entry is looked for by itself, but those of "in" at once.
        self._count(len(operand) if _is_list(operand) and operator not in {"in", "nin"} else 1, place)
        match operator:
            case "eq":
                return self._equals(asked, operand, place)
            case "ne":
                return f"!({self._equals(asked, operand, place)})"
            case "in":
                return self._is_one_of(asked, operand, place)
            case "nin":
                return f"!({self._is_one_of(asked, operand, place)})"
            case "contains" | "icontains":
                return self._contains(asked, operand, place, ignore_case=operator == "icontains")
            case _:
                return self._compares(asked, _ORDER[operator], operand, place)

    def _equals(self, asked: _Field, operand: Any, place: str) -> str:
        if _is_list(operand) and asked.bare_list == "eq":
            within = asked.entries or asked.whole
            listed = [self._is(within, _checked(asked, each, place)) for each in _listed(operand, place)]
            return "(" + " && ".join(listed) + ")"
        if operand is None:
            return f"!(exists({asked.whole} ? (@ != null)))"
        value = _checked(asked, operand, place)
        return _either(self._is(item, value) for item in asked.items)

    def _is_one_of(self, asked: _Field, operand: Any, place: str) -> str:
        if not _is_list(operand):
            raise _wrong(place, "needs a list.")
        if len(operand) > MAX_LISTED:
            raise _wrong(place, f"takes at most {MAX_LISTED:,} values.")
        # By type: to compare one item with values of several types is an error, whatever the others say.
        groups: dict[str, list[Any]] = {}
        for each in operand:
            if each is not None:
                value = _checked(asked, each, place)
                groups.setdefault("number" if _is_number(value) else type(value).__name__, []).append(value)
        found = [f"!(exists({asked.whole} ? (@ != null)))"] if None in operand else []
        for group in groups.values():
            variable = self._variable(group)
            found += [f"exists({item} ? (@ == {variable}[*]))" for item in asked.items]
        return _either(found) if found else _NEVER

    def _contains(self, asked: _Field, operand: Any, place: str, *, ignore_case: bool) -> str:
        """A list holds it as an entry, a text as a part."""
        listed = _listed(operand, place) if _is_list(operand) else [operand]
        return "(" + " && ".join(self._holds(asked, each, place, ignore_case) for each in listed) + ")"

    def _holds(self, asked: _Field, sought: Any, place: str, ignore_case: bool) -> str:
        value = _checked(asked, sought, place)
        if not isinstance(value, str):
            if ignore_case or asked.entries is None:
                raise _wrong(place, "needs text.")
            return self._is(asked.entries, value)
        if not 0 < len(value) <= MAX_SOUGHT:
            raise _wrong(place, f"needs text of 1 to {MAX_SOUGHT:,} characters.")
        flag = "iq" if ignore_case or asked.ignores_case else "q"
        found = [f'exists({asked.whole} ? (@ like_regex {_quoted(value)} flag "{flag}"))']
        if asked.entries is not None and ignore_case:
            # The whole of an entry: numbers of characters in place of the text, which might mean something.
            whole = "".join(f"\\U{ord(letter):08x}" for letter in value)
            found.append(f'exists({asked.entries} ? (@ like_regex {_quoted(f"^{whole}$")} flag "i"))')
        elif asked.entries is not None:
            found.append(self._is(asked.entries, value))
        return _either(found)

    def _compares(self, asked: _Field, sign: str, operand: Any, place: str) -> str:
        value = _checked(asked, operand, place)
        if not isinstance(value, str) and not _is_number(value):
            raise _wrong(place, "needs a number or text; nothing else has an order.")
        variable = self._variable(value)
        return _either(f"exists({item} ? (@ {sign} {variable}))" for item in asked.items)

    def _is(self, item: str, value: Any) -> str:
        return f"exists({item} ? (@ == {self._variable(value)}))"

    def _variable(self, value: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f"${name}"

    def _count(self, more: int, place: str) -> None:
        self._conditions += more
        if self._conditions > MAX_CONDITIONS:
            raise _wrong(place, f"is too much: a filter has at most {MAX_CONDITIONS} conditions.")


def _either(parts: Iterable[str]) -> str:
    return "(" + " || ".join(parts) + ")"


def _within(place: str, key: Any) -> str:
    if not isinstance(key, str):
        raise _wrong(place, f"has a key that is not text but {type(key).__name__}.")
    here = f"{place}.{key}" if place else key
    try:
        check_json(key)
    except RecollectError as error:
        raise _wrong(place, f"has a key that cannot be used: {error.detail}") from error
    return here


def _listed(given: Any, place: str) -> Sequence[Any]:
    if not _is_list(given) or not given:
        raise _wrong(place, "needs a list with at least one entry.")
    return given


def _checked(asked: _Field, operand: Any, place: str) -> Any:
    try:
        check_json(operand)
        return asked.read(operand)
    except RecollectError as error:
        raise _wrong(place, f"cannot be used: {error.detail}") from error
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise _wrong(place, f"needs {asked.wants}.") from error


def _wrong(place: str, problem: str) -> InvalidFilter:
    shown = place if len(place) <= 200 else f"{place[:197]}..."
    return InvalidFilter(f"{shown or 'The filter'} {problem}")
