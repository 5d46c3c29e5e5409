"""The foundation's promises: a read through the whole stack, what tenancy costs, round trips, start-up."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx
import psutil
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.load import load
from bench.report import Figure, at_least, at_most
from recollect.access.models import NewKey, NewUser
from recollect.bank.store import queries
from recollect.bootstrap import Services, open_services
from recollect.db.database import open_tenancy
from recollect.db.tenancy import SERVICE, Caller
from recollect.settings import Settings

ROUNDS = 5
ROUND_SECONDS = 3.0
CONNECTIONS = 16


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        figures = await _starting(home)
        async with open_services(Settings(home=home)) as services:
            user, key = await _tenant(services)
            figures += await _reading(services, home, user, key)
            figures += await _transactions(services, user)
            figures += await _round_trips(services, user)
    return figures


async def _tenant(services: Services) -> tuple[UUID, str]:
    user = await services.access.create_user(NewUser(email="bench@example.com"))
    async with services.tenancy.acting_as(Caller.user(user.id)) as tx:
        issued = await services.access.create_key(tx, NewKey(name="bench"))
        await services.bank.set_memory_key(tx, user.id, "tone", {"warmth": 3, "languages": ["es", "en"]})
    return user.id, issued.key


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postgres_seconds(home: Path) -> float:
    """What the server there has worked so far, whoever else was working on this machine."""
    seconds = 0.0
    for process in psutil.process_iter(["cwd", "cpu_times"]):
        folder, times = process.info["cwd"], process.info["cpu_times"]
        if times is not None and folder and Path(folder).is_relative_to(home):
            # Of connections that have ended, their parent knows.
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


@asynccontextmanager
async def _process(*command: str, ready: str, **environment: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient() as client:
            for _ in range(1200):
                try:
                    await client.get(ready)
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def serving(home: Path, port: int, **environment: str) -> AbstractAsyncContextManager[None]:
    return _process(
        sys.executable, "-m", "recollect", "serve", "--port", str(port),
        ready=f"http://127.0.0.1:{port}/health",
        RECOLLECT_HOME=str(home), **environment,
    )  # fmt: skip


async def _starting(home: Path) -> list[Figure]:
    seconds = []
    for _ in range(2):
        port = free_port()
        started = time.perf_counter()
        async with serving(home, port):
            seconds.append(time.perf_counter() - started)
    return [
        at_most("first start, to a healthy answer", seconds[0], "s", 60, "recollect serve on an empty home"),
        at_most("later start, to a healthy answer", seconds[1], "s", 5, "the same home again"),
    ]


async def _reading(services: Services, home: Path, user: UUID, key: str) -> list[Figure]:
    path = f"/api/user/{user}/memory"
    ports = {name: free_port() for name in ("recollect", "transaction", "autocommit")}
    rates: dict[str, list[float]] = {name: [] for name in ports}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(home, ports["recollect"]))
        for mode in ("transaction", "autocommit"):
            peer = _process(
                sys.executable, "-m", "bench.bare_app", services.database.admin, str(ports[mode]), mode,
                ready=f"http://127.0.0.1:{ports[mode]}{path}",
            )  # fmt: skip
            await stack.enter_async_context(peer)
        for _ in range(ROUNDS):
            for name, port in ports.items():
                outcome = await load(port, path, key, connections=CONNECTIONS, seconds=ROUND_SECONDS)
                assert outcome.failed == 0, f"{name} failed {outcome.failed} times"
                rates[name].append(outcome.rate)
    ours = statistics.median(rates["recollect"])
    ratio = {
        name: statistics.median(a / b for a, b in zip(rates["recollect"], rates[name], strict=True))
        for name in ("transaction", "autocommit")
    }
    return [
        at_least(
            "bank read, whole stack / bare FastAPI + psycopg",
            ratio["transaction"], "x", 0.5, f"{ours:.0f}/s; bare as psycopg comes; goal 0.6",
        ),
        Figure(
            "bank read, whole stack / bare with autocommit",
            ratio["autocommit"], "x", detail="the leanest peer there is",
        ),
    ]  # fmt: skip


async def _transactions(services: Services, user: UUID) -> list[Figure]:
    parameters = {"user_id": user, "namespace": "default", "after": "", "limit": 1001}

    async with (
        open_tenancy(services.database, 1, 1) as tenancy,
        AsyncConnectionPool(services.database.admin, min_size=1, max_size=1, open=False) as pool,
    ):

        def acting(caller: Caller) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                async with tenancy.acting_as(caller, for_one_call=True) as tx:
                    await tx.all(queries.list_entries, parameters, last=True)

            return work

        async def plain() -> None:
            async with pool.connection() as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(queries.list_entries.text, parameters)
                await cursor.fetchall()

        with_role, with_user, alone = await _medians(acting(SERVICE), acting(Caller.user(user)), plain)
    return [
        at_most(
            "statement with role and claims / begin, statement, commit",
            with_role / alone, "x", 1.0, f"{with_role * 1e6:.0f} µs on one connection",
        ),
        Figure(
            "the same, looking the user up as well",
            with_user / alone, "x", detail=f"{with_user * 1e6:.0f} µs; what a request pays",
        ),
    ]  # fmt: skip


async def _medians(*works: Callable[[], Awaitable[None]], times: int = 2000) -> list[float]:
    """Median seconds of each, taken in turns, so that noise falls on all alike."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, taken in zip(works, seconds, strict=True):
            started = time.perf_counter()
            await work()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in seconds]


async def _round_trips(services: Services, user: UUID) -> list[Figure]:
    async with open_tenancy(services.database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
            await services.bank.set_memory_key(tx, user, "k", 1)
        with tempfile.TemporaryFile("w+b") as trace:
            async with tenancy._api_pool.connection() as only_one:
                only_one.pgconn.trace(trace.fileno())
            async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
                await services.bank.set_memory_key(tx, user, "k", 2)
            only_one.pgconn.untrace()
            trace.seek(0)
            answers = trace.read().count(b"ReadyForQuery")
    return [at_most("round trips of a write of one key", answers, "", 1, "counted by libpq")]
