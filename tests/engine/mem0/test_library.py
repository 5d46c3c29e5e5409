"""mem0's library on our Postgres: where it keeps things, and whom it tells."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller
from recollect.engine.embedding.models import EmbeddingFailed, RemembersNothing, Vectors
from recollect.engine.mem0.library import Library
from recollect.engine.mem0.oss import Mem0Library
from recollect.engine.models import Added, Addition, Entities, Memory, Message, UnknownMemory, Wanted, Where
from recollect.settings import Settings
from tests.conftest import SECRET, make_settings

pytestmark = pytest.mark.anyio

KIM = Entities(user="kim")


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(
        home, database_url, mem0_mode="oss", embedding="static", memories_keep_deleted_days=0
    )


@pytest.fixture
async def caller(services: Services) -> Caller:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return Caller.user(await store.add_user(tx, "ana@example.com", None))


async def call(services: Services, caller: Caller, verb: str, *given: Any, **named: Any) -> Any:
    async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
        return await getattr(services.engine, verb)(tx, *given, **named)


async def add(services: Services, caller: Caller, text: str, **more: Any) -> Added:
    wanted = Addition([Message(content=text)], KIM, **{"infer": False, **more})
    added: Added = await call(services, caller, "add", wanted)
    return added


async def ask(database_url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        return await (await connection.execute(query.encode(), parameters)).fetchall()


async def test_everything_lies_in_a_schema_of_its_own(
    services: Services, caller: Caller, database_url: str
) -> None:
    before = await ask(database_url, "select count(*) from pg_tables where schemaname = 'public'")
    added = await add(services, caller, "I like tea.")
    [change] = added.results
    assert await ask(database_url, "select id, tenant, owner_id from mem0.memories") == [
        (change.id, caller.credential, caller.credential)
    ]
    assert await ask(database_url, "select count(*) from pg_tables where schemaname = 'public'") == before
    assert await ask(database_url, "select count(*) from public.memories") == [(0,)]


@pytest.mark.parametrize("table", ["memories", "history"])
async def test_only_the_service_reaches_it(services: Services, table: str) -> None:
    statement = sql.SQL("select from mem0.{}").format(sql.Identifier(table))
    for role in ("anon", "authenticated"):
        async with await psycopg.AsyncConnection.connect(services.database.api) as connection:
            await connection.execute("select set_config('role', %s, true)", [role])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute(statement)


async def test_it_tells_nobody_and_writes_nothing_beside(
    services: Services, caller: Caller, home: Path, database_url: str, tmp_path: Path
) -> None:
    """In a process of its own, whose every connection is noted."""
    script = tmp_path / "script.py"
    script.write_text(NOTED)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        str(caller.credential),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "RECOLLECT_HOME": str(tmp_path / "recollect"),
            "RECOLLECT_MODELS_DIR": str(tmp_path / "models"),
            "RECOLLECT_DATABASE_URL": database_url,
            "RECOLLECT_SECRET_KEY": SECRET,
            "MEM0_MODE": "oss",
        },
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(out.decode().splitlines()[-1])
    assert told == {"found": ["I like tea."], "connected": [], "telemetry": False}
    assert not (tmp_path / ".mem0").exists()
    assert [path.name for path in (tmp_path / "recollect" / "mem0").iterdir()] == ["config.json"]


NOTED = """
import asyncio, json, socket, sys
from uuid import UUID

connected = []

def note(event, given):
    if event == "socket.connect" and given[0].family != socket.AF_UNIX or event == "socket.getaddrinfo":
        connected.append(repr(given[1:]))

sys.addaudithook(note)

from recollect.bootstrap import open_services
from recollect.db.tenancy import Caller
from recollect.engine.models import Addition, Entities, Message, Wanted
from recollect.settings import Settings

async def main():
    async with open_services(Settings(_env_file=None)) as services:
        caller = Caller.user(UUID(sys.argv[1]))
        async def call(verb, *given):
            async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
                return await getattr(services.engine, verb)(tx, *given)
        wanted = Addition([Message(content="I like tea.")], Entities(user="kim"), infer=False)
        [change] = (await call("add", wanted)).results
        found = await call("search", Wanted("what do I drink today? tea"))
        await call("delete", change.id)
        from mem0.memory.telemetry import MEM0_TELEMETRY
        told = {"found": [each.text for each in found], "connected": connected, "telemetry": MEM0_TELEMETRY}
        print(json.dumps(told))

