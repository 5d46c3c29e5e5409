"""What was said is stored as it was said, and a repeated request adds nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.engine.models import Entities, Message, NoEntity, TextTooLong, UnknownMemory, Where
from recollect.engine.service import Engine
from recollect.engine.store import queries
from recollect.errors import InvalidInput
from tests.engine.conftest import Rememberer
from tests.engine.vectors import DrawnVectors

pytestmark = pytest.mark.anyio


async def test_turns_are_stored_one_by_one_as_they_were_said(somebody: Rememberer) -> None:
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    added = await somebody.add(
        Message(role="user", content="I adopted a  cat!", name="Ana", occurred_at=moment),
        Message(role="assistant", content="What is its name?"),
        run="r1",
        metadata={"source": "chat"},
        categories=["pets"],
    )
    assert [change.event for change in added.results] == ["ADD", "ADD"]
    second, first = await somebody.all()
    assert (first.text, first.role, first.speaker, first.occurred_at) == (
        "I adopted a  cat!",
        "user",
        "Ana",
        moment,
    )
    assert (second.text, second.role, second.run) == ("What is its name?", "assistant", "r1")
    assert first.metadata == {"source": "chat"}
    assert first.categories == ["pets"]
    assert first.kind == "turn"


async def test_a_repeated_request_adds_nothing_and_names_what_is_there(somebody: Rememberer) -> None:
    said = [Message(content="ok"), Message(content="ok")]
    first = await somebody.add(*said, run="r1")
    again = await somebody.add(*said, run="r1")
    assert len({change.id for change in first.results}) == 2
    assert [change.id for change in again.results] == [change.id for change in first.results]
    assert {change.event for change in again.results} == {"NONE"}
    assert len(await somebody.all()) == 2


async def test_the_same_words_in_another_run_are_another_memory(somebody: Rememberer) -> None:
    await somebody.add("ok", run="r1")
    await somebody.add("ok", run="r2")
    await somebody.add("ok", user="ben", run="r1")
    assert len(await somebody.all(None)) == 3


async def test_a_request_sent_many_times_at_once_is_stored_once(somebody: Rememberer) -> None:
    added = await asyncio.gather(*(somebody.add("one", "two", "three", run="r1") for _ in range(8)))
    assert len({tuple(change.id for change in each.results) for each in added}) == 1
    assert len(await somebody.all()) == 3


async def _places(services: Services) -> list[int]:
    async with services.tenancy.acting_as(SERVICE) as tx:
        rows = await tx.all(queries.without_vectors, {"after": "0" * 32, "model": "none", "batch": 1_000})
        memories = [await tx.one(queries.get_memory, {"id": row["id"]}) for row in rows]
    return sorted(memory["position"] for memory in memories)


@pytest.mark.parametrize("at_once", [True, False])
async def test_turns_of_one_run_are_neighbours_however_they_come(
    somebody: Rememberer, services: Services, at_once: bool
) -> None:
    said = [f"turn number {number}" for number in range(5)]
    for part in [said] if at_once else [[each] for each in said]:
        await somebody.add(*part, run="r1")
    await somebody.add(*(said if at_once else said[-1:]), run="r1")  # a repetition leaves no hole
    await somebody.add("the sixth", run="r1")
    assert await _places(services) == [1, 2, 3, 4, 5, 6]


async def test_a_turn_is_found_by_the_words_of_its_neighbour(somebody: Rememberer) -> None:
    await somebody.add("Which instrument does Melanie play?", run="r1")
    await somebody.add("The violin, since she was ten.", run="r1")
    for number in range(30):
        await somebody.add(f"Something else entirely, number {number}", run=f"other {number}")
    found = await somebody.search("instrument Melanie", limit=2)
    assert [memory.text for memory in found] == [
        "Which instrument does Melanie play?",
        "The violin, since she was ten.",
    ]


@pytest.mark.parametrize(
    ("said", "user", "error"),
    [
        (["hello"], None, NoEntity),
        (["hello"], "\N{GRINNING FACE}" * 400, InvalidInput),
        (["x" * 50_001], "ana", TextTooLong),
        (["", "   "], "ana", InvalidInput),
        (["nul \x00 inside"], "ana", InvalidInput),
        (["ok", "x" * 1_000_000], "ana", TextTooLong),
    ],
)
async def test_what_cannot_be_stored_is_refused_whole(
    somebody: Rememberer, said: list[str], user: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await somebody.add(*said, user=user)
    assert await somebody.all(None) == []


async def test_every_change_is_a_version_with_who_and_why(somebody: Rememberer) -> None:
    [change] = (await somebody.add("I live in Lima")).results
    engine = somebody.services.engine
    await somebody.do(lambda tx: engine.update(tx, change.id, text="I live in Cusco", reason="moved"))
    await somebody.do(lambda tx: engine.feedback(tx, change.id, "POSITIVE", "true"))
    await somebody.do(lambda tx: engine.delete(tx, change.id, reason="asked to"))
    history = await somebody.do(lambda tx: engine.history(tx, change.id))
    assert [(each.event, each.text, each.previous, each.reason) for each in history] == [
        ("ADD", "I live in Lima", None, None),
        ("UPDATE", "I live in Cusco", "I live in Lima", "moved"),
        ("FEEDBACK", "I live in Cusco", "I live in Cusco", None),
        ("DELETE", "I live in Cusco", "I live in Cusco", "asked to"),
    ]
    assert {each.actor for each in history} == {somebody.id}


async def test_what_was_changed_is_found_by_its_new_words_only(somebody: Rememberer) -> None:
    [change] = (await somebody.add("I live in Lima")).results
    engine = somebody.services.engine
    await somebody.do(lambda tx: engine.update(tx, change.id, text="My home is Reykjavik"))
    found = await somebody.search("Reykjavik", explain=True)
    assert found[0].id == change.id
    assert found[0].breakdown
    assert found[0].breakdown.lexical > 0.3
    [old] = await somebody.search("Lima", explain=True)
    assert old.breakdown
    assert old.breakdown.lexical == 0


async def test_a_deleted_memory_is_gone_and_can_be_restored(somebody: Rememberer) -> None:
    [change] = (await somebody.add("I live in Lima")).results
    engine = somebody.services.engine
    await somebody.do(lambda tx: engine.delete(tx, change.id))
    assert await somebody.all() == []
    assert await somebody.search("Lima") == []
    for work in (engine.get, engine.delete):
        with pytest.raises(UnknownMemory):
            await somebody.do(lambda tx, work=work: work(tx, change.id))  # type: ignore[misc]
    await somebody.do(lambda tx: engine.restore(tx, change.id))
    assert await somebody.texts() == ["I live in Lima"]


async def test_what_was_deleted_can_be_said_again(somebody: Rememberer) -> None:
    await somebody.add("I live in Lima")
    engine = somebody.services.engine
    assert await somebody.do(lambda tx: engine.delete_all(tx, Where(Entities(user="ana")))) == 1
    assert [change.event for change in (await somebody.add("I live in Lima")).results] == ["ADD"]


async def test_who_is_deleted_takes_all_of_their_memories_along(somebody: Rememberer) -> None:
    await somebody.add("I like tea")
    for text in ("I live in Lisbon.", "I live in Porto."):
        await somebody.add(text, infer=True)
    async with await psycopg.AsyncConnection.connect(somebody.services.database.admin) as connection:
        await connection.execute("delete from auth.users where id = %s", [somebody.id])
        for table in ("memories", "memory_vectors", "memory_versions", "memory_streams"):
            cursor = await connection.execute(f"select count(*) from public.{table}".encode())
            assert await cursor.fetchone() == (0,), table


async def test_delete_all_reaches_what_is_expired_and_nobody_else(somebody: Rememberer) -> None:
    await somebody.add("old", expires_at=datetime.now(UTC) - timedelta(days=1))
    await somebody.add("new")
    await somebody.add("of ben", user="ben")
    engine = somebody.services.engine
    assert await somebody.texts() == ["new"]
    assert await somebody.texts(expired=True) == ["new", "old"]
    assert await somebody.do(lambda tx: engine.delete_all(tx, Where(Entities(user="ana")))) == 2
    assert await somebody.texts(None) == ["of ben"]


def native_engine(services: Services, *, keep_deleted_days: int) -> Engine:
    return Engine(DrawnVectors(), services.llm, meaning_weighs=0.5, keep_deleted_days=keep_deleted_days)


async def test_retention_forgets_tombstones_for_good(somebody: Rememberer, services: Services) -> None:
    [change] = (await somebody.add("secret")).results
    engine = native_engine(services, keep_deleted_days=30)
    await somebody.do(lambda tx: engine.delete(tx, change.id))
    assert await engine.purge(services.tenancy) == 0
    assert await native_engine(services, keep_deleted_days=0).purge(services.tenancy) == 1
    with pytest.raises(UnknownMemory):
        await somebody.do(lambda tx: engine.history(tx, change.id))


async def test_an_addition_tells_each_memory_as_an_event(somebody: Rememberer, database_url: str) -> None:
    added = await somebody.add("one secret", "another secret")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute(
            "select type, subject, user_id, data::text from events.log where type like 'memory.%'"
        )
        rows = await cursor.fetchall()
    assert {subject for _, subject, *_ in rows} == {f"memory/{change.id}" for change in added.results}
    assert {(kind, user) for kind, _, user, _ in rows} == {("memory.added", somebody.id)}
    assert not any("secret" in data for *_, data in rows)
