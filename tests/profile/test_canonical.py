"""One text for each document, which survives Postgres."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import psycopg
import pytest
import rfc8785
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from recollect.db.database import Database
from recollect.profile.canonical import canonical, checksum, same, stored
from tests.profile.documents import LARGE, NUMBERS, documents, edits

ThroughJsonb = Callable[[Any], Any]


@pytest.fixture(scope="module")
def through_jsonb(template: Database) -> Iterator[ThroughJsonb]:
    with psycopg.connect(template.admin) as connection:
        set_json_loads(from_json, connection)

        def send_and_read(document: Any) -> Any:
            row = connection.execute("select %s::jsonb", [stored(document)]).fetchone()
            assert row is not None
            return row[0]

        yield send_and_read


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1.0"),
        (True, "true"),
        (2**63 - 1, "9223372036854775807"),
        (2**53 + 1, "9007199254740993"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (-0.05, "-0.05"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (-1.25e-5, "-0.0000125"),
        (1e16, "10000000000000000.0"),
        (-1e22, "-10000000000000000000000.0"),
        ("1e-07 -0.0", '"1e-07 -0.0"'),
        ('"1e-07', '"\\"1e-07"'),
        ("\b\t\n\f\r\x1f\x7f\u2028é/", '"\\b\\t\\n\\f\\r\\u001f\x7f\u2028é/"'),
        ({"b": [1e-7], "a": "x e- y"}, '{"a":"x e- y","b":[1e-7]}'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_every_value_has_one_text(value: Any, text: str) -> None:
    assert canonical(value).decode() == text


def test_keys_are_sorted_by_their_utf_16_units() -> None:
    # The example of RFC 8785, section 3.2.3.
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    in_order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]

    assert list(json.loads(canonical({"deep": [dict.fromkeys(keys)]}))["deep"][0]) == in_order


@given(documents)
def test_it_is_rfc_8785_but_for_whole_floats_and_large_integers(document: Any) -> None:
    exact = _without_exceptions(document)

    assert canonical(exact) == rfc8785.dumps(exact)


def _without_exceptions(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_exceptions(member) for key, member in value.items()}
        case list():
            return [_without_exceptions(element) for element in value]
        case float():
            return str(value) if value.is_integer() else value
        case int():
            return value if abs(value) < 2**53 else str(value)
    return value


@given(documents)
def test_what_is_read_back_from_the_text_has_the_same_text(document: Any) -> None:
    for read in (json.loads, from_json):
        assert canonical(read(canonical(document))) == canonical(document)


@given(edits())
def test_two_documents_are_the_same_exactly_if_their_texts_are(pair: tuple[Any, Any]) -> None:
    one, other = pair

    assert same(one, other) == (canonical(one) == canonical(other))


def test_as_patches_test_it_numbers_are_equal_by_value_and_never_equal_to_true() -> None:
    assert same([1], [1.0], kinds=False)
    assert not same([1], [1.0])
    assert not same({"a": 1}, {"a": True}, kinds=False)
    assert not same(0.0, False, kinds=False)
    assert not same("1", 1, kinds=False)
    assert not same(2**53 + 1, float(2**53), kinds=False)


def test_the_checksum_is_of_the_text() -> None:
    assert checksum({"b": 1, "a": 1.0}) == sha256(b'{"a":1.0,"b":1}').digest()


@pytest.mark.parametrize("number", [*NUMBERS, *LARGE, 10**30])
def test_postgres_gives_a_number_back_as_it_was(through_jsonb: ThroughJsonb, number: float) -> None:
    read = through_jsonb({"n": number})["n"]

    assert (type(read), read) == (type(number), number)


@hypothesis_settings(max_examples=200)
@given(documents)
def test_postgres_gives_a_document_back_with_the_same_text(
    through_jsonb: ThroughJsonb, document: Any
) -> None:
    assert canonical(through_jsonb(document)) == canonical(document)
