"""What an application does with memories through mem0's own clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mem0.client.types import AddMemoryOptions, GetAllMemoryOptions, SearchMemoryOptions, UpdateMemoryOptions
from mem0.exceptions import MemoryNotFoundError, ValidationError

from tests.api.mem0.clients import Client, remember, texts_of
from tests.conftest import Person

pytestmark = pytest.mark.anyio

MIA = {"user_id": "mia"}
# Whatever an application calls its users.
ODD_NAMES = ["a/b", "50%", "50%25", "ana maría/ñ", "名前", "a b?c#d&e=f", "../up", "x/profile", "a/", "*x"]


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both clients: here is every method that an application uses daily."""
    found: str = request.param
    return found


def day(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).date().isoformat()


# Adding


async def test_what_was_said_is_kept_as_it_was_said(client: Client) -> None:
    added = await client(
        "add",
        [{"role": "user", "content": "I drink green tea"}, {"role": "assistant", "content": "Good choice"}],
        user_id="mia",
        agent_id="barista",
        app_id="cafe",
        run_id="monday",
        metadata={"table": 4},
        infer=False,
    )

    assert added["status"] == "SUCCEEDED"
    said = [(result["data"]["memory"], result["event"]) for result in added["results"]]
    assert said == [("I drink green tea", "ADD"), ("Good choice", "ADD")]
    memory = await client("get", added["results"][0]["id"])
    assert memory["memory"] == "I drink green tea"
    about = [memory[name] for name in ("user_id", "agent_id", "app_id", "run_id", "session_id")]
    assert about == ["mia", "barista", "cafe", "monday", "monday"]
    assert (memory["metadata"], memory["categories"], memory["expiration_date"]) == ({"table": 4}, [], None)
    assert datetime.fromisoformat(memory["created_at"]) <= datetime.now(UTC)


async def test_a_text_and_a_single_message_will_do(client: Client) -> None:
    await client("add", "I drink tea", user_id="mia", infer=False)
    await client("add", {"role": "user", "content": "I drink water"}, user_id="mia", infer=False)
    assert await texts_of(client) == ["I drink water", "I drink tea"]


async def test_the_same_request_again_adds_nothing(client: Client) -> None:
    first = await remember(client, "I drink tea")
    assert await remember(client, "I drink tea") == first
    assert await texts_of(client) == ["I drink tea"]


async def test_typed_options_name_the_user_in_filters(client: Client) -> None:
    options = AddMemoryOptions(filters=MIA, infer=False, metadata={"a": 1}, expiration_date=day(1))
    await client("add", "I drink tea", options=options)
    found = await client("search", "tea", options=SearchMemoryOptions(filters=MIA, top_k=1))
    listed = await client("get_all", options=GetAllMemoryOptions(filters=MIA, page=1, page_size=10))
    assert found["results"][0]["id"] == listed["results"][0]["id"]
    changed = await client("update", listed["results"][0]["id"], options=UpdateMemoryOptions(text="I drink"))
    assert changed["memory"] == "I drink"


async def test_nothing_is_added_about_nobody(client: Client) -> None:
    with pytest.raises(ValidationError, match="Say whom it is about"):
        await client("add", "I drink tea", infer=False)
    with pytest.raises(ValidationError, match="only user_id, agent_id"):
        await client("add", "I drink tea", filters={"mood": "good"}, infer=False)
    for name in ("", "x" * 257):
        with pytest.raises(ValidationError, match="256"):
            await client("add", "I drink tea", filters={"user_id": name}, infer=False)
        with pytest.raises(ValidationError, match="user_id"):
            await client("add", "I drink tea", user_id=name, infer=False)


async def test_a_user_may_have_a_number(client: Client) -> None:
    await client("add", "I drink tea", user_id=7, infer=False)
    assert await texts_of(client, user_id="7") == ["I drink tea"]


@pytest.mark.parametrize("option", [{"immutable": True}, {"structured_data_schema": {"type": "object"}}])
async def test_what_could_not_be_kept_to_is_refused(client: Client, option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="not known here"):
        await client("add", "I drink tea", user_id="mia", infer=False, **option)
    assert await texts_of(client) == []


# Finding


async def test_a_search_finds_the_best_first_and_says_why(client: Client) -> None:
    await remember(client, "I drink green tea", "My bicycle is red", "The weather is fine")

    found = (await client("search", "which tea do I drink", filters=MIA))["results"]

    assert found[0]["memory"] == "I drink green tea"
    assert 0.1 <= found[0]["score"] <= 1
    assert found[0]["score_breakdown"].keys() == {"semantic", "bm25"}
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)


