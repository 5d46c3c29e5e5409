"""The record of what models were asked: whose it is, who sees it, and how long it is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.errors import NotAllowed, NotFound, NotSignedIn
from recollect.llm.failures import ModelFailed
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person
from tests.llm.conftest import FACTS, Ask, Sql, ledger
from tests.support.model_server import Fails, ModelServer, Says

pytestmark = pytest.mark.anyio


@pytest.fixture
def protocol() -> str:
    return "anthropic"


@pytest.fixture(autouse=True)
def _answering(model: ModelServer) -> None:
    model.otherwise = lambda _: Says(FACTS)


async def shared_by(sql: Sql, **members: Person) -> UUID:
    """A workspace, with each person in the role by which they are named here."""
    [made] = await sql("insert into workspaces (name) values ('Shared') returning id")
    for role, person in members.items():
        await sql(
            "insert into workspace_members (workspace_id, user_id, role) values (%s, %s, %s)",
            *(made["id"], person.id, role),
        )
    found: UUID = made["id"]
    return found


async def listed(person: Person, **filters: Any) -> list[dict[str, Any]]:
    answer = await person.http.get("/api/model/calls", params=filters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_a_call_is_seen_by_who_asked_and_by_those_who_manage_the_workspace(
    services: Services, ask: Ask, sql: Sql, ana: Person, ben: Person, person: MakePerson
) -> None:
    eve = await person("eve@example.com")
    workspace = await shared_by(sql, owner=ana, member=ben)
    await ask(ana.caller, workspace=workspace, purpose="of.ana")
    await ask(ben.caller, workspace=workspace, purpose="of.ben")
    await ask(ben.caller, purpose="of.ben_alone")
    await ask(SERVICE, workspace=workspace, purpose="of.service")
    await ask(SERVICE, purpose="of.service_alone")

    assert [call["purpose"] for call in await listed(ana)] == ["of.service", "of.ben", "of.ana"]
    assert [call["purpose"] for call in await listed(ben)] == ["of.ben_alone", "of.ben"]
    assert await listed(eve) == []
    # It is the policy that decides, not the list.
    everything = Query(
        "test", "All that there is to see.", "select purpose from model_calls order by purpose"
    )
    for one, seen in (
        (ana, ["of.ana", "of.ben", "of.service"]),
        (ben, ["of.ben", "of.ben_alone"]),
        (eve, []),
    ):
        async with services.tenancy.acting_as(one.caller) as tx:
            assert [row["purpose"] for row in await tx.all(everything)] == seen


async def test_what_is_listed_says_who_what_for_what_it_took_and_how_it_ended(
    ask: Ask, model: ModelServer, ana: Person
) -> None:
    await ask(ana.caller)
    model.will(Fails(404))
    with pytest.raises(ModelFailed):
        await ask(ana.caller, purpose="rules.extract")

    failed, good = await listed(ana)
    assert (failed["outcome"], failed["purpose"], failed["input_tokens"]) == ("failed", "rules.extract", None)
    assert failed["error"].startswith("The model's server knows no claude-haiku-5-5")
    assert (good["user_id"], good["outcome"], good["error"]) == (str(ana.id), "ok", None)
    assert (good["input_tokens"], good["output_tokens"], good["cost_usd"]) == (100, 20, 0.00002)
    assert [call["id"] for call in await listed(ana, outcome="failed")] == [failed["id"]]
    assert [call["id"] for call in await listed(ana, purpose="memory.extract")] == [good["id"]]


async def test_calls_are_listed_in_pages(ask: Ask, ana: Person, ben: Person) -> None:
    for _ in range(3):
        await ask(ana.caller)
    first = (await ana.http.get("/api/model/calls", params={"limit": 2})).json()
    where = {"limit": 2, "cursor": first["nextCursor"]}
    second = (await ana.http.get("/api/model/calls", params=where)).json()
    assert (len(first["data"]), len(second["data"]), "nextCursor" in second) == (2, 1, False)
    assert len({call["id"] for call in first["data"] + second["data"]}) == 3
    assert_problem(await ben.http.get("/api/model/calls", params=where), 422, "invalid_cursor")
    other = {**where, "outcome": "ok"}
    assert_problem(await ana.http.get("/api/model/calls", params=other), 422, "invalid_cursor")


@pytest.mark.parametrize("options", [{"model_daily_tokens": 1_000_000}])
async def test_the_model_and_todays_use_of_it_are_told(ask: Ask, ana: Person, ben: Person, sql: Sql) -> None:
    await ask(ana.caller)
    await ask(ana.caller)
    await sql("update model_calls set outcome = 'failed' where id = (select id from model_calls limit 1)")
    told = (await ana.http.get("/api/model")).json()
    today = told.pop("today")
    assert told == {"configured": True, "name": "anthropic/claude-haiku-5-5", "daily_tokens": 1_000_000}
    assert today["cost_usd"] == pytest.approx(0.00004)
    assert (today["calls"], today["failed"], today["budget_tokens"]) == (2, 1, 240)
    assert (await ben.http.get("/api/model")).json()["today"]["calls"] == 0


async def test_who_asks_is_found_by_the_database(
    services: Services, ask: Ask, sql: Sql, ana: Person, admin: Person
) -> None:
    of_key = Caller.by_key(services.secret.digest(ana.key))
    await ask(of_key)
    await ask(admin.caller.about(ana.id))
    assert [(row["user_id"], row["acted_by"]) for row in await ledger(sql)] == [
        (ana.id, None),
        (ana.id, admin.id),
    ]
    with pytest.raises(NotFound):
        await ask(ana.caller.about(admin.id))
    with pytest.raises(NotSignedIn):
        await ask(Caller.by_key(b"nobody's"))
    with pytest.raises(NotAllowed):
        await ask(of_key.needing("admin"))
    assert len(await ledger(sql)) == 2


async def test_nobody_asks_on_the_account_of_a_workspace_that_is_not_theirs(
    ask: Ask, sql: Sql, model: ModelServer, ana: Person, ben: Person
) -> None:
    workspace = await shared_by(sql, owner=ana)
    for caller, wanted in ((ben.caller, workspace), (ana.caller, uuid4()), (SERVICE, uuid4())):
        with pytest.raises(NotFound):
            await ask(caller, workspace=wanted)
    assert model.asked == []
    assert await ledger(sql) == []


async def test_who_is_gone_leaves_figures_and_no_name(ask: Ask, sql: Sql, ana: Person, ben: Person) -> None:
    workspace = await shared_by(sql, owner=ana, member=ben)
    await ask(ben.caller, workspace=workspace)
    await sql("select private.remove_user(%s)", ben.id)
    await sql("delete from workspaces where id = %s", workspace)
    [row] = await ledger(sql)
    assert (row["user_id"], row["workspace_id"], row["input_tokens"]) == (None, None, 100)


async def test_what_was_cut_short_is_marked_and_what_is_old_is_forgotten(
    services: Services, ask: Ask, sql: Sql
) -> None:
    for age, outcome in (
        ("2 hours", "running"),
        ("1 minute", "running"),
        ("91 days", "ok"),
        ("89 days", "ok"),
    ):
        await ask()
        await sql(
            "update model_calls set outcome = %s, started_at = now() - %s::interval"
            " where id = (select id from model_calls order by started_at desc limit 1)",
            *(outcome, age),
        )
    assert await services.llm.purge() == 1
    ends = {row["outcome"]: row["error"] for row in await ledger(sql)}
    assert ends == {"ok": None, "lost": "The server ended before the model answered.", "running": None}
    # What was set aside for it still counts: it may have been answered.
    [lost] = [row for row in await ledger(sql) if row["outcome"] == "lost"]
    assert lost["budget_tokens"] == 120


async def test_forgetting_is_part_of_the_servers_own(services: Services, ask: Ask, sql: Sql) -> None:
    await ask()
    await sql("update model_calls set started_at = now() - %s::interval", timedelta(days=91))
    await services.jobs.tasks["retention"].run(_Unwatched())  # type: ignore[arg-type]
    assert await ledger(sql) == []


class _Unwatched:
    """A job whose progress nobody follows."""

    async def progress(self, done: int, total: int) -> None:
        pass
