"""Memory nodes from the command line."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest

from tests.cli.conftest import Run
from tests.conftest import Person
from tests.nodes.conformance import At

pytestmark = pytest.mark.anyio

NASTY = "\x1b]0;owned\x07\x9b31m[bold]x"


async def test_a_node_is_defined_filled_read_and_deleted(recollect: Run, ana: Person) -> None:
    of_ana = ("--user", ana.email, "--json")
    config = '{"ttl_seconds": 600}'
    defined = await recollect("nodes", "define", "scratch", "WORKING_MEMORY", "--config", config, *of_ana)
    stored = await recollect("nodes", "store", "scratch", '{"key": "step", "value": [3]}', *of_ana)
    piped = '{"key": "plan", "value": "read"}'
    await recollect("nodes", "store", "scratch", "-", *of_ana, stdin=piped)

    shown, listed, one, everything = await asyncio.gather(
        recollect("nodes", "show", "scratch", *of_ana),
        recollect("nodes", "list", *of_ana),
        recollect("nodes", "retrieve", "scratch", '{"key": "step"}', *of_ana),
        recollect("nodes", "retrieve", "scratch", *of_ana),
    )
    assert defined.json["config"] == {"ttl_seconds": 600}
    assert (shown.json, listed.json) == (defined.json, [defined.json])
    assert one.json == {"entries": [stored.json], "next": None}
    assert [each["value"] for each in everything.json["entries"]] == ["read", [3]]
    assert everything.json == await At(ana).retrieve()

    forgotten = await recollect("nodes", "forget", "scratch", '{"key": "step"}', *of_ana)
    deleted = await recollect("nodes", "delete", "scratch", "--yes", *of_ana)

    assert (forgotten.json, deleted.json) == ({"forgotten": 1}, {"deleted": 1})
    assert "define it first" in (await recollect("nodes", "show", "scratch", *of_ana)).sentence


async def test_it_is_shown_to_people_as_tables(recollect: Run, ana: Person) -> None:
    node = At(ana)
    await node.define("KEY_VALUE_STORE", {})
    empty = await recollect("nodes", "retrieve", "scratch")
    for key in ("city", NASTY):
        await node.store({"key": key, "value": "Bonn"})

    # There is one user alone, so it need not be said whose they are.
    listed, shown, cut = await asyncio.gather(
        recollect("nodes", "list"),
        recollect("nodes", "retrieve", "scratch"),
        recollect("nodes", "retrieve", "scratch", '{"limit": 1}'),
    )
    assert empty.out == "nothing there\n"
    assert "KEY_VALUE_STORE" in listed.out
    assert "Bonn" in shown.out
    assert not {"\x1b", "\x07", "\x9b"} & set(shown.out)
    assert "next" not in shown.out
    assert cut.out.splitlines()[-1].startswith("next ")


async def test_types_say_what_they_take(recollect: Run) -> None:
    shown, told = await asyncio.gather(recollect("nodes", "types"), recollect("nodes", "types", "--json"))

    assert "WORKING_MEMORY" in shown.out
    assert "key, value, ttl_seconds?" in shown.out
    assert [each["memory_type"] for each in told.json] == ["KEY_VALUE_STORE", "WORKING_MEMORY"]


async def test_what_does_not_fit_is_refused_in_one_sentence(recollect: Run, ana: Person) -> None:
    node = At(ana)
    await node.define("KEY_VALUE_STORE", {})
    given = {
        "not valid JSON": ("store", "scratch", "{"),
        "The item is a JSON object": ("store", "scratch", "[]"),
        "surprise: ": ("store", "scratch", '{"key": "k", "value": 1, "surprise": 1}'),
        "256 KB": ("store", "scratch", json.dumps({"key": "k", "value": "x" * 262_144})),
        "There are: KEY_VALUE_STORE": ("define", "other", "CRYSTAL_BALL"),
        "name of a memory node": ("define", "a b", "KEY_VALUE_STORE"),
        "of another type": ("define", "scratch", "WORKING_MEMORY"),
    }
    outcomes = await asyncio.gather(
        *(recollect("nodes", *arguments, "--user", ana.email) for arguments in given.values())
    )

    for wanted, outcome in zip(given, outcomes, strict=True):
        assert wanted in outcome.sentence
    assert (await node.retrieve())["entries"] == []


async def test_it_asks_before_it_deletes_all(recollect: Run, ana: Person) -> None:
    node = At(ana)
    await node.define("KEY_VALUE_STORE", {})
    await node.store({"key": "k", "value": 1})

    for verb in ("forget", "delete"):
        refused = await recollect("nodes", verb, "scratch", "--user", ana.email, stdin="n\n")
        assert refused.code == 1
        assert "for good?" in refused.err
    assert len((await node.retrieve())["entries"]) == 1

    forgotten = await recollect("nodes", "forget", "scratch", "--user", ana.email, stdin="y\n")
    assert forgotten.out.strip() == "1 forgotten."
    deleted = await recollect("nodes", "delete", "scratch", "--user", ana.email, stdin="y\n")
    assert deleted.out.strip() == "scratch is deleted."


async def test_a_long_list_is_cut_and_says_so_or_is_whole(
    recollect: Run, ana: Person, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "insert into memory_nodes (user_id, memory_node_id, memory_type)"
            " select %s, n::text, 'KEY_VALUE_STORE' from generate_series(1, 1001) n",
            [ana.id],
        )
    cut, whole = await asyncio.gather(
        recollect("nodes", "list", "--limit", "3", "--json"), recollect("nodes", "list", "--all", "--json")
    )

    assert len(cut.json) == 3
    assert "--all" in cut.err
    assert len({each["memory_node_id"] for each in whole.json}) == len(whole.json) == 1001
    assert whole.err == ""


async def test_the_purge_is_on_the_schedule(recollect: Run) -> None:
    entries = {each["job"]: each for each in (await recollect("schedule", "list", "--json")).json}
    assert entries["working-memory-purge"]["cron"] == "7 * * * *"
