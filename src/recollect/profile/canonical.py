"""One text for each document: what is stored, what is checksummed and what is compared."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from hashlib import sha256
from typing import Any

from psycopg.types.json import Jsonb

# Of a document in canonical form.
MAX_BYTES = 1_000_000

_TIGHT = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
_sorted_text = json.JSONEncoder(sort_keys=True, **_TIGHT).encode  # type: ignore[arg-type]
_text = json.JSONEncoder(**_TIGHT).encode  # type: ignore[arg-type]

# Python sorts by code point; in UTF-16 what has two units comes before what has the highest single ones.
_TWO_UNITS, _HIGHEST_UNITS = re.compile("[\U00010000-\U0010ffff]"), re.compile("[\ue000-\uffff]")
# What is in every number that Python writes otherwise, and also in some texts.
_PERHAPS_ODD = ("e-", "e+", "-0.0")
_ODD = re.compile(r"[0-9]e[+-][0-9]|-0\.0")
_TEXT_OR_ODD = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9.]+e[+-][0-9]+|-0\.0(?![0-9])')


def canonical(document: Any) -> bytes:
    """RFC 8785, save that integers are exact and a whole float is written in full and keeps its ``.0``.

    So ``1``, ``1.0`` and ``true`` are told apart, and ``jsonb``, which keeps a number's digits but not
    how they were written, gives back what it was given. The document has passed ``check_json``.
    """
    text = _sorted_text(document)
    if not text.isascii() and _HIGHEST_UNITS.search(text) and _TWO_UNITS.search(text):
        text = _text(_by_utf_16(document))
    if any(sign in text for sign in _PERHAPS_ODD) and _ODD.search(text):
        text = _TEXT_OR_ODD.sub(_plain_number, text)
    return text.encode()


def checksum(document: Any) -> bytes:
    return sha256(canonical(document)).digest()


def stored(document: Any) -> Jsonb:
    """For a parameter of type ``jsonb``: anything but canonical text loses ``1e22`` for an integer."""
    return Jsonb(document, dumps=canonical)


def same(one: Any, other: Any, *, kinds: bool = True) -> bool:
    """Equal as JSON. Without ``kinds``, numbers are equal by their value, as RFC 6902 has it."""
    # Python's own comparison is quick, and wrong only in that 1 == 1.0 == True.
    return one is other or (one == other and _alike(one, other, kinds=kinds))


def _alike(one: Any, other: Any, *, kinds: bool) -> bool:
    if one is other or isinstance(one, str):
        return True
    match one:
        case bool() | int() | float():
            return type(one) is type(other) or not (kinds or isinstance(one, bool) or isinstance(other, bool))
        case dict():
            return all(_alike(value, other[key], kinds=kinds) for key, value in one.items())
        case list():
            return all(_alike(mine, its, kinds=kinds) for mine, its in zip(one, other, strict=True))
    return True


def _by_utf_16(value: Any) -> Any:
    match value:
        case dict():
            in_order = sorted(value, key=lambda key: key.encode("utf-16-be"))
            return {key: _by_utf_16(value[key]) for key in in_order}
        case list():
            return [_by_utf_16(item) for item in value]
    return value


def _plain_number(found: re.Match[str]) -> str:
    written = found[0]
    if written.startswith('"'):
        return written
    number = float(written)
    if number == 0:
        return "0.0"
    if number.is_integer():
        return f"{Decimal(written):f}.0"
    if abs(number) >= 1e-6:
        return f"{Decimal(written):f}"
    digits, _, exponent = written.partition("e-")
    return f"{digits}e-{int(exponent)}"
