"""What every engine does, whoever keeps the memories."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from recollect.access.membership_models import NamedWorkspace, NewWorkspaceMember
from recollect.bootstrap import Services
from recollect.engine.filters import InvalidFilter
from recollect.engine.mem0.models import NotSupported
from recollect.engine.models import (
    Entities,
    Memory,
    Message,
    NoEntity,
    TextTooLong,
    UnknownMemory,
    Update,
    Wanted,
    Where,
)
from recollect.errors import InvalidInput, NotFound
from tests.engine.conformance.conftest import Door, about, passing, texts_of

pytestmark = pytest.mark.anyio

LATE = datetime.now(UTC) + timedelta(days=3)
PAST = datetime(2026, 1, 1, 12, 30, 15, 250_000, UTC)


# Adding and reading


async def test_what_is_added_can_be_read_as_it_was_said(ana: Door) -> None:
    whole = Entities(user="kim", agent="bot", app="shop", run="r1")
    added = await ana.added(
        "I like tea.",
        of=whole,
        metadata={"source": "mail", "n": 3, "deep": {"a": [1]}},
        occurred_at=PAST,
        expires_at=LATE,
        categories=["food"],
    )
    memory = await ana.got(added)
    assert memory.text == "I like tea."
    assert (memory.user, memory.agent, memory.app, memory.run) == ("kim", "bot", "shop", "r1")
    assert memory.metadata == {"source": "mail", "n": 3, "deep": {"a": [1]}}
    assert (memory.kind, memory.role) == ("turn", "user")
    assert memory.categories == ["food"]
    assert (memory.occurred_at, memory.expires_at) == (PAST, LATE)
    assert memory.created_at <= memory.updated_at


async def test_each_turn_is_a_memory(ana: Door) -> None:
    added = await ana.add("Hello.", "I like tea.", "And cake.")
    assert [change.event for change in added.results] == ["ADD"] * 3
    assert await ana.texts() == {"Hello.", "I like tea.", "And cake."}


async def test_words_said_twice_in_a_conversation_are_two_turns(ana: Door) -> None:
    added = await ana.add("I like tea.", "I like tea.")
    assert len({change.id for change in added.results}) == len(await ana.listed()) == 2


async def test_what_a_system_says_is_kept_too_with_who_said_it(ana: Door) -> None:
    said = [Message(role="system", content="Be brief."), Message(role="user", content="Yes.", name="Kim")]
    added = await ana.said(said)
    kept = [await ana.got(change.id) for change in added.results]
    assert [(memory.role, memory.speaker) for memory in kept] == [("system", None), ("user", "Kim")]


async def test_the_same_request_again_adds_nothing(ana: Door) -> None:
    first = await ana.add("I like tea.", "And cake.")
    again = await ana.add("I like tea.", "And cake.")
    assert [change.event for change in again.results] == ["NONE", "NONE"]
    assert [change.id for change in again.results] == [change.id for change in first.results]
    assert len(await ana.listed()) == 2


async def test_facts_are_distilled_and_each_stands_once(ana: Door) -> None:
    added = await ana.add(
        "I live in Berlin. I like tea. Blorp the zif?! Xyzzy.", infer=True, metadata={"a": 1}
    )
    assert {change.text for change in added.results} >= {"I live in Berlin.", "I like tea."}
    assert added.made_by == "rules"
    memories = [await ana.got(change.id) for change in added.results]
    assert {(memory.kind, memory.user, memory.made_by) for memory in memories} == {("fact", "kim", "rules")}
    again = await ana.add("i like tea!", infer=True, of=Entities(user="kim", run="another"))
    assert [change.event for change in again.results] == ["NONE"]
    assert again.results[0].id in {memory.id for memory in memories}


async def test_what_is_not_understood_is_told(ana: Door) -> None:
    added = await ana.add("The quarterly figures were revised upwards.", infer=True)
    assert added.results == []
    assert added.not_understood


async def test_somebody_has_to_be_named(ana: Door) -> None:
    with pytest.raises(NoEntity):
        await ana.add("I like tea.", of=Entities())
    assert await ana.listed() == []


async def test_names_may_hold_spaces_and_signs(ana: Door) -> None:
    odd = "Kim & Söhne / 100% @home"
    added = await ana.added("We sell tea.", of=Entities(user=odd))
    assert (await ana.got(added)).user == odd
    assert texts_of(await ana.listed(about(user=odd))) == ["We sell tea."]


@pytest.mark.parametrize("text", ["x" * 50_001, " "])
async def test_a_text_that_cannot_be_kept_is_refused(ana: Door, text: str) -> None:
    with pytest.raises(TextTooLong if len(text) > 1 else InvalidInput):
        await ana.add(text)
    assert await ana.listed() == []


async def test_metadata_cannot_change_whose_a_memory_is(ana: Door, ben: Door) -> None:
    forged = {
        name: str(ben.id)
        for name in ("tenant", "owner_id", "user_id", "recollect_tenant", "data", "created_at", "of")
    }
    added = await ana.added("Mine.", metadata=forged)
    await ana.call("update", added, metadata={**forged, "more": 1})
    assert await ben.listed() == []
    with pytest.raises(UnknownMemory):
        await ben.got(added)
    memory = await ana.got(added)
    assert (memory.text, memory.metadata["more"]) == ("Mine.", 1)


# Finding


async def test_a_search_finds_what_was_meant_first(ana: Door) -> None:
    for text in ("I drink green tea every morning.", "My car is red.", "The office closes at six."):
        await ana.add(text)
    found = await ana.search("green tea in the morning")
    assert found[0].text == "I drink green tea every morning."
    assert all(0 <= memory.score <= 1 for memory in found)
    assert [memory.score for memory in found] == sorted((memory.score for memory in found), reverse=True)


async def test_a_search_is_limited_and_can_be_explained(ana: Door) -> None:
    for number in range(5):
        await ana.add(f"Tea number {number}.")
    found = await ana.search("tea", limit=2, explain=True)
    assert len(found) == 2
    assert found[0].breakdown is not None
    assert found[0].breakdown.meaning is not None


@pytest.mark.parametrize("query", ["", "  ", "x" * 10_001])
async def test_a_query_says_something_and_not_too_much(ana: Door, query: str) -> None:
    with pytest.raises(InvalidInput):
        await ana.search(query)


async def test_entities_narrow_what_is_found(ana: Door) -> None:
    await ana.add("Kim likes tea.", of=Entities(user="kim"))
    await ana.add("Lee likes tea.", of=Entities(user="lee"))
    await ana.add("The bot likes tea.", of=Entities(agent="bot", run="r1"))
    assert await ana.texts(about(user="kim")) == {"Kim likes tea."}
    assert await ana.texts(about(agent="bot", run="r1")) == {"The bot likes tea."}
    assert await ana.texts(about(agent="bot", run="r2")) == set()
    assert len(await ana.texts()) == 3
    assert texts_of(await ana.search("tea", about(user="lee"))) == ["Lee likes tea."]


async def test_filters_narrow_what_is_found(ana: Door) -> None:
    await ana.add("Red tea.", metadata={"color": "red", "price": 5})
    await ana.add("Blue tea.", metadata={"color": "blue", "price": 10})
    await ana.add("Plain tea.", of=Entities(user="lee"))
    for where, texts in (
        (passing(metadata={"color": "red"}), {"Red tea."}),
        (passing(price={"gt": 7}), {"Blue tea."}),
        (passing(color={"in": ["red", "blue"]}), {"Red tea.", "Blue tea."}),
        (passing(color={"ne": "red"}), {"Blue tea.", "Plain tea."}),
        (passing(NOT=[{"color": "*"}]), {"Plain tea."}),
        (passing(OR=[{"color": "red"}, {"user_id": "lee"}]), {"Red tea.", "Plain tea."}),
        (passing(AND=[{"user_id": {"in": ["kim"]}}, {"price": {"lte": 5}}]), {"Red tea."}),
    ):
        assert await ana.texts(where) == texts, where.filters
        assert set(texts_of(await ana.search("tea", where))) == texts, where.filters


@pytest.mark.parametrize("filters", [{"color": {"like": "r"}}, {"AND": []}, {"AND": [{"AND": "x"}]}])
async def test_a_filter_that_means_nothing_is_refused(ana: Door, filters: dict[str, object]) -> None:
    for asking in (ana.listed(Where(filters=filters)), ana.search("tea", Where(filters=filters))):
        with pytest.raises(InvalidFilter):
            await asking


async def test_what_has_expired_is_found_only_on_request(ana: Door) -> None:
    await ana.add("Old news.", expires_at=datetime.now(UTC) - timedelta(seconds=2))
    await ana.add("Good news.", expires_at=LATE)
    assert await ana.texts() == {"Good news."}
    assert await ana.texts(Where(expired=True)) == {"Good news.", "Old news."}
    assert texts_of(await ana.search("news")) == ["Good news."]
    assert len(await ana.search("news", Where(expired=True))) == 2


async def test_lists_are_told_page_by_page_newest_first(ana: Door) -> None:
    ids = [await ana.added(f"Fact {number}.") for number in range(5)]
    told: list[UUID] = []
    after = None
    while page := await ana.listed(after=after, limit=2):
        assert len(page) <= 2
        told += [memory.id for memory in page]
        after = (page[-1].created_at, page[-1].id)
    assert told == ids[::-1]
    assert await ana.call("count", Where()) == 5


async def test_a_context_keeps_to_its_budget(ana: Door) -> None:
    for number in range(10):
        await ana.add(f"Tea number {number} is very good indeed.")
    context = await ana.call("context", Wanted("tea"), budget_tokens=40)
    assert 0 < context.tokens <= 40 < context.whole
    assert context.ids


# Changing


async def test_a_change_keeps_the_rest_and_what_was(ana: Door) -> None:
    added = await ana.added("I like tea.", metadata={"source": "mail"}, expires_at=LATE, occurred_at=PAST)
    memory = await ana.call("update", added, text="I like coffee.", reason="changed my mind")
    assert (memory.text, memory.metadata) == ("I like coffee.", {"source": "mail"})
    assert (memory.user, memory.expires_at, memory.occurred_at) == ("kim", LATE, PAST)
    assert texts_of(await ana.search("coffee")) == ["I like coffee."]
    versions = await ana.call("history", added)
    assert [(version.event, version.previous, version.text) for version in versions] == [
        ("ADD", None, "I like tea."),
        ("UPDATE", "I like tea.", "I like coffee."),
    ]


async def test_metadata_is_replaced_and_expiry_set_and_cleared(ana: Door) -> None:
    added = await ana.added("I like tea.", metadata={"a": 1, "b": 2})
    memory = await ana.call("update", added, metadata={"a": 3}, expires_at=LATE)
    assert (memory.metadata, memory.expires_at, memory.text) == ({"a": 3}, LATE, "I like tea.")
    memory = await ana.call("update", added, expires_at=None)
    assert (memory.metadata, memory.expires_at) == ({"a": 3}, None)


async def test_a_change_changes_something(ana: Door) -> None:
    added = await ana.added("I like tea.")
    for nothing in ({}, {"text": "  "}):
        with pytest.raises(InvalidInput):
            await ana.call("update", added, **nothing)


async def test_several_are_changed_only_if_all_are_there(ana: Door) -> None:
    one, two = await ana.added("One."), await ana.added("Two.")
    with pytest.raises(UnknownMemory):
        await ana.call("update_many", [Update(one, "1."), Update(uuid4(), "2.")])
    with pytest.raises(UnknownMemory):
        await ana.call("delete_many", [one, uuid4()])
    assert await ana.texts() == {"One.", "Two."}
    await ana.call("update_many", [Update(one, "1."), Update(two, "2.")])
    assert await ana.texts() == {"1.", "2."}
    assert await ana.call("delete_many", [one, two]) == 2
    assert await ana.texts() == set()


async def test_what_is_deleted_is_found_no_more(ana: Door) -> None:
    gone, kept = await ana.added("I like tea."), await ana.added("I like cake.")
    await ana.call("delete", gone)
    assert await ana.texts() == {"I like cake."}
    assert [memory.id for memory in await ana.search("I like tea")] == [kept]
    for verb in ("get", "delete"):
        with pytest.raises(UnknownMemory):
            await ana.call(verb, gone)
    with pytest.raises(UnknownMemory):
        await ana.call("update", gone, text="Back?")


async def test_deleted_words_can_be_said_again(ana: Door) -> None:
    gone = await ana.added("I like tea.")
    await ana.call("delete", gone)
    assert await ana.added("I like tea.") != gone


async def test_all_of_somebody_can_be_deleted_and_no_more(ana: Door) -> None:
    await ana.add("One.", expires_at=datetime.now(UTC) - timedelta(seconds=2))
    await ana.add("Two.", metadata={"keep": "no"})
    await ana.add("Three.", of=Entities(user="lee"))
    assert await ana.call("delete_all", about(user="kim")) == 2
    assert await ana.texts(Where(expired=True)) == {"Three."}
    assert await ana.call("delete_all", passing(metadata={"keep": "no"})) == 0
    assert await ana.call("delete_all", Where()) == 1


async def test_feedback_is_kept_with_the_memory_it_is_about(ana: Door) -> None:
    added = await ana.added("I like tea.")
    memory = await ana.call("feedback", added, "NEGATIVE", "It was coffee.")
    assert (memory.feedback, memory.feedback_reason) == ("NEGATIVE", "It was coffee.")
    assert (await ana.got(added)).text == "I like tea."


async def test_whom_memories_are_about_is_told(ana: Door, ben: Door) -> None:
    await ana.add("One.", "Two.", of=Entities(user="kim", run="r1"))
    await ana.add("Three.", of=Entities(user="lee"))
    await ben.add("Four.", of=Entities(user="max"))
    entities = await ana.call("entities")
    assert [(entity.type, entity.name, entity.memories) for entity in entities] == [
        ("run", "r1", 2),
        ("user", "kim", 2),
        ("user", "lee", 1),
    ]
    [last] = await ana.call("entities", after=("user", "kim"))
    assert last.name == "lee"


async def test_a_deletion_can_be_taken_back_where_the_engine_can(ana: Door, mode: str) -> None:
    gone = await ana.added("I like tea.")
    await ana.call("delete", gone, reason="by mistake")
    if mode == "self-hosted":
        assert (await ana.call("restore", gone)).text == "I like tea."
    else:
        with pytest.raises(NotSupported):
            await ana.call("restore", gone)


async def test_recency_and_importance_count_where_the_engine_can(ana: Door, mode: str) -> None:
    await ana.add("I like tea.")
    if mode == "self-hosted":
        assert await ana.search("tea", recency=0.5)
    else:
        with pytest.raises(NotSupported):
            await ana.search("tea", recency=0.5)


async def test_the_history_of_what_is_deleted_is_told_where_it_is_kept(ana: Door, mode: str) -> None:
    gone = await ana.added("I like tea.")
    await ana.call("delete", gone)
    if mode == "platform":
        with pytest.raises(UnknownMemory):
            await ana.call("history", gone)
    else:
        assert [version.event for version in await ana.call("history", gone)] == ["ADD", "DELETE"]


# Tenants


@pytest.mark.parametrize("verb", ["get", "delete", "history"])
async def test_another_tenants_memory_is_unknown(ana: Door, ben: Door, verb: str) -> None:
    hers = await ana.added("I like tea.")
    for memory_id in (hers, uuid4()):
        with pytest.raises(UnknownMemory):
            await ben.call(verb, memory_id)
    assert (await ana.got(hers)).text == "I like tea."


async def test_another_tenants_memory_cannot_be_changed(ana: Door, ben: Door) -> None:
    hers = await ana.added("I like tea.")
    with pytest.raises(UnknownMemory):
        await ben.call("update", hers, text="I hate tea.")
    with pytest.raises(UnknownMemory):
        await ben.call("feedback", hers, "NEGATIVE")
    assert await ben.call("delete_all", about(user="kim")) == 0
    assert (await ana.got(hers)).text == "I like tea."


async def test_two_tenants_may_say_the_same_of_the_same(ana: Door, ben: Door) -> None:
    hers = await ana.added("I like tea.")
    his = await ben.added("I like tea.")
    assert hers != his
    for door, memory_id in ((ana, hers), (ben, his)):
        assert [memory.id for memory in await door.listed()] == [memory_id]
        assert [memory.id for memory in await door.search("tea", about(user="kim"))] == [memory_id]
        assert [memory.id for memory in await door.listed(passing(user_id="*"))] == [memory_id]
        assert await door.call("count", Where()) == 1
    assert await ben.call("delete_all", Where()) == 1
    assert await ana.texts() == {"I like tea."}


async def test_a_workspace_is_for_its_members_by_their_roles(
    services: Services, ana: Door, ben: Door
) -> None:
    async with ana.tx() as tx:
        workspace = (await services.membership.create_workspace(tx, NamedWorkspace(name="Team"))).id
    shared = Where(workspace=workspace)
    added = await ana.added("We like tea.", workspace=workspace)
    assert (await ana.got(added)).workspace == workspace
    assert await ana.texts() == set()
    assert await ana.texts(shared) == {"We like tea."}

    for asking in (ben.listed(shared), ben.search("tea", shared)):
        assert await _seen_by_a_stranger(asking) == []
    with pytest.raises(UnknownMemory):
        await ben.got(added)
    with pytest.raises(NotFound):
        await ben.add("Me too.", workspace=workspace)

    async with ana.tx() as tx:
        viewer = NewWorkspaceMember(user_id=ben.id, role="viewer")
        await services.membership.workspace_members.add(tx, workspace, viewer)
    assert await ben.texts(shared) == {"We like tea."}
    assert (await ben.got(added)).text == "We like tea."
    with pytest.raises(NotFound):
        await ben.add("Me too.", workspace=workspace)
    with pytest.raises(UnknownMemory):
        await ben.call("delete", added)
    assert await ana.texts(shared) == {"We like tea."}


async def _seen_by_a_stranger(asking: Awaitable[Sequence[Memory]]) -> Sequence[Memory]:
    """To find nothing and to be told that there is nothing are the same to them."""
    try:
        return await asking
    except NotFound:
        return []
