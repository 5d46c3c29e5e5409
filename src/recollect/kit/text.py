"""Text that Postgres can store and people can read back as it was."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from recollect.errors import InvalidInput, MalformedRequest

MAX_DEPTH = 64
INT64 = range(-(2**63), 2**63)
# Colours and other commands to a terminal, with all that belongs to them.
_TERMINAL = re.compile(r"(\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-_]")
# They make text read otherwise than it is written.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class UnstorableText(InvalidInput):
    """Text may not contain NUL or half of a surrogate pair."""

    code = "unstorable_text"


class InvalidJson(MalformedRequest):
    """The body is not valid JSON."""

    code = "invalid_json"


def storable(text: str) -> str:
    if "\x00" in text or not is_unicode(text):
        raise UnstorableText
    return text


def is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(text: str) -> str:
    """Text that does nothing but stand there: no commands to terminals, no control characters."""
    if text.replace("\n", "").isprintable():
        return text.strip()
    text = _TERMINAL.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return "".join(each for each in text if each == "\n" or _is_visible(each)).strip()


def one_line(text: str) -> str:
    """What would be another line becomes part of this one."""
    return " ".join(plain(text).split())


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cs"} and character not in _DIRECTIONS


def _storable(text: str) -> str:
    try:
        return storable(text)
    except UnstorableText as error:
        raise ValueError(error.detail) from error


def of_form(pattern: str, meaning: str) -> tuple[Any, ...]:
    """For a field's type: a pattern, whose mismatch is explained in words instead of in signs."""
    compiled = re.compile(pattern)

    def check(given: str) -> str:
        if not compiled.fullmatch(given):
            # Not a ValueError, which pydantic would announce as one.
            raise PydanticCustomError("form", "{meaning}", {"meaning": meaning})
        return given

    return AfterValidator(check), Field(json_schema_extra={"pattern": pattern})


# For every text field of an input model. Half a surrogate pair is no text to a pattern either way.
Text = Annotated[str, AfterValidator(_storable), Field(json_schema_extra={"pattern": r"^[^\x00]*$"})]


def _number_only(given: object) -> object:
    # Pydantic also reads "5" and true as numbers; a JSON schema's integer is 5 or 5.0.
    if isinstance(given, int | float) and not isinstance(given, bool):
        return given
    raise ValueError("a whole number")


# For every whole number of an input model that comes as JSON.
NumberOnly = BeforeValidator(_number_only)


def strict_json(body: bytes) -> Any:
    """Parse JSON as RFC 8259 means it, refusing what Python, or Postgres after it, would bend."""
    try:
        parsed = _decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        raise InvalidJson("The body is not UTF-8.") from error
    except RecursionError as error:
        raise InvalidJson(f"The JSON is nested more than {MAX_DEPTH} levels deep.") from error
    except json.JSONDecodeError as error:
        raise InvalidJson(
            f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    check_json(parsed)
    return parsed


def compact_json(value: Any) -> str:
    """The value as JSON text without spare spaces, or an error that says why it cannot be stored."""
    check_json(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def check_json(value: Any) -> None:
    """Refuse what JSON, Postgres or other languages cannot hold, however deep it sits."""
    layer, depth = [value], 0
    while layer:
        if depth > MAX_DEPTH:
            raise InvalidJson(f"The JSON is nested more than {MAX_DEPTH} levels deep.")
        deeper: list[Any] = []
        for item in layer:
            match item:
                case str():
                    storable(item)
                case dict():
                    _check_keys(item)
                    deeper.extend(item.values())
                case list() | tuple():
                    deeper.extend(item)
                case _:
                    _check_scalar(item)
        layer, depth = deeper, depth + 1


def _check_keys(mapping: dict[Any, Any]) -> None:
    for key in mapping:
        if not isinstance(key, str):
            raise InvalidJson(f"A JSON object's keys are text, not {type(key).__name__}.")
        storable(key)


def _check_scalar(item: Any) -> None:
    match item:
        case None | bool():
            return
        case int():
            if item not in INT64:
                raise InvalidJson("A number does not fit into 64 bits; send it as text.")
        case float():
            if not math.isfinite(item):
                raise InvalidJson("NaN, Infinity and numbers beyond 1.8e308 are not JSON.")
        case _:
            raise InvalidJson(f"A value of type {type(item).__name__} cannot be written as JSON.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidJson("An object has the same key twice.")
    return mapping


def _number(digits: str) -> int | float:
    # Longer than any 64-bit number: refused before Python spends time on it.
    if len(digits) > 20:
        raise InvalidJson("A number does not fit into 64 bits; send it as text.")
    # An integer has no negative zero, and would come back as another number.
    return -0.0 if digits == "-0" else int(digits)


def _no_constant(name: str) -> Any:
    raise InvalidJson(f"{name} is not JSON.")


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_number)
