"""Profiles from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

PART = '{"part": {"id": "critic", "name": "Inner Critic"}}'
NASTY = "\x1b]0;owned\x07[bold]x[/bold]"


async def put(person: Person, **fields: Any) -> Any:
    path = f"/api/users/{person.id}/profile"
    document = (await person.http.get(path)).json() | fields
    answer = await person.http.put(path, json=document)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
async def told(ana: Person) -> Any:
    """Ana's profile at version 3."""
    await put(ana, summary="Lives in Lima", parts={"critic": {"name": "Inner Critic"}})
    await put(ana, summary="Lives in Bonn", mood=f"calm {NASTY}")
    return await put(ana, parts={})


async def test_a_profile_is_shown_as_it_is_and_as_it_was(recollect: Run, ana: Person, told: Any) -> None:
    versions = await recollect("profile", "history", ana.email, "--json")
    moment = versions.json[1]["created_at"]
    shown, whole, first, then, by_id, missing, nobody, wrong = await asyncio.gather(
        recollect("profile", "show", ana.email),
        recollect("profile", "show", ana.email, "--json"),
        recollect("profile", "show", ana.email, "--version", "1", "--json"),
        recollect("profile", "show", ana.email, "--at", moment, "--json"),
        recollect("profile", "show", str(ana.id), "--json"),
        recollect("profile", "show", ana.email, "--version", "9"),
        recollect("profile", "show", str(uuid4())),
        recollect("profile", "show", ana.email, "--at", "yesterday"),
    )
    assert shown.out.startswith("version 3 ")
    assert "Lives in Bonn" in shown.out
    assert "\x1b" not in shown.out
    assert whole.json == by_id.json == told
    assert (first.json["version"], first.json["summary"]) == (1, "Lives in Lima")
    assert (then.json["version"], then.json["summary"]) == (2, "Lives in Bonn")
    assert missing.sentence == "The profile has no version 9; its latest is 3."
    assert nobody.sentence == "There is no such user."
    assert wrong.sentence == "--at: a date and time such as 2030-01-31T12:00Z."


async def test_versions_are_listed_and_compared_word_by_word(recollect: Run, ana: Person, told: Any) -> None:
    table, some, difference, reverse, patch, same = await asyncio.gather(
        recollect("profile", "history", ana.email),
        recollect("profile", "history", ana.email, "--limit", "2"),
        recollect("profile", "diff", ana.email, "1", "2"),
        recollect("profile", "diff", ana.email, "2", "1"),
        recollect("profile", "diff", ana.email, "1", "--json"),
        recollect("profile", "diff", ana.email, "3"),
    )
    assert [line.split()[0] for line in table.out.splitlines()] == ["version", "3", "2", "1"]
    assert "--before 2" in some.err
    assert sorted(difference.out.splitlines()) == [
        "+ mood: calm \N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}[bold]x[/bold]",
        "summary: Lives in [-Lima-]{+Bonn+}",
    ]
    assert "- mood: " in reverse.out
    assert patch.json["to_version"] == 3
    assert same.out == "Nothing differs.\n"


async def test_going_back_is_a_new_version_and_shows_what_it_changes(
    recollect: Run, ana: Person, told: Any
) -> None:
    undone = await recollect("profile", "undo", ana.email, "--reason", "a slip")
    restored = await recollect("profile", "restore", ana.email, "--version", "1", "--json")
    again = await recollect("profile", "restore", ana.email, "--version", "1")
    nowhere = await recollect("profile", "restore", ana.email)

    assert undone.out.startswith("+ parts.critic: ")
    assert undone.out.endswith("Now at version 4.\n")
    assert (restored.json["version"], restored.json["summary"]) == (5, "Lives in Lima")
    assert again.out == "Nothing differs.\nStill at version 5.\n"
    assert nowhere.sentence == "Say to which version, or to which moment."
    blamed, history = await asyncio.gather(
        recollect("profile", "blame", ana.email, "/summary", "--json"),
        recollect("profile", "history", ana.email, "--json"),
    )
    assert blamed.json["version"] == 5
    assert history.json[1]["source_description"] == "a slip"


BUSY_EDITOR = """
import pathlib, sys, urllib.request
headers = {"Authorization": "Bearer KEY", "Content-Type": "application/merge-patch+json"}
urllib.request.urlopen(urllib.request.Request("URL", b'{"mood": "busy"}', headers, method="PATCH"))
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text().replace("Kiel", "Rome"))
"""


