"""The bank from the command line."""

from __future__ import annotations

import asyncio
import base64
import json

import psycopg
import pytest

from recollect.cli.console import print_json
from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

NASTY = "\x1b]0;owned\x07\x9b31m[bold]\\[red]x[/red]\U000e0001"


async def test_a_value_goes_round(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email, "--namespace", "prefs")
    entry = (await recollect("bank", "set", "style", '{"tone": ["warm", 1]}', *of_ana, "--json")).json
    assert entry["value"] == {"tone": ["warm", 1]}
    answer = await ana.http.get(ana.memory, params={"namespace": "prefs"})
    assert answer.json()["data"] == [entry]

    text = 'two\nlines, not "JSON"'
    await recollect("bank", "set", "note", "-", *of_ana, "--text", stdin=text)

    got, missing, found = await asyncio.gather(
        recollect("bank", "get", "note", *of_ana),
        recollect("bank", "get", "nothing", *of_ana),
        recollect("bank", "namespaces", "--user", ana.email, "--json"),
    )
    assert got.out == f"{text}\n"
    assert "nothing under that key" in missing.sentence
    assert [(each["namespace"], each["entries"]) for each in found.json] == [("prefs", 2)]


async def test_a_list_grows_to_its_length_and_is_deleted(recollect: Run, ana: Person) -> None:
    body = {"key": "recent", "value": [1, 2]}
    assert (await ana.http.post(ana.memory, json=body)).status_code == 200
    of_ana = ("--user", ana.email, "--json")

    grown = await recollect("bank", "append", "recent", '"three"', "--keep", "2", *of_ana)
    deleted = await recollect("bank", "delete", "recent", *of_ana)

    assert grown.json["value"] == [2, "three"]
    assert deleted.json == {"deleted": 1}
    assert (await ana.http.get(ana.memory)).json() == {"data": []}


async def test_what_cannot_be_stored_is_refused_in_one_sentence(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email)
    outcomes = await asyncio.gather(
        recollect("bank", "set", "tone", "warm", *of_ana),
        recollect("bank", "set", "tone", "NaN", *of_ana),
        recollect("bank", "set", "k" * 257, "1", *of_ana),
        recollect("bank", "set", "tone", "-", *of_ana, stdin=f'"{"x" * 10_240}"'),
    )
    sentences = [outcome.sentence for outcome in outcomes]

    assert "not valid JSON" in sentences[0]
    assert "--text" in sentences[0]
    assert "NaN" in sentences[1]
    assert sentences[2].startswith("key: ")
    assert "10 KB" in sentences[3]
    assert (await ana.http.get(ana.memory)).json() == {"data": []}


async def test_a_long_list_is_cut_and_says_so_or_is_whole(
    recollect: Run, ana: Person, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "insert into user_memory (user_id, key, value)"
            " select %s, n::text, '1' from generate_series(1, 1001) n",
            [ana.id],
        )
    cut, whole = await asyncio.gather(
        recollect("bank", "list", "--limit", "3", "--user", ana.email, "--json"),
        recollect("bank", "list", "--all", "--user", ana.email, "--json"),
    )

    assert len(cut.json) == 3
    assert "--all" in cut.err
    assert len({entry["key"] for entry in whole.json}) == len(whole.json) == 1001
    assert whole.err == ""


async def test_stored_text_cannot_command_the_terminal(recollect: Run, ana: Person) -> None:
    body = {"key": NASTY, "value": NASTY}
    assert (await ana.http.post(ana.memory, json=body)).status_code == 200

    shown = await recollect("bank", "list", "--user", ana.email)

    assert not {"\x1b", "\x07", "\x9b"} & set(shown.out)
    assert "[bold]\\[red]x[/red]" in shown.out


def test_json_cannot_command_the_terminal_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({NASTY: [NASTY]})

    printed = capsys.readouterr().out
    assert printed.rstrip("\n").isprintable()
    assert json.loads(printed) == {NASTY: [NASTY]}


async def test_clearing_asks_and_keeps_to_its_namespace(recollect: Run, ana: Person) -> None:
    for namespace in ("default", "prefs", "notes"):
        body = {"namespace": namespace, "key": "k", "value": 1}
        assert (await ana.http.post(ana.memory, json=body)).status_code == 200

    async def left() -> list[str]:
        answer = await ana.http.get(f"{ana.memory}/namespaces")
        return [each["namespace"] for each in answer.json()["data"]]

    of_ana = ("bank", "clear", "--user", ana.email)
    assert (await recollect(*of_ana, "--all-namespaces", stdin="n\n")).code == 1
    assert len(await left()) == 3
    assert (await recollect(*of_ana, "--yes", "--json")).json == {"deleted": 1}
    assert await left() == ["notes", "prefs"]
    assert (await recollect(*of_ana, "--all-namespaces", "--yes", "--json")).json == {"deleted": 2}
    assert await left() == []


async def test_purge_and_reseal_say_how_many(recollect: Run, ana: Person, database_url: str) -> None:
    for namespace in ("old", "private"):
        body = {"namespace": namespace, "key": "k", "value": "plain to see"}
        assert (await ana.http.post(ana.memory, json=body)).status_code == 200
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update user_memory set updated_at = now() - interval '8 days'")
        purged = await recollect("bank", "purge", "--json", RECOLLECT_BANK_RETENTION_DAYS='{"old": 7}')
        resealed = await recollect(
            *("bank", "reseal"),
            RECOLLECT_BANK_ENCRYPTED_NAMESPACES="private",
            RECOLLECT_BANK_ENCRYPTION_KEYS=f"first:{base64.b64encode(bytes(32)).decode()}",
        )
        rows = await (await connection.execute("select namespace, value from user_memory")).fetchall()

    assert purged.json == {"purged": 1}
    assert resealed.out == "1 resealed.\n"
    [(namespace, value)] = rows
    assert namespace == "private"
    assert value.startswith("sealed:first:")