async def test_a_search_is_bounded_by_number_and_score(client: Client) -> None:
    await remember(client, *(f"I drink tea number {number}" for number in range(12)))
    assert len((await client("search", "tea", filters=MIA))["results"]) == 10
    assert len((await client("search", "tea", filters=MIA, top_k=3, rerank=True))["results"]) == 3
    assert (await client("search", "tea", filters=MIA, threshold=1.0))["results"] == []


async def test_a_search_is_narrowed_by_filters(client: Client) -> None:
    await remember(client, "I drink tea", metadata={"place": "home", "cups": 2})
    await remember(client, "I drink tea at work", metadata={"place": "work", "cups": 5})
    await remember(client, "I drink tea, too", user_id="leo")

    async def texts(**wanted: Any) -> set[str]:
        found = await client("search", "tea", **wanted)
        return {one["memory"] for one in found["results"]}

    assert await texts(filters={**MIA, "place": "home"}) == {"I drink tea"}
    assert await texts(filters=MIA, metadata={"place": "work"}) == {"I drink tea at work"}
    assert await texts(filters={"AND": [MIA, {"cups": {"gte": 3}}]}) == {"I drink tea at work"}
    assert await texts(filters={"OR": [{"user_id": "leo"}, {"AND": [MIA, {"cups": 2}]}]}) == {
        "I drink tea, too",
        "I drink tea",
    }
    assert len(await texts(filters={"user_id": "*"})) == 3
    assert await texts(filters={**MIA, "NOT": [{"place": "home"}]}) == {"I drink tea at work"}


async def test_only_the_wanted_fields_are_told(client: Client) -> None:
    await remember(client, "I drink tea")
    [found] = (await client("search", "tea", filters=MIA, fields=["memory", "score"]))["results"]
    assert found.keys() == {"id", "memory", "score"}


@pytest.mark.parametrize("filters", [None, {}, {"place": "home"}, {"NOT": [{"user_id": "leo"}]}])
async def test_who_asks_about_nobody_is_told_to_name_somebody(
    client: Client, filters: dict[str, Any] | None
) -> None:
    wanted = {} if filters is None else {"filters": filters}
    with pytest.raises(ValidationError, match="filters need one of user_id"):
        await client("search", "tea", **wanted)
    with pytest.raises(ValidationError, match="filters need one of user_id"):
        await client("get_all", **wanted)


async def test_a_filter_that_makes_no_sense_is_explained(client: Client) -> None:
    with pytest.raises(ValidationError, match="is no operator here"):
        await client("search", "tea", filters={**MIA, "cups": {"about": 3}})
    deep: dict[str, Any] = MIA
    for _ in range(50):
        deep = {"AND": [deep]}
    with pytest.raises(ValidationError, match="levels deep"):
        await client("get_all", filters=deep)


# Listing


async def test_a_list_comes_in_pages_that_know_their_neighbours(client: Client, ana: Person) -> None:
    await remember(client, *(f"turn {number}" for number in range(5)))

    pages = [await client("get_all", filters=MIA, page=number, page_size=2) for number in (1, 2, 3, 4)]

    assert [page["count"] for page in pages] == [5, 5, 5, 5]
    told = [[memory["memory"] for memory in page["results"]] for page in pages]
    assert told == [["turn 4", "turn 3"], ["turn 2", "turn 1"], ["turn 0"], []]
    assert pages[0]["previous"] is None
    assert pages[2]["next"] is None
    followed = await ana.http.post(pages[0]["next"], json={"filters": MIA})
    assert followed.json() == pages[1]
    back = await ana.http.post(pages[1]["previous"], json={"filters": MIA})
    assert back.json() == pages[0]


async def test_a_list_without_a_page_is_the_first_hundred_and_says_so(client: Client) -> None:
    await remember(client, *(f"turn {number}" for number in range(101)))
    page = await client("get_all", filters=MIA)
    assert (len(page["results"]), page["count"]) == (100, 101)
    assert page["next"] is not None


async def test_a_list_is_narrowed_by_days(client: Client) -> None:
    await remember(client, "I drink tea")
    for asked, is_found in (
        ({"start_date": day(-1)}, True),
        ({"end_date": day(1)}, True),
        ({"start_date": day(2)}, False),
        ({"end_date": day(-2)}, False),
    ):
        assert bool((await client("get_all", filters=MIA, **asked))["results"]) is is_found, asked


# What runs out


async def test_what_has_expired_is_told_to_those_alone_who_ask(client: Client) -> None:
    await remember(client, "gone", expiration_date=day(-1))
    await remember(client, "still there", expiration_date=day(1))

    assert await texts_of(client) == ["still there"]
    shown = await client("get_all", filters=MIA, show_expired=True)
    days = {memory["memory"]: memory["expiration_date"] for memory in shown["results"]}
    assert days == {"gone": day(-1), "still there": day(1)}
    found = await client("search", "gone", filters=MIA)
    assert "gone" not in [one["memory"] for one in found["results"]]
    found = await client("search", "gone", filters=MIA, show_expired=True)
    assert found["results"][0]["memory"] == "gone"


