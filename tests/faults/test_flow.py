"""While jobs and events flow, worker, server and Postgres are killed at random. Afterwards every job has run,
every effect stands exactly once, and every subscriber has every event."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from recollect.access import store
from recollect.access.models import NewKey
from recollect.bootstrap import Services, open_services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.errors import Conflict, Unavailable
from recollect.events.webhooks.models import NewEndpoint
from recollect.settings import Settings
from tests.api.serving import free_port
from tests.conftest import until
from tests.events.conftest import Ear
from tests.events.webhooks.receiving import Received, receiving

pytestmark = pytest.mark.anyio

JOBS, WRITES = 1_000, 1_000
KILLS = 20
T = TypeVar("T")

TABLES = """
create table public.flow_wanted (n int primary key);
create table public.flow_effects (n int);
create table public.flow_heard (position bigint);
grant select, insert on public.flow_wanted, public.flow_effects, public.flow_heard to service_role;
"""
WANT = Query("want", "For the test.", "insert into public.flow_wanted (n) values (%(n)s)")


@pytest.fixture
def own_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="recollect-flow-"))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


class Part:
    """A process that is started again whenever it has been killed."""

    def __init__(self, role: str, home: Path, port: int) -> None:
        self._role = role
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
        self._environment = kept | {
            "RECOLLECT_HOME": str(home),
            "RECOLLECT_PORT": str(port),
            "RECOLLECT_WEBHOOKS_ALLOW_PRIVATE": "true",
            "LOG_LEVEL": "ERROR",
        }
        self._process: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def keep(self) -> None:
        while True:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.faults.flow", self._role,
                env=self._environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await self._process.wait()
            finally:
                self.kill()
                await self._process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self.kills += 1
            with suppress(ProcessLookupError):
                self._process.kill()


async def insist(work: Callable[[], Awaitable[T]]) -> T:
    """As a client does that must not lose what it has to say."""
    while True:
        try:
            return await work()
        except (Unavailable, psycopg.OperationalError, httpx.HTTPError):
            await asyncio.sleep(0.05)


async def queue_jobs(services: Services) -> None:
    async def want(number: int) -> None:
        # A repetition of what was acknowledged by nobody may find that it happened.
        with suppress(Conflict):
            async with services.tenancy.acting_as(SERVICE) as tx:
                await tx.run(WANT, {"n": number})
                await services.jobs.enqueue(tx, "flow.effect", {"n": number})

    for number in range(JOBS):
        await insist(lambda number=number: want(number))  # type: ignore[misc]  # bound early
        await asyncio.sleep(0.005)


async def write_through_server(client: httpx.AsyncClient, user: UUID) -> None:
    numbers = iter(range(WRITES))

    async def write(number: int, once: str) -> None:
        body = {"key": f"k{number % 50}", "value": number, "namespace": "flow"}
        answer = await client.post(f"/api/user/{user}/memory", json=body, headers={"Idempotency-Key": once})
        if answer.status_code >= 500:
            raise Unavailable
        answer.raise_for_status()

    async def writer() -> None:
        for number in numbers:
            once = uuid4().hex
            await insist(lambda number=number, once=once: write(number, once))  # type: ignore[misc]

    await asyncio.gather(*(writer() for _ in range(4)))


async def listen(client: httpx.AsyncClient, heard: list[int]) -> None:
    """A client that comes back with the last position it got."""
    while True:
        headers = {"Last-Event-ID": str(heard[-1])} if heard else {"Last-Event-ID": "0"}
        with suppress(httpx.HTTPError, EOFError, TimeoutError):
            async with client.stream("GET", "/api/events", headers=headers) as response:
                ear = Ear(response)
                while response.status_code == 200:
                    event = await ear.next(60)
                    assert event.kind != "reset"
                    heard.append(event.id)
        await asyncio.sleep(0.05)


def kill_postgres(home: Path) -> None:
    with suppress(OSError, ValueError):
        [lock] = home.rglob("keeper.lock")
        os.kill(int(lock.read_text().split()[1]), signal.SIGKILL)


async def wreak_havoc(parts: list[Part], home: Path, seed: int) -> None:
    chance = random.Random(seed)
    # Not for ever: on a busy machine nothing would be up again before it is killed.
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(1.0, 4.0))
        victim = chance.choice([*parts, None])
        if victim is None:
            kill_postgres(home)
        else:
            victim.kill()


@asynccontextmanager
async def beside(*work: Awaitable[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def make_ana(services: Services, hook: str) -> tuple[UUID, str]:
    """A user with a key, whose webhook is told of what happens to her."""
    async with services.tenancy.acting_as(SERVICE) as tx:
        ana = await store.add_user(tx, "ana@example.com", None)
    async with services.tenancy.acting_as(Caller.user(ana)) as tx:
        issued = await services.access.create_key(tx, NewKey(name="test", scopes=["read", "write"]))
        [home] = await services.membership.workspaces(tx)
        await services.webhooks.create(tx, home.id, NewEndpoint(url=hook))
    return ana, issued.key


async def rows(services: Services, query: str) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
            return await (await connection.execute(query.encode())).fetchall()

    return await insist(ask)


async def all_is_quiet(services: Services) -> bool:
    [(left,)] = await rows(
        services,
        "select (select count(*) from jobs.runs where state in ('waiting', 'running'))"
        " + (select count(*) from events.log where position is null)"
        " + (select count(*) from events.deliveries where state = 'pending')",
    )
    return bool(left == 0)


def told_in_order(received: list[Received]) -> list[int]:
    """The positions that a webhook was told, once each; a repetition carries the id that it had before."""
    first: dict[str, dict[str, Any]] = {}
    for delivery in received:
        first.setdefault(delivery.id, json.loads(delivery.body)["data"])
    by_subject = defaultdict[str, list[int]](list)
    for data in first.values():
        by_subject[data["subject"]].append(data["position"])
    for positions in by_subject.values():
        assert positions == sorted(positions)
    return sorted(position for positions in by_subject.values() for position in positions)


@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_nothing_doubled_whatever_is_killed(own_home: Path, seed: int) -> None:
    port = free_port()
    parts = [Part(role, own_home, port) for role in ("serve", "work", "work")]
    settings = Settings(home=own_home, webhooks_allow_private=True, _env_file=None)
    async with receiving() as receiver, open_services(settings) as services:
        async with await psycopg.AsyncConnection.connect(services.database.admin, autocommit=True) as admin:
            await admin.execute(TABLES)
        ana, key = await make_ana(services, receiver.url)
        heard: list[int] = []
        assert services.database.embedded is not None
        async with (
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=20
            ) as client,
            beside(services.database.embedded.watch(), *(part.keep() for part in parts)),
            beside(listen(client, heard)),
        ):
            async with beside(wreak_havoc(parts, own_home, seed)):
                await asyncio.gather(queue_jobs(services), write_through_server(client, ana))
            await until(lambda: all_is_quiet(services), 150)

            wanted = Counter(number for (number,) in await rows(services, "select n from flow_wanted"))
            assert len(wanted) == JOBS
            effects = Counter(number for (number,) in await rows(services, "select n from flow_effects"))
            assert effects == wanted

            states = await rows(services, "select distinct state from jobs.runs")
            assert states == [("succeeded",)]

            told = "select position from events.log where type = 'memory.added'"
            events = Counter(position for (position,) in await rows(services, told))
            assert events.total() == JOBS
            subscriber = Counter(p for (p,) in await rows(services, "select position from flow_heard"))
            assert subscriber == events

            mine = [
                p
                for (p,) in await rows(services, "select position from events.log where user_id is not null")
            ]
            # An acknowledged write has its event; a repeated one none more, since keys make it one.
            assert len(mine) == WRITES
            await until(lambda: len(set(heard)) >= len(mine))
            assert sorted(heard) == sorted(mine)
            assert told_in_order(receiver.received) == sorted(mine)
    assert sum(part.kills for part in parts) > 5
