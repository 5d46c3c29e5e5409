"""Memories from the command line."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import pytest

from tests.api.remembering import link, remember
from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

NASTY = "\x1b]0;owned\x07\x9b31m[bold]x[/bold]"


async def texts(person: Person, **query: str) -> list[str]:
    answer = await person.http.get("/api/memories", params=query)
    return [each["text"] for each in answer.json()["data"]]


async def test_what_is_added_is_found_listed_and_makes_a_context(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email)
    said = json.dumps([{"role": "user", "name": "Mia", "content": "My bees live on the roof."}])
    about = ("--about", "mia", "--about", "run:chat")
    added = await recollect(
        *("memories", "add", "-", "--messages", "--as-said", *about, *of_ana),
        *("--metadata", '{"source": "chat"}', "--json"),
        stdin=said,
    )
    [change] = added.json["results"]
    await remember(ana.http, "The dog sleeps.", user="tom")

    found, explained, listed, context, names, shown = await asyncio.gather(
        recollect("memories", "search", "bees", "--filter", '{"source": "chat"}', *of_ana, "--json"),
        recollect("memories", "search", "bees", "--explain", "--limit", "1", *of_ana),
        recollect("memories", "list", "--about", "run:chat", *of_ana, "--json"),
        recollect("memories", "context", "bees", "--budget", "50", "--about", "mia", *of_ana),
        recollect("memories", "entities", *of_ana, "--json"),
        recollect("memories", "show", change["id"], *of_ana, "--json"),
    )

    assert change["event"] == "ADD"
    assert [(each["id"], each["metadata"]) for each in found.json] == [(change["id"], {"source": "chat"})]
    assert "My bees live on the roof." in explained.out
    assert "meaning 0." in explained.out
    assert [each["id"] for each in listed.json] == [change["id"]]
    assert "Mia: My bees live on the roof." in context.out
    assert "of 50 tokens" in context.err
    assert [(each["type"], each["name"]) for each in names.json] == [
        ("run", "chat"),
        ("user", "mia"),
        ("user", "tom"),
    ]
    assert (shown.json["speaker"], shown.json["links"]) == ("Mia", [])


async def test_what_was_not_understood_is_told(recollect: Run, ana: Person) -> None:
    added = await recollect("memories", "add", "Hm, zxqv.", "--about", "mia", "--user", ana.email)

    assert (added.code, added.out) == (0, "nothing there\n")
    assert "Not understood: Hm, zxqv." in added.err


async def test_a_change_shows_its_diff_and_so_does_the_history(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email)
    [memory] = await remember(ana.http, "Mia lives in Ulm.", expires_at="2030-01-01T00:00:00Z")

    changed = await recollect(
        "memories", "update", memory, "--text", "Mia lives in Bonn.", "--reason", "She moved.", *of_ana
    )
    never = await recollect("memories", "update", memory, "--expires", "never", *of_ana, "--json")
    judged = await recollect("memories", "feedback", memory, "very-negative", *of_ana, "--json")
    told, versions = await asyncio.gather(
        recollect("memories", "history", memory, *of_ana),
        recollect("memories", "history", memory, *of_ana, "--json"),
    )

    assert changed.out == "Mia lives in [-Ulm.-]{+Bonn.+}\nversion 2\n"
    assert (never.json["text"], never.json["expires_at"]) == ("Mia lives in Bonn.", None)
    assert judged.json["feedback"] == "VERY_NEGATIVE"
    assert "Mia lives in [-Ulm.-]{+Bonn.+}" in told.out
    assert "She moved." in told.out
    assert [each["event"] for each in versions.json] == ["ADD", "UPDATE", "UPDATE", "FEEDBACK"]


async def test_one_is_deleted_and_restored(recollect: Run, ana: Person, database_url: str) -> None:
    of_ana = ("--user", ana.email, "--json")
    memory, other = await remember(ana.http, "tea", "green tea")
    await link(database_url, memory, other, 0.9)

    shown = await recollect("memories", "show", memory, *of_ana)
    deleted = await recollect("memories", "delete", memory, "--reason", "Not so.", *of_ana)

    assert [each["memory_id"] for each in shown.json["links"]] == [other]
    assert deleted.json == {"deleted": 1}
    assert await texts(ana) == ["green tea"]
    assert "no such memory" in (await recollect("memories", "show", memory, *of_ana)).sentence
    assert (await recollect("memories", "restore", memory, *of_ana)).json["text"] == "tea"
    assert len(await texts(ana)) == 2


async def test_many_are_deleted_after_asking_and_only_of_whom_it_was_said(
    recollect: Run, ana: Person
) -> None:
    await remember(ana.http, "a", "b", user="mia")
    await remember(ana.http, "c", user="tom")
    of_ana = ("memories", "delete", "--user", ana.email)

    for unclear in ((), (str(uuid4()), "--about", "mia"), (str(uuid4()), "--all")):
        assert (await recollect(*of_ana, *unclear)).sentence.startswith("Give the id of one memory")
    asked = await recollect(*of_ana, "--about", "mia", stdin="n\n")
    assert (asked.code, "Delete 2 memories?" in asked.err) == (1, True)
    assert len(await texts(ana)) == 3
    assert (await recollect(*of_ana, "--about", "mia", "--yes", "--json")).json == {"deleted": 2}
    assert await texts(ana) == ["c"]
    assert (await recollect(*of_ana, "--all", stdin="y\n")).out.strip() == "1 deleted."


async def test_a_long_list_is_cut_and_says_so_or_is_whole(recollect: Run, ana: Person) -> None:
    await remember(ana.http, *(f"turn {n}" for n in range(1_000)))
    await remember(ana.http, "one more")

    cut, whole = await asyncio.gather(
        recollect("memories", "list", "--limit", "3", "--user", ana.email, "--json"),
        recollect("memories", "list", "--all", "--user", ana.email, "--json"),
    )

    assert (len(cut.json), "--all" in cut.err) == (3, True)
    assert len({each["id"] for each in whole.json}) == len(whole.json) == 1_001
    assert whole.err == ""


async def test_what_cannot_be_done_is_refused_in_one_sentence(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email)
    [memory] = await remember(ana.http, "as it was")
    outcomes = await asyncio.gather(
        recollect("memories", "add", "x", *of_ana),
        recollect("memories", "add", "x", "--about", "mia", "--about", "user:tom", *of_ana),
        recollect("memories", "add", " ", "--about", "mia", *of_ana),
        recollect("memories", "add", "[", "--messages", "--about", "mia", *of_ana),
        recollect("memories", "search", " ", *of_ana),
        recollect("memories", "search", "x", "--filter", '{"a": {"near": 1}}', *of_ana),
        recollect("memories", "search", "x", "--workspace", str(uuid4()), *of_ana),
        recollect("memories", "update", memory, *of_ana),
        recollect("memories", "update", memory, "--expires", "tomorrow", *of_ana),
        recollect("memories", "feedback", memory, "meh", *of_ana),
    )
    sentences = [outcome.sentence for outcome in outcomes]
    too_long = await recollect("memories", "add", "-", "--about", "mia", *of_ana, stdin="x" * 50_001)

    assert "--about NAME" in sentences[0]
    assert "only one user" in sentences[1]
    assert sentences[2].startswith("text: say something")
    assert "messages is not valid JSON" in sentences[3]
    assert sentences[4] == "query: say what to look for."
    assert "no operator" in sentences[5]
    assert "There is no such" in sentences[6]
    assert "nothing to change" in sentences[7]
    assert sentences[8].startswith("expires_at: ")
    assert sentences[9].startswith("feedback: ")
    assert (too_long.code, "50,000 characters" in too_long.err) == (1, True)
    assert await texts(ana) == ["as it was"]


async def test_a_viewer_reads_a_workspace_and_is_told_that_this_is_all(
    recollect: Run, ana: Person, ben: Person
) -> None:
    workspace = (await ana.http.post("/api/workspaces", json={"name": "Team"})).json()["id"]
    body = {"email": ben.email, "role": "viewer"}
    assert (await ana.http.post(f"/api/workspaces/{workspace}/members", json=body)).status_code == 201
    [memory] = await remember(ana.http, "The launch is in May.", workspace=workspace)
    as_ben, there = ("--user", ben.email), ("--workspace", workspace)

    listed, *refused = await asyncio.gather(
        recollect("memories", "list", *there, *as_ben, "--json"),
        recollect("memories", "add", "x", "--as-said", "--about", "mia", *there, *as_ben),
        recollect("memories", "update", memory, "--text", "x", *as_ben),
        recollect("memories", "delete", memory, *as_ben),
        recollect("memories", "delete", "--about", "mia", "--yes", *there, *as_ben),
        recollect("memories", "feedback", memory, "positive", *as_ben),
    )

    assert [each["id"] for each in listed.json] == [memory]
    for outcome in refused:
        assert outcome.sentence == "Your role here does not allow that; ask an owner."
    assert await texts(ana, workspace=workspace) == ["The launch is in May."]


async def test_stored_text_cannot_command_the_terminal(recollect: Run, ana: Person) -> None:
    [memory] = await remember(ana.http, NASTY, user=NASTY)
    of_ana = ("--user", ana.email)
    shown = await asyncio.gather(
        recollect("memories", "list", *of_ana),
        recollect("memories", "search", "owned", *of_ana),
        recollect("memories", "history", memory, *of_ana),
        recollect("memories", "show", memory, *of_ana),
    )
    changed = await recollect("memories", "update", memory, "--text", "tame", *of_ana)
    for outcome in (*shown, changed):
        assert outcome.code == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(outcome.out)
        assert "[bold]x[/bold]" in outcome.out
