"""A context is the best memories within a hard budget, and says what it spares."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.context import line_for, tokens_in
from recollect.engine.models import Context, Entities, Memory, Wanted, Where
from recollect.errors import InvalidInput
from tests.engine.conftest import Rememberer

pytestmark = pytest.mark.anyio


async def _context(somebody: Rememberer, query: str, budget: int) -> Context:
    wanted = Wanted(query, Where(Entities(user="ana")))
    return await somebody.do(lambda tx: somebody.services.engine.context(tx, wanted, budget_tokens=budget))


async def _fill(somebody: Rememberer) -> None:
    for day in range(1, 29):
        await somebody.add(
            f"On day {day} I walked the dog along river number {day}",
            occurred_at=datetime(2024, 2, day, tzinfo=UTC),
        )


@pytest.mark.parametrize("budget", [1, 10, 25, 100, 250, 10_000])
async def test_the_budget_is_never_exceeded(somebody: Rememberer, budget: int) -> None:
    await _fill(somebody)
    context = await _context(somebody, "walking the dog", budget)
    assert tokens_in(context.text) <= context.tokens <= budget
    assert len(context.ids) == len(context.text.splitlines())
    assert context.tokens + context.saved == context.whole or context.saved == 0


async def test_the_best_fit_is_in_it_and_what_happened_first_stands_first(somebody: Rememberer) -> None:
    await _fill(somebody)
    context = await _context(somebody, "river number 17", 60)
    assert "river number 17" in context.text
    days = [line[3:13] for line in context.text.splitlines()]
    assert days == sorted(days)
    assert len(days) > 1
    assert context.saved > 0


async def test_a_budget_of_nothing_is_refused(somebody: Rememberer) -> None:
    with pytest.raises(InvalidInput):
        await _context(somebody, "dog", 0)


async def test_a_superseded_fact_is_not_told(somebody: Rememberer) -> None:
    await somebody.add("I live in Lima.", infer=True)
    await somebody.add("I live in Cusco now.", infer=True)
    context = await _context(somebody, "Where do I live?", 200)
    assert "Cusco" in context.text
    assert "Lima" not in context.text


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_cost_no_more_together_than_apart(one: str, other: str) -> None:
    assert tokens_in(f"{one}\n{other}") <= tokens_in(one) + tokens_in(other) + 1


def test_a_line_names_day_and_speaker() -> None:
    moment = datetime(2024, 2, 3, tzinfo=UTC)
    memory = Memory(
        id=UUID(int=1), text="hello", kind="turn", speaker="Ana", created_at=moment, updated_at=moment
    )
    assert line_for(memory) == "- [2024-02-03] Ana: hello"