async def test_what_others_change_while_a_profile_is_edited_is_kept(
    recollect: Run, ana: Person, told: Any, tmp_path: Path
) -> None:
    await put(ana, summary="Lives in Kiel")
    editor = tmp_path / "editor.py"
    url = f"{ana.http.base_url}/api/users/{ana.id}/profile".replace("//api", "/api")
    editor.write_text(BUSY_EDITOR.replace("KEY", ana.key).replace("URL", url))
    edited = await recollect("profile", "edit", ana.email, "--json", EDITOR=f"{sys.executable} {editor}")
    assert (edited.json["summary"], edited.json["mood"]) == ("Lives in Rome", "busy")


async def test_a_profile_is_edited_in_the_editor(recollect: Run, ana: Person, told: Any) -> None:
    edited = await recollect("profile", "edit", ana.email, EDITOR="sed -i s/Bonn/Kiel/")
    broken, refused = await asyncio.gather(
        recollect("profile", "edit", ana.email, EDITOR="sed -i s/{/x/"),
        recollect("profile", "edit", ana.email, EDITOR="false"),
    )
    assert edited.out == "summary: Lives in [-Bonn-]{+Kiel+}\nNow at version 4.\n"
    assert broken.sentence.startswith("What was typed is not valid JSON")
    assert refused.sentence == "The editor failed, and nothing is changed; set EDITOR to yours."


async def test_damage_is_found_and_named(recollect: Run, ana: Person, told: Any, database_url: str) -> None:
    whole = await recollect("profile", "verify", ana.email)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update user_memory_snapshots set patch = '[]' where version = 2")
    damaged = await recollect("profile", "verify", ana.email)
    assert (whole.code, whole.out) == (0, "3 versions, 1 checkpoints.\n")
    assert damaged.code == 1
    assert "Version 2" in damaged.err


async def test_what_is_recorded_is_listed_and_brings_the_profile_up_to_date(
    recollect: Run, ana: Person, ben: Person
) -> None:
    first = await recollect(
        *("profile", "record", ana.email, "note", "My goal is to feel calm at work.", "--external-id", "1")
    )
    again = await recollect("profile", "record", ana.email, "note", "-", "--external-id", "1", stdin="x")
    song = await recollect("profile", "record", ana.email, "song", "la")
    bens = await recollect("profile", "record", ben.email, "session", "--data", PART, "--json")
    updated = await recollect("profile", "update", ana.email)
    nothing, everybody, listed, runs, whose = await asyncio.gather(
        recollect("profile", "update", ana.email, "--json"),
        recollect("profile", "update", "--all", "--json"),
        recollect("profile", "activity", ana.email, "--kind", "note", "--json"),
        recollect("profile", "updates", ana.email, "--json"),
        recollect("profile", "update"),
    )
    assert (first.out, again.out) == ("It is recorded.\n", "It was there already.\n")
    assert bens.json == {"recorded": 1, "known": 0}
    assert song.code == 2
    assert "calm at work" in updated.out
    assert "made by rules of 1 activities" in updated.err
    assert nothing.json["state"] == "unchanged"
    assert (everybody.json["updated"], everybody.json["failed"]) == (1, 0)
    assert [each["content"] for each in listed.json] == ["My goal is to feel calm at work."]
    assert runs.json[-1]["state"] == "updated"
    assert whose.sentence == "Say whose: USER, or --all."


async def test_what_a_model_is_told_is_changed_and_taken_back(recollect: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Keep it short.")
    changed = await recollect("profile", "prompt", "set", str(file), "--description", "Shorter.")
    now = await recollect("profile", "prompt", "show")
    back = await recollect("profile", "prompt", "use", "1", "--json")
    listed, unknown, empty = await asyncio.gather(
        recollect("profile", "prompt", "history", "--json"),
        recollect("profile", "prompt", "use", "9"),
        recollect("profile", "prompt", "set", "-"),
    )
    assert (changed.out, now.out) == ("Version 2 is in use.\n", "Keep it short.\n")
    assert back.json["is_active"] is True
    assert json.dumps([each["version"] for each in listed.json]) == "[2, 1]"
    assert unknown.sentence == "There is no prompt of that version."
    assert empty.sentence == "- says nothing."
