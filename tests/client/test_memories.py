"""Memories through the Python client, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from recollect.client import Memories, Recollect
from recollect.errors import InvalidInput, Misconfigured, NotFound, RecollectError
from tests.api.remembering import link
from tests.client.relay import Relay, answer, relaying
from tests.conftest import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memories(address: str, ana: Person) -> AsyncIterator[Memories]:
    async with Recollect(address, key=ana.key) as client:
        yield client.memories


@pytest.fixture
async def relay(address: str) -> AsyncIterator[Relay]:
    async with relaying(address) as found:
        yield found


@pytest.fixture
async def relayed(relay: Relay, ana: Person) -> AsyncIterator[Memories]:
    async with Recollect(relay.address, key=ana.key) as client:
        yield client.memories


async def test_what_is_added_is_found_and_makes_a_context(memories: Memories) -> None:
    said = datetime(2026, 3, 1, 12, tzinfo=UTC)
    added = await memories.add(
        [
            {"role": "user", "name": "Mia", "content": "My bees live on the roof."},
            {"role": "assistant", "content": "How many hives are there?"},
        ],
        user="mia",
        run="chat",
        infer=False,
        metadata={"source": "chat"},
        occurred_at=said,
    )
    assert [change.event for change in added.results] == ["ADD", "ADD"]
    [best, *_] = await memories.search("bees", user="mia", explain=True, filters={"source": "chat"})
    assert (best.text, best.speaker, best.occurred_at) == ("My bees live on the roof.", "Mia", said)
    assert best.breakdown is not None
    assert best.breakdown.lexical > 0
    context = await memories.context("bees", user="mia", budget_tokens=50)
    assert "Mia: My bees live on the roof." in context.text
    assert context.tokens <= 50
    assert [(each.type, each.name, each.memories) for each in await memories.entities()] == [
        ("run", "chat", 2),
        ("user", "mia", 2),
    ]


async def test_a_list_is_whole_however_long_or_cut_where_wanted(memories: Memories) -> None:
    for start in (0, 1_000):
        turns = [{"content": f"turn {n}"} for n in range(start, start + 1_000)]
        await memories.add(turns, user="mia", infer=False, metadata={"start": start})
    await memories.add("one more", user="mia", infer=False)

    whole = await memories.list(user="mia")
    some = await memories.list(filters={"start": 0}, limit=3, expired=True)

    assert len({memory.id for memory in whole}) == len(whole) == 2_001
    assert [memory.metadata["start"] for memory in some] == [0, 0, 0]
    assert whole[0].text == "one more"


async def test_a_memory_is_changed_judged_deleted_and_restored(memories: Memories) -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    added = await memories.add("Mia lives in Ulm.", user="mia", infer=False, expires_at=until)
    memory = added.results[0].id

    changed = await memories.update(memory, text="Mia lives in Bonn.", reason="She moved.")
    assert (changed.text, changed.expires_at) == ("Mia lives in Bonn.", until)
    assert (await memories.update(memory, expires_at=None)).expires_at is None
    assert (await memories.update(memory, metadata={"a": 1})).metadata == {"a": 1}
    judged = await memories.feedback(memory, "POSITIVE", reason="So it is.")
    assert (judged.feedback, judged.feedback_reason) == ("POSITIVE", "So it is.")
    assert (await memories.feedback(memory, None)).feedback is None
    await memories.delete(memory, reason="Asked to.")
    with pytest.raises(NotFound) as gone:
        await memories.get(memory)
    assert gone.value.code == "unknown_memory"
    assert (await memories.restore(memory)).text == "Mia lives in Bonn."
    assert (await memories.get(str(memory))).id == memory
    assert [(version.event, version.reason) for version in await memories.history(memory)] == [
        ("ADD", None),
        ("UPDATE", "She moved."),
        ("UPDATE", None),
        ("UPDATE", None),
        ("FEEDBACK", None),
        ("FEEDBACK", None),
        ("DELETE", "Asked to."),
        ("RESTORE", None),
    ]


async def test_links_lead_to_what_says_nearly_the_same(memories: Memories, database_url: str) -> None:
    added = await memories.add([{"content": "tea"}, {"content": "green tea"}], user="mia", infer=False)
    first, second = (change.id for change in added.results)
    await link(database_url, str(second), str(first), 0.9)

    assert [each.memory_id for each in await memories.links(second)] == [first]


async def test_many_are_deleted_only_where_it_is_said_whose(memories: Memories) -> None:
    for user in ("mia", "tom", "eva"):
        await memories.add("said", user=user, infer=False)

    with pytest.raises(InvalidInput) as refusal:
        await memories.delete_all()
    assert refusal.value.code == "no_entity"
    assert await memories.delete_all(user="mia", reason="Asked to.") == 1
    assert {memory.user for memory in await memories.list()} == {"tom", "eva"}
    assert await memories.delete_all(everything=True) == 2


async def test_what_cannot_be_sent_or_found_is_told_before_anything_is_stored(memories: Memories) -> None:
    with pytest.raises(InvalidInput, match="memory_id"):
        await memories.get("nonsense")
    with pytest.raises(NotFound):
        await memories.update(uuid4(), text="x")
    with pytest.raises(RecollectError, match="NaN"):
        await memories.add("x", user="mia", metadata={"a": float("nan")})
    with pytest.raises(InvalidInput, match="JSON"):
        await memories.add("x", user="mia", metadata={"a": object()})
    with pytest.raises(InvalidInput, match="limit"):
        await memories.list(limit=0)
    with pytest.raises(InvalidInput, match="operator"):
        await memories.search("x", filters={"a": {"near": 1}})
    with pytest.raises(InvalidInput, match="colour"):
        await memories.search("x", colour="red")  # type: ignore[call-arg]  # what a typo does
    assert await memories.list() == []


async def test_a_lost_answer_neither_adds_twice_nor_hides_a_deletion(relay: Relay, relayed: Memories) -> None:
    relay.lost_answers = 1
    added = await relayed.add("once", user="mia", infer=False)
    assert [memory.text for memory in await relayed.list()] == ["once"]

    relay.lost_answers = 1
    await relayed.delete(added.results[0].id)
    assert await relayed.list() == []


async def test_what_a_model_failed_at_is_not_asked_again_and_again(relay: Relay, relayed: Memories) -> None:
    problem = b'{"type": "x", "title": "x", "status": 502, "detail": "It failed.", "code": "model_failed"}'
    relay.own_answers = [answer("502 Bad Gateway", problem, "content-type: application/problem+json")]

    with pytest.raises(RecollectError, match=r"It failed\."):
        await relayed.add("x", user="mia")
    assert len(relay.requests) == 1


async def test_an_answer_that_is_not_recollects_is_told(relay: Relay, relayed: Memories) -> None:
    relay.own_answers = [answer("200 OK", b"[]", "content-type: application/json")] * 2
    with pytest.raises(Misconfigured):
        await relayed.search("x")
    with pytest.raises(Misconfigured):
        await relayed.delete_all(user="mia")
