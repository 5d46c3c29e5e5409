"""Chats are kept once, for whoever said them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from recollect.access.membership_models import NamedProject
from recollect.access.roles import RoleTooLow
from recollect.db.tenancy import SERVICE
from recollect.errors import NotFound
from recollect.rules.histories.models import UnknownChat
from recollect.rules.histories.service import BATCH_TURNS
from tests.rules.histories.conftest import NOON, Person, chat

pytestmark = pytest.mark.anyio

SAID = ("Add a cart to the shop.", "Done.", "Always write a test first.", "I will.")


async def test_a_chat_is_kept_with_all_that_was_said(ana: Person) -> None:
    imported = await ana.add(chat(*SAID, title="A cart", author="Ana"))

    assert (imported.chats, imported.turns, imported.known_turns) == (1, 4, 0)
    [kept] = await ana.chats()
    assert [kept.id] == imported.ids
    assert (kept.source, kept.file, kept.session) == ("claude-code", "one.jsonl", "one")
    assert (kept.project, kept.title, kept.author, kept.turns) == ("/shop", "A cart", "Ana", 4)
    assert kept.started_at == NOON
    turns = await ana.turns(kept.id)
    assert tuple(turn.text for turn in turns) == SAID
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    assert turns[2].said_at == NOON + timedelta(minutes=2)
    assert turns[0].language == "english"


async def test_a_turn_knows_its_language_if_its_words_tell_it(ana: Person) -> None:
    said = [
        "Bitte nutze immer Tabs, und keine Leerzeichen.",
        "Okay.",
        "Nigdy nie zmieniaj tego pliku, ale zawsze uruchamiaj testy.",
        "Okay.",
        "请不要使用英文写注释",
        "Okay.",
        "src/shop/cart.py:31",
    ]
    [chat_id] = (await ana.add(chat(*said))).ids
    assert chat_id is not None

    languages = [turn.language for turn in await ana.turns(chat_id) if turn.role == "user"]

    assert languages == ["german", "polish", "chinese", None]


async def test_the_same_again_changes_nothing(ana: Person) -> None:
    first = await ana.add(chat(*SAID))
    [before] = await ana.chats()

    again = await ana.add(chat(*SAID, title="Named since"))

    assert (again.chats, again.turns, again.known_turns) == (0, 0, 4)
    assert again.ids == first.ids
    assert await ana.chats() == [before]


async def test_a_session_that_grew_adds_only_its_new_turns(ana: Person) -> None:
    first = await ana.add(chat(*SAID[:2]))
    grown = await ana.add(chat(*SAID))

    assert (grown.chats, grown.turns, grown.known_turns) == (1, 2, 2)
    assert grown.ids == first.ids
    assert await ana.texts(first.ids[0]) == list(enumerate(SAID))


@pytest.mark.parametrize("told", ["at once", "one after the other"])
async def test_what_a_resumed_session_repeats_is_known(ana: Person, told: str) -> None:
    original, resumed = chat(*SAID), chat(*SAID, "And the docs.", session="two")
    if told == "at once":
        imported = await ana.add(original, resumed)
    else:
        imported = await ana.add(original)
        imported.add(await ana.add(resumed))

    assert (imported.chats, imported.turns, imported.known_turns) == (2, 5, 4)
    assert await ana.texts(imported.ids[1]) == [(4, "And the docs.")]


async def test_a_resumed_session_without_times_is_known_after_its_first_turn(ana: Person) -> None:
    await ana.add(chat(*SAID, start=None))
    resumed = await ana.add(chat(*SAID, "And the docs.", session="two", start=None))
    assert (resumed.turns, resumed.known_turns) == (2, 3)


async def test_an_applications_sessions_may_begin_alike(ana: Person) -> None:
    said = ("Book a table.", "For when?", "Tomorrow, and always by the window.")
    monday, tuesday = (
        replace(chat(*words, session=session, start=None), format="api")
        for words, session in ((said, "monday"), ((*said, "Done."), "tuesday"))
    )
    await ana.add(monday)
    imported = await ana.add(tuesday)
    again = await ana.add(tuesday)
    assert (imported.turns, imported.known_turns, again.turns) == (4, 0, 0)


async def test_a_second_export_with_other_times_is_known_by_its_session(ana: Person) -> None:
    said = ("Fix the cart.", "Done.", "Run the tests.", "Done.", "Run the tests.", "Done.")
    later = NOON + timedelta(minutes=3)
    first, second, other = (
        replace(chat(*words, session=session, start=start), format="specstory")
        for words, session, start in (
            (said, "one", NOON),
            ((*said, "Thanks."), "one", later),
            (said, "two", later),
        )
    )
    assert (await ana.add(first)).turns == 6
    again = await ana.add(second)
    assert (again.turns, again.known_turns) == (1, 6)
    assert (await ana.add(other)).known_turns == 0


@pytest.mark.parametrize(("start", "later"), [(NOON, NOON + timedelta(days=1)), (None, None)])
async def test_whoever_says_the_same_again_elsewhere_has_said_it_twice(
    ana: Person, start: datetime | None, later: datetime | None
) -> None:
    await ana.add(chat("Fix the cart.", "Done.", "Use tabs.", start=start))
    again = await ana.add(chat("Fix the till.", "Done.", "Use tabs.", session="two", start=later))
    assert (again.turns, again.known_turns) == (3, 0)


async def test_a_session_with_nothing_of_its_own_is_not_kept(ana: Person) -> None:
    await ana.add(chat(*SAID))
    copied = await ana.add(chat(*SAID, session="two"))
    assert copied.ids == [None]
    assert len(await ana.chats()) == 1


async def test_what_comes_later_in_a_session_goes_after_what_is_there(ana: Person) -> None:
    first = await ana.add(chat("Fix the cart."))
    await ana.add(chat("Use tabs.", start=NOON + timedelta(hours=1)))
    assert await ana.texts(first.ids[0]) == [(0, "Fix the cart."), (1, "Use tabs.")]


async def test_a_session_told_twice_at_once_keeps_what_each_has(ana: Person) -> None:
    midway, whole = chat("Fix the cart.", "I am at"), chat("Fix the cart.", "Done.", "Use tabs.")
    imported = await ana.add(midway, whole, chat("Hi.", session="two", start=None), midway)
    assert (imported.turns, imported.known_turns) == (5, 3)
    assert await ana.texts(imported.ids[0]) == [
        (0, "Fix the cart."),
        (1, "I am at"),
        (2, "Done."),
        (3, "Use tabs."),
    ]


async def test_a_very_long_chat_comes_in_parts_and_is_one(ana: Person) -> None:
    words = [f"word {number}" for number in range(BATCH_TURNS + 10)]
    parts = chat(*words), chat("And more.", first=len(words), start=NOON + timedelta(days=1))

    imported = await ana.add(*parts)

    assert (imported.chats, imported.turns) == (1, len(words) + 1)
    [stored] = await ana.read()
    assert [turn.text for turn in stored.chat.turns] == [*words, "And more."]


async def test_two_imports_at_once_keep_everything_once(ana: Person) -> None:
    chats = [chat(*SAID, f"Ending {number}.") for number in range(4)]
    outcomes = await asyncio.gather(*(ana.add(each) for each in chats))

    assert sum(each.turns for each in outcomes) == len(SAID) + len(chats)
    [kept] = await ana.chats()
    assert [number for number, _ in await ana.texts(kept.id)] == list(range(len(SAID) + len(chats)))


async def test_a_plan_counts_as_if_what_it_planned_before_were_here(ana: Person) -> None:
    met: set[bytes] = set()
    for expected in ((1, 4, 0), (0, 0, 4)):
        plan = await ana.do(lambda tx: ana.histories.plan(tx, ana.id, [chat(*SAID)], met=met))
        assert (plan.chats, plan.turns, plan.known_turns) == expected
    assert await ana.chats() == []


async def test_others_see_nothing_of_it(ana: Person, ben: Person) -> None:
    [mine] = (await ana.add(chat(*SAID))).ids
    assert mine is not None

    assert await ben.chats() == []
    assert await ben.read() == []
    assert await ben.do(lambda tx: ben.histories.list(tx, ana.id)) == []
    assert await ben.turns(mine) == []
    with pytest.raises(UnknownChat):
        await ben.do(lambda tx: ben.histories.get(tx, ben.id, mine))
    with pytest.raises(UnknownChat):
        await ben.do(lambda tx: ben.histories.delete(tx, ben.id, mine))
    theirs = await ben.add(chat(*SAID))
    assert (theirs.turns, theirs.known_turns) == (4, 0)


async def test_a_chat_in_a_workspace_is_not_for_colleagues(ana: Person, ben: Person) -> None:
    shop = await ana.workspace((ben, "owner"))
    await ana.add(chat(*SAID), workspace=shop)

    assert await ben.do(lambda tx: ben.histories.list(tx, ana.id, workspace=shop)) == []
    assert await ben.chats(workspace=shop) == []
    assert [each.workspace_id for each in await ana.chats(workspace=shop)] == [shop]
    assert await ana.read() == []
    assert len(await ana.read(shop)) == 1


async def test_ones_own_and_a_workspaces_are_two(ana: Person) -> None:
    shop = await ana.workspace()
    await ana.add(chat(*SAID))
    there = await ana.add(chat(*SAID), workspace=shop)
    assert (there.chats, there.turns) == (1, 4)


async def test_chats_go_only_where_one_may_write(ana: Person, ben: Person) -> None:
    shop = await ana.workspace((ben, "viewer"))
    theirs = await ana.workspace()
    with pytest.raises(RoleTooLow):
        await ben.add(chat(*SAID), workspace=shop)
    for nowhere in (theirs, uuid4()):
        with pytest.raises(NotFound):
            await ben.add(chat(*SAID), workspace=nowhere)
    assert await ben.chats() == []


async def test_a_project_is_one_of_the_workspace(ana: Person, ben: Person) -> None:
    shop, other = await ana.workspace(), await ben.workspace()
    named = NamedProject(name="Cart")
    mine = await ana.do(lambda tx: ana.services.membership.create_project(tx, shop, named))
    foreign = await ben.do(lambda tx: ben.services.membership.create_project(tx, other, named))

    await ana.add(chat(*SAID), workspace=shop, project=mine.id)
    assert [each.project_id for each in await ana.chats()] == [mine.id]
    with pytest.raises(NotFound):
        await ana.add(chat("Else."), workspace=shop, project=foreign.id)
    with pytest.raises(NotFound, match="workspace"):
        await ana.add(chat("Else."), project=mine.id)


async def test_a_deleted_chat_is_gone_and_can_come_again(ana: Person) -> None:
    [kept] = (await ana.add(chat(*SAID))).ids
    assert kept is not None
    await ana.do(lambda tx: ana.histories.delete(tx, ana.id, kept))
    assert await ana.chats() == []
    assert (await ana.add(chat(*SAID))).turns == 4


async def test_lists_come_in_pages(ana: Person) -> None:
    for number in range(3):
        await ana.add(
            chat(f"Say {number}.", "Yes.", session=str(number), start=NOON + timedelta(days=number))
        )
    everything = await ana.chats()
    assert [each.session for each in everything] == ["2", "1", "0"]

    first = await ana.chats(limit=2)
    rest = await ana.chats(after=(first[-1].imported_at, first[-1].id))
    assert [*first, *rest] == everything
    turns = await ana.do(lambda tx: ana.histories.turns(tx, ana.id, everything[0].id, after=0))
    assert [turn.number for turn in turns] == [1]


async def test_what_is_read_back_is_what_was_given(ana: Person) -> None:
    given = chat(*SAID, title="A cart", author="Ana"), chat("Else.", session="two", start=None)
    ids = (await ana.add(*given)).ids

    read = await ana.read()

    assert [stored.chat for stored in read] == list(given)
    assert [stored.id for stored in read] == ids
    for stored in read:
        kept = {turn.number: turn.id for turn in await ana.turns(stored.id)}
        assert stored.turn_ids == kept
        assert stored.new == frozenset(kept)
    assert [stored.id for stored in await ana.read(chat_ids=ids[1:])] == ids[1:]
    assert await ana.read(chat_ids=[]) == []


async def test_what_was_analysed_is_not_new(ana: Person, analyse: Callable[[], Awaitable[None]]) -> None:
    ids = (await ana.add(chat(*SAID[:2]), chat("Else.", session="two"))).ids
    await analyse()
    assert [stored.new for stored in await ana.read()] == [frozenset(), frozenset()]

    await ana.add(chat(*SAID))
    [grown, other] = await ana.read()

    assert (grown.id, grown.new) == (ids[0], frozenset({2, 3}))
    assert (other.id, other.new) == (ids[1], frozenset())
    assert tuple(turn.text for turn in grown.chat.turns) == SAID


async def test_many_chats_are_read_whole_however_few_rows_come_at_once(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [chat(*SAID[: 1 + number % 4], session=str(number), start=None) for number in range(10)]
    for each in given:
        await ana.add(each)
    kept = [stored.chat for stored in await ana.read()]
    for name, few in (("CHATS_AT_ONCE", 3), ("TURNS_AT_ONCE", 2)):
        monkeypatch.setattr(f"recollect.rules.histories.store.{name}", few)
    assert [stored.chat for stored in await ana.read()] == kept


async def test_the_service_reads_them_too(ana: Person) -> None:
    await ana.add(chat(*SAID))
    async with ana.services.tenancy.acting_as(SERVICE) as tx:
        assert [len(each.chat.turns) async for each in ana.histories.read(tx, ana.id)] == [4]


async def test_an_import_is_told(ana: Person) -> None:
    [kept] = (await ana.add(chat(*SAID))).ids
    await ana.services.relay.relay()
    told = await ana.do(lambda tx: ana.services.events.list(tx, types=["chat.imported"]))
    [event] = told
    assert event.data == {"chatId": str(kept), "turns": 4, "first": 0, "last": 3}