asyncio.run(main())
"""


async def test_the_same_said_at_once_by_many_stands_once(services: Services, caller: Caller) -> None:
    several = await asyncio.gather(*(add(services, caller, "I like tea.") for _ in range(8)))
    assert len({added.results[0].id for added in several}) == 1
    assert sorted(added.results[0].event for added in several) == ["ADD", *["NONE"] * 7]


async def test_history_says_who_and_why_and_goes_when_its_time_comes(
    services: Services, caller: Caller
) -> None:
    [change] = (await add(services, caller, "I like tea.")).results
    await call(services, caller, "update", change.id, text="I like coffee.", reason="so she said")
    await call(services, caller, "feedback", change.id, "POSITIVE")
    await call(services, caller, "delete", change.id, reason="no longer true")
    versions = await call(services, caller, "history", change.id)
    assert [(version.event, version.actor, version.reason) for version in versions] == [
        ("ADD", caller.credential, None),
        ("UPDATE", caller.credential, "so she said"),
        ("FEEDBACK", caller.credential, None),
        ("DELETE", caller.credential, "no longer true"),
    ]
    assert await services.engine.purge(services.tenancy) == 4
    with pytest.raises(UnknownMemory):
        await call(services, caller, "history", change.id)


async def test_feedback_stays_with_the_memory(services: Services, caller: Caller) -> None:
    [change] = (await add(services, caller, "I like tea.", metadata={"a": 1})).results
    await call(services, caller, "feedback", change.id, "NEGATIVE", "It was coffee.")
    memory: Memory = await call(services, caller, "get", change.id)
    assert (memory.feedback, memory.feedback_reason) == ("NEGATIVE", "It was coffee.")
    assert (memory.text, memory.metadata) == ("I like tea.", {"a": 1})


async def test_who_is_deleted_takes_their_memories_along(
    services: Services, caller: Caller, database_url: str
) -> None:
    await add(services, caller, "I like tea.")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("delete from auth.users where id = %s", [caller.credential])
    for table in ("memories", "history"):
        assert await ask(database_url, f"select count(*) from mem0.{table}") == [(0,)]


# Embedders


class Other(RemembersNothing):
    """One whose vectors have another length."""

    model = "other"
    dimension = 3

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


class Broken(Other):
    async def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingFailed(f"{len(texts)} texts could not be embedded.")


@pytest.fixture
async def library(services: Services, tmp_path: Path) -> AsyncIterator[Library]:
    async with Library(services.database.worker, tmp_path) as library:
        yield library


async def test_vectors_of_different_models_are_never_compared(
    services: Services, caller: Caller, library: Library
) -> None:
    await add(services, caller, "I like tea.")
    other = Mem0Library(library, services.tenancy, Other(), services.llm, keep_deleted_days=1)

    async def ask_other(verb: str, *given: Any) -> Any:
        async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
            return await getattr(other, verb)(tx, *given)

    assert await ask_other("search", Wanted("tea")) == []
    [memory] = await ask_other("list", Where())
    assert memory.text == "I like tea."
    await ask_other("add", Addition([Message(content="I like cake.")], KIM, infer=False))
    assert [found.text for found in await ask_other("search", Wanted("tea"))] == ["I like cake."]
    assert [found.text for found in await call(services, caller, "search", Wanted("tea"))] == ["I like tea."]


async def test_without_a_vector_nothing_is_stored(
    services: Services, caller: Caller, library: Library
) -> None:
    broken = Mem0Library(library, services.tenancy, Broken(), services.llm, keep_deleted_days=1)
    wanted = Addition([Message(content="I like tea.")], KIM, infer=False)
    async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
        with pytest.raises(EmbeddingFailed):
            await broken.add(tx, wanted)
    assert await call(services, caller, "list", Where()) == []