async def test_an_expiry_can_be_set_kept_and_taken_away(client: Client) -> None:
    [memory] = await remember(client, "I drink tea")
    assert (await client("update", memory, expiration_date="2031-05-17"))["expiration_date"] == "2031-05-17"
    assert (await client("update", memory, text="I drink"))["expiration_date"] == "2031-05-17"
    assert (await client("update", memory, expiration_date=None))["expiration_date"] is None
    with pytest.raises(ValidationError, match="a day such as"):
        await client("update", memory, expiration_date="2031-13-17")


# Changing


async def test_a_change_is_kept_with_what_was_before(client: Client) -> None:
    [memory] = await remember(client, "I drink tea", metadata={"a": 1})

    changed = await client(
        "update", memory, text="I drink coffee", metadata={"b": 2}, timestamp=1_700_000_000
    )

    assert (changed["memory"], changed["metadata"]) == ("I drink coffee", {"b": 2})
    assert datetime.fromisoformat(changed["timestamp"]).timestamp() == 1_700_000_000
    assert await client("get", memory) == changed
    history = await client("history", memory)
    steps = [(step["event"], step["old_memory"], step["new_memory"]) for step in history]
    assert steps == [("ADD", None, "I drink tea"), ("UPDATE", "I drink tea", "I drink coffee")]
    assert {step["memory_id"] for step in history} == {memory}
    assert len({step["id"] for step in history}) == 2
    assert (await client("search", "coffee", filters=MIA))["results"][0]["id"] == memory


async def test_an_update_that_cannot_be_is_refused(client: Client) -> None:
    [memory] = await remember(client, "I drink tea")
    with pytest.raises(ValidationError, match="says something"):
        await client("update", memory, text="  ")
    with pytest.raises(ValidationError, match="at most 50,000"):
        await client("update", memory, text="x" * 50_001)
    with pytest.raises(ValueError, match="At least one"):
        await client("update", memory)
    assert await texts_of(client) == ["I drink tea"]


async def test_what_is_deleted_is_gone_and_its_history_stays(client: Client) -> None:
    [memory] = await remember(client, "I drink tea")

    assert (await client("delete", memory))["message"]

    assert await texts_of(client) == []
    with pytest.raises(MemoryNotFoundError):
        await client("get", memory)
    with pytest.raises(MemoryNotFoundError):
        await client("delete", memory)
    assert [step["event"] for step in await client("history", memory)] == ["ADD", "DELETE"]


async def test_an_opinion_is_kept_and_changes_nothing_else(client: Client) -> None:
    [memory] = await remember(client, "I drink tea")
    given = await client("feedback", memory, "negative", "I never do")
    assert given == {"id": memory, "feedback": "NEGATIVE", "feedback_reason": "I never do"}
    assert (await client("feedback", memory))["feedback"] is None
    assert [step["event"] for step in await client("history", memory)] == ["ADD"]


async def test_what_is_not_there_is_not_found_and_what_is_no_id_is_refused(client: Client) -> None:
    nowhere = str(uuid4())
    for method, *more in (("get",), ("update",), ("delete",), ("history",), ("feedback", "POSITIVE")):
        change = {"text": "x"} if method == "update" else {}
        with pytest.raises(MemoryNotFoundError, match="no such memory"):
            await client(method, nowhere, *more, **change)
        with pytest.raises(ValidationError, match="not a UUID"):
            await client(method, "no id, 50%", *more, **change)


# Names


async def test_a_user_may_be_called_anything(client: Client) -> None:
    for name in (*ODD_NAMES, "mia"):
        await remember(client, f"of {name}", user_id=name)
    assert {one["name"] for one in (await client("users"))["results"]} == {*ODD_NAMES, "mia"}

    for name in ODD_NAMES:
        assert await texts_of(client, user_id=name) == [f"of {name}"]
        await client("delete_all", user_id=name)
        assert await texts_of(client, user_id=name) == []
    assert await texts_of(client, user_id="*") == ["of mia"]


async def test_nothing_but_the_key_is_needed(address: str, ana: Person) -> None:
    headers = {"Authorization": f"Token {ana.key}"}
    async with httpx.AsyncClient(base_url=address, headers=headers) as http:
        body = {"messages": [{"role": "user", "content": "I drink tea"}], "user_id": "mia", "infer": False}
        assert (await http.post("/v3/memories/add/", json=body)).status_code == 200
        redirected = await http.post("/v3/memories", json={"filters": MIA}, follow_redirects=True)
        assert redirected.json()["count"] == 1
