"""The day's tokens: set aside before a model is asked, so that no crowd of callers exceeds them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller
from recollect.llm.failures import ModelBudgetSpent, ModelFailed, ModelTimedOut
from recollect.llm.models import Question
from recollect.llm.schema import as_text, schema_of
from tests.conftest import until
from tests.llm.conftest import FACTS, AddUser, Ask, Facts, Sql, ledger
from tests.support.model_server import Asked, Behaviour, Fails, Hangs, HangsUp, ModelServer, Says, Sends

pytestmark = pytest.mark.anyio

# What one question of these tests sets aside.
MOST = Question("You note facts.", "Ana likes tea.", Facts, as_text(schema_of(Facts)), 1_000).most_tokens


@pytest.fixture
def protocol() -> str:
    return "anthropic"


@pytest.fixture
def options() -> dict[str, Any]:
    return {"model_daily_tokens": 3 * MOST, "model_timeout_seconds": 60}


async def test_what_is_set_aside_is_more_than_any_model_can_make_of_it() -> None:
    texts = "日本語🦓" * 10, "0123456789abcdef" * 10
    question = Question(*texts, Facts, as_text(schema_of(Facts)), 1_000)
    assert question.most_input_tokens > sum(len(text.encode()) for text in texts)
    repaired = question.again("x" * 500, "y" * 500)
    assert repaired.most_tokens == question.most_tokens + 1_000


async def test_of_many_who_ask_at_once_only_as_many_are_let_through_as_there_are_tokens_for(
    model: ModelServer, ask: Ask, add_user: AddUser, sql: Sql
) -> None:
    ana = Caller.user(await add_user("ana@example.com"))
    model.otherwise = lambda _: Hangs()
    # Between weighing and writing down there is time enough for all others to weigh.
    await sql(
        "create function dawdle() returns trigger language plpgsql as"
        " 'begin perform pg_sleep(0.1); return new; end'"
    )
    await sql("create trigger dawdle before insert on model_calls for each row execute function dawdle()")
    asking = [asyncio.create_task(ask(ana)) for _ in range(10)]
    try:
        await until(lambda: len(model.asked) + sum(task.done() for task in asking) == 10)
        refused = [task.exception() for task in asking if task.done()]

        assert [type(error) for error in refused] == [ModelBudgetSpent] * 7
        assert isinstance(refused[0], ModelBudgetSpent)
        assert refused[0].status == 429
        assert 0 < int(refused[0].headers["Retry-After"]) <= 86_400
        outcomes = [row["outcome"] for row in await ledger(sql)]
        assert (outcomes.count("running"), outcomes.count("over_budget")) == (3, 7)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_what_a_question_did_not_take_is_there_for_the_next(
    model: ModelServer, ask: Ask, add_user: AddUser, sql: Sql
) -> None:
    ana = Caller.user(await add_user("ana@example.com"))
    model.otherwise = lambda _: Says(FACTS, tokens=(MOST // 2, MOST // 2))
    for _ in range(3):
        await ask(ana)
    with pytest.raises(ModelBudgetSpent):
        await ask(ana)
    rows = await ledger(sql)
    assert sum(row["budget_tokens"] for row in rows) <= 3 * MOST
    assert (rows[-1]["outcome"], rows[-1]["attempts"], rows[-1]["budget_tokens"]) == ("over_budget", 0, 0)


async def test_one_users_tokens_are_not_anothers_nor_the_services(
    model: ModelServer, ask: Ask, add_user: AddUser
) -> None:
    ana, ben = [Caller.user(await add_user(f"{name}@example.com")) for name in ("ana", "ben")]
    model.otherwise = lambda _: Says(FACTS, tokens=(3 * MOST, 0))
    for caller in (ana, ben, SERVICE):
        await ask(caller)
        with pytest.raises(ModelBudgetSpent):
            await ask(caller)
    assert len(model.asked) == 3


async def test_many_workspaces_are_no_way_around_the_budget(
    model: ModelServer, ask: Ask, add_user: AddUser, sql: Sql
) -> None:
    user = await add_user("ana@example.com")
    [first, second] = await sql("insert into workspaces (name) values ('a'), ('b') returning id")
    for each in (first, second):
        await sql(
            "insert into workspace_members (workspace_id, user_id, role) values (%s, %s, 'owner')",
            each["id"],
            user,
        )
    model.otherwise = lambda _: Says(FACTS, tokens=(2 * MOST + 1, 0))
    await ask(Caller.user(user), workspace=first["id"])
    with pytest.raises(ModelBudgetSpent):
        await ask(Caller.user(user), workspace=second["id"])
    # Of the workspace itself nothing was used yet.
    await ask(SERVICE, workspace=second["id"])


async def test_a_workspace_has_one_budget_for_all_its_members(
    model: ModelServer, ask: Ask, add_user: AddUser, sql: Sql
) -> None:
    [shared] = await sql("insert into workspaces (name) values ('a') returning id")
    ana, ben = [await add_user(f"{name}@example.com") for name in ("ana", "ben")]
    for user in (ana, ben):
        await sql("insert into workspace_members (workspace_id, user_id) values (%s, %s)", shared["id"], user)
    model.otherwise = lambda _: Says(FACTS, tokens=(2 * MOST + 1, 0))
    await ask(Caller.user(ana), workspace=shared["id"])
    for caller in (Caller.user(ben), SERVICE):
        with pytest.raises(ModelBudgetSpent):
            await ask(caller, workspace=shared["id"])
    await ask(Caller.user(ben))


async def test_yesterdays_tokens_do_not_count(model: ModelServer, ask: Ask, sql: Sql) -> None:
    model.otherwise = lambda _: Says(FACTS, tokens=(3 * MOST, 0))
    await ask()
    with pytest.raises(ModelBudgetSpent):
        await ask()
    await sql("update model_calls set started_at = date_trunc('day', now(), 'UTC') - interval '1 second'")
    await ask()


@pytest.mark.parametrize("options", [{"model_daily_tokens": MOST + 100}])
async def test_mending_an_answer_takes_tokens_that_have_to_be_there(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    model.will(Says({"title": 7}, tokens=(300, 100)), Says(FACTS))
    with pytest.raises(ModelBudgetSpent):
        await ask()
    assert len(model.asked) == 1
    [row] = await ledger(sql)
    assert (row["outcome"], row["attempts"], row["budget_tokens"]) == ("over_budget", 1, 400)


@pytest.mark.parametrize("options", [{"model_daily_tokens": MOST}])
async def test_a_try_that_cost_nothing_leaves_its_tokens_for_the_next(model: ModelServer, ask: Ask) -> None:
    model.will(Fails(529, {"Retry-After": "0"}), Fails(429, {"Retry-After": "0"}), Says(FACTS))
    assert await ask() == Facts.model_validate(FACTS)


@pytest.mark.parametrize("options", [{"model_daily_tokens": 2 * MOST - 1, "model_timeout_seconds": 0.5}])
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [(Hangs(), ModelTimedOut), (HangsUp(), ModelBudgetSpent), (Sends(b"{}"), ModelFailed)],
)
async def test_what_nobody_reports_counts_as_if_it_had_been_used(
    model: ModelServer, ask: Ask, sql: Sql, behaviour: Behaviour, error: type[ModelFailed]
) -> None:
    def behave(asked: Asked) -> Behaviour:
        del asked
        return behaviour

    model.otherwise = behave
    with pytest.raises(error):
        await ask()
    assert len(model.asked) == 1
    [row] = await ledger(sql)
    assert (row["input_tokens"], row["budget_tokens"]) == (None, MOST)


async def test_an_answer_without_a_report_counts_by_its_length(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    said = Says({**FACTS, "note": "x" * 500}, tokens=None)
    model.will(said)
    await ask()
    [row] = await ledger(sql)
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (None, None, None)
    assert row["budget_tokens"] == MOST - 1_000 + len(said.text)


@pytest.mark.parametrize("options", [{}])
async def test_without_a_budget_there_is_no_limit(services: Services, model: ModelServer, ask: Ask) -> None:
    model.otherwise = lambda _: Says(FACTS, tokens=(10**8, 10**8))
    for _ in range(3):
        await ask()
    async with services.tenancy.acting_as(SERVICE) as tx:
        status = await services.llm.status(tx)
    assert (status.daily_tokens, status.today.calls) == (None, 3)
    assert status.today.budget_tokens == 6 * 10**8
