"""Any filter, and any memory: Postgres judges as the language says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from recollect.db.database import Database
from recollect.engine.filters import InvalidFilter, compile_filter
from tests.engine.judging import MEMORY, Judge, passes, postgres_as_judge

# Few, so that filters and memories meet; and such as break out of quotes where they can.
TEXTS = [
    "a",
    "A",
    "ab",
    "é",
    "É",
    "Ж",
    "$v0",
    "$",
    "@",
    "*",
    '"',
    "'",
    "\\",
    "\\\\",
    "\\U00000061",
    '") || exists($)',
    '" flag "i") || (1 == 1',
    "')); drop table memories; --",
    "^a$",
    ".",
    "(",
    "[a",
    "\n",
    "\x01",
    "\u2028",
    "\U0001f600",
    "true",
    "7",
]
KEYS = [
    "k",
    "type",
    "size()",
    "$",
    '"',
    "\\",
    "a.b",
    "",
    "k\n",
    "\U0001f600",
    "AND ",
    '"."k',
    "user_id",
    "contains",
]
MOMENTS = ["2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.000001Z", "0999-12-31T23:59:59.999999Z"]

texts = st.sampled_from(TEXTS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3
)
numbers = st.sampled_from([0, 1, 7, -1, 7.0, 0.1, 1e-7, 1e22, 2**53 + 1]) | st.floats(
    allow_nan=False, allow_infinity=False
)
scalars = st.sampled_from(["a", "A", "7", 7, 0, True]) | texts | numbers | st.booleans()
stored = st.recursive(scalars | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
keys = st.just("k") | st.sampled_from(KEYS)
ids = st.sampled_from(["a", "A", "*", '"'])
moments = st.sampled_from(MOMENTS)

memories = st.fixed_dictionaries(
    {
        "id": st.just(MEMORY["id"]),
        "user_id": ids | st.none(),
        "agent_id": ids | st.none(),
        "app_id": ids | st.none(),
        "run_id": ids | st.none(),
        "kind": st.sampled_from(["turn", "fact"]),
        "role": ids | st.none(),
        "categories": st.lists(texts, max_size=2),
        "memory": st.lists(texts, max_size=3).map("".join),
        "metadata": st.dictionaries(
            keys, stored | st.dictionaries(keys, scalars, max_size=1), min_size=1, max_size=3
        ),
        "created_at": moments,
        "updated_at": moments,
        "occurred_at": moments | st.none(),
        "expiration_date": moments | st.none(),
    }
)


@pytest.fixture(scope="module")
def judge(template: Database) -> Iterator[Judge]:
    with postgres_as_judge(template) as found:
        yield found


def _evenly(one: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # A choice among choices would be one among all of them, and the other rare.
    return st.booleans().flatmap(lambda is_one: one if is_one else other)


def _operators(of: st.SearchStrategy[Any], *, order: bool, within: bool) -> st.SearchStrategy[Any]:
    listed = st.lists(of | st.none(), max_size=3)
    each = {"eq": of | st.none(), "ne": of | st.none(), "in": listed, "nin": listed}
    if order:
        comparable = of.filter(lambda value: not isinstance(value, bool))
        each |= dict.fromkeys(("gt", "gte", "lt", "lte"), comparable)
    if within:
        sought = of.filter(lambda value: value != "")
        each |= {"contains": sought | st.lists(sought, min_size=1, max_size=2)}
        each |= {"icontains": texts.filter(bool)}
    return st.lists(st.sampled_from(sorted(each)), min_size=1, max_size=2, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: each[name] for name in names})
    )


def _on(names: list[str], of: st.SearchStrategy[Any], *, order: bool, within: bool) -> st.SearchStrategy[Any]:
    asked = _evenly(of | st.none() | st.just("*"), _operators(of, order=order, within=within))
    return st.dictionaries(st.sampled_from(names), asked, min_size=1, max_size=2)


of_metadata = st.dictionaries(
    keys.filter(lambda key: key != "contains"),
    _evenly(
        scalars | st.none() | st.lists(scalars, min_size=1, max_size=2),
        _operators(scalars, order=True, within=True),
    ),
    min_size=1,
    max_size=2,
)
of_fields = st.one_of(
    _on(["user_id", "agent_id", "app_id", "run_id", "role", "kind"], ids, order=False, within=True),
    _on(
        ["created_at", "updated_at", "occurred_at", "timestamp", "expiration_date"],
        moments,
        order=True,
        within=False,
    ),
    _on(["categories"], texts, order=False, within=True),
    st.builds(lambda sought: {"keywords": {"contains": sought}}, texts.filter(bool)),
    st.builds(lambda sought: {"keywords": sought}, texts.filter(lambda text: text not in {"", "*"})),
)
conditions = _evenly(
    of_fields,
    st.builds(lambda asked: {"metadata": asked}, of_metadata)
    | of_metadata.map(lambda asked: {f"metadata.{key}": value for key, value in asked.items()}),
)
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(lambda each: {"AND": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"OR": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"NOT": each}, inner | st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=5,
)


@hypothesis_settings(max_examples=500)
@given(memories, filters)
@example({**MEMORY, "metadata": {"k": ['") || exists($)']}}, {"k": {"icontains": '") || EXISTS($)'}})
def test_postgres_judges_as_the_language_says(judge: Judge, memory: dict[str, Any], wanted: Any) -> None:
    assert judge(memory, wanted) == passes(memory, wanted), compile_filter(wanted)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["AND", "OR", "NOT", "metadata", "user_id", "in", "contains", "gt", "created_at"])
            | st.text(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@hypothesis_settings(max_examples=300)
@given(anything)
def test_whatever_is_given_is_compiled_or_refused(judge: Judge, wanted: Any) -> None:
    try:
        compile_filter(wanted)
    except InvalidFilter as error:
        json.dumps(error.detail).encode()
        return
    judge(MEMORY, wanted)
