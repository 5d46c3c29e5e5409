"""The promises of jobs and events: the cost of queueing, of idling, and how fast they run and arrive."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx
import psutil
import psycopg

from bench.foundation import free_port, postgres_seconds, serving
from bench.report import Figure, at_least, at_most
from recollect.access.membership_models import NamedWorkspace, NewWorkspaceMember
from recollect.access.models import NewKey, NewUser
from recollect.bank.store import queries as bank_queries
from recollect.bootstrap import Services, open_services
from recollect.db.database import open_tenancy
from recollect.db.tenancy import SERVICE, Caller
from recollect.settings import Settings

JOBS = 3_000
CLIENTS = 200
EVENTS = 100
IDLE_SECONDS = 30


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        async with open_services(Settings(home=home)) as services:
            return [
                *await _queueing(services),
                *await _throughput(services, home),
                *await _arriving(services, home),
                *await _idling(home),
            ]


async def _queueing(services: Services) -> list[Figure]:
    """Round trips of a transaction with and without a job, as libpq counts them."""
    user = (await services.access.create_user(NewUser(email="bench@example.com"))).id
    parameters = {"user_id": user, "namespace": "default", "after": "", "limit": 1}
    counts = {}
    async with open_tenancy(services.database, 1, 1) as tenancy:
        for is_queueing in (False, True, False, True):
            # The second round: by then every statement is prepared.
            with tempfile.TemporaryFile("w+b") as trace:
                async with tenancy._api_pool.connection() as only_one:
                    only_one.pgconn.trace(trace.fileno())
                async with tenancy.acting_as(Caller.user(user)) as tx:
                    await tx.all(bank_queries.list_entries, parameters)
                    if is_queueing:
                        await services.jobs.enqueue(tx, "bench.later")
                only_one.pgconn.untrace()
                trace.seek(0)
                counts[is_queueing] = trace.read().count(b"ReadyForQuery")
    extra = counts[True] - counts[False]
    async with await psycopg.AsyncConnection.connect(services.database.admin, autocommit=True) as admin:
        await admin.execute("delete from jobs.runs")
    return [at_most("round trips of queueing a job", extra, "", 1.5, "in the caller's transaction, by libpq")]


async def _throughput(services: Services, home: Path) -> list[Figure]:
    bare = await _bare_rate(services, home)
    one, two = [await _our_rate(services, home, workers) for workers in (1, 2)]
    return [
        at_least("jobs through one worker", one, "/s", 150, f"{JOBS} no-ops, each with its record"),
        at_least("jobs through two workers", two, "/s", 350, "two processes"),
        Figure(
            "one worker / procrastinate as it comes", one / bare, "x", detail=f"bare {bare:.0f}/s, no records"
        ),
    ]


async def _our_rate(services: Services, home: Path, workers: int) -> float:
    async with services.tenancy.acting_as(SERVICE) as tx:
        for _ in range(JOBS):
            await services.jobs.enqueue(tx, "bench.nothing")
    async with _workers("ours", home, workers), await _admin(services) as admin:
        left = 1.0
        while left:
            await asyncio.sleep(0.2)
            left = await _value(admin, "select count(*) from jobs.runs where finished_at is null")
        seconds = await _value(
            admin, "select extract(epoch from max(finished_at) - min(started_at))::float8 from jobs.runs"
        )
        await admin.execute("delete from jobs.runs")
    return JOBS / seconds


async def _bare_rate(services: Services, home: Path) -> float:
    async with await _admin(services) as admin:
        await admin.execute(
            "insert into jobs.procrastinate_jobs (queue_name, task_name)"
            " select 'bare', 'bare' from generate_series(1, %s)",
            (JOBS,),
        )
        async with _workers("bare", home, 1):
            left = float(JOBS)
            while left == JOBS:
                await asyncio.sleep(0.01)
                left = await _value(
                    admin, "select count(*) from jobs.procrastinate_jobs where status = 'todo'"
                )
            began, at_first = time.perf_counter(), left
            while left:
                await asyncio.sleep(0.1)
                left = await _value(
                    admin, "select count(*) from jobs.procrastinate_jobs where status = 'todo'"
                )
            rate = at_first / (time.perf_counter() - began)
        await admin.execute("delete from jobs.procrastinate_jobs")
    return rate


async def _admin(services: Services) -> psycopg.AsyncConnection[tuple[object, ...]]:
    return await psycopg.AsyncConnection.connect(services.database.admin, autocommit=True)


async def _value(connection: psycopg.AsyncConnection[tuple[object, ...]], query: str) -> float:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return float(row[0])  # type: ignore[arg-type]  # every query here gives a number


@asynccontextmanager
async def _workers(kind: str, home: Path, count: int) -> AsyncIterator[None]:
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.worker", kind, str(home),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )
        for _ in range(count)
    ]  # fmt: skip
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        await asyncio.gather(*(process.wait() for process in started))


async def _arriving(services: Services, home: Path) -> list[Figure]:
    """From just before the commit to every one of the clients, all members of one workspace."""
    owner, workspace, keys = await _audience(services)
    port = free_port()
    sent: dict[int, float] = {}
    taken: list[float] = []
    ready = asyncio.Semaphore(0)
    async with serving(home, port), AsyncExitStack() as stack:
        limits = httpx.Limits(max_connections=CLIENTS)
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60)
        )
        listening = [asyncio.create_task(_listen(client, key, sent, taken, ready)) for key in keys]
        for _ in keys:
            await ready.acquire()
        for number in range(EVENTS):
            sent[number] = time.perf_counter()
            async with services.tenancy.acting_as(Caller.user(owner)) as tx:
                await services.events.publish(
                    tx, "rule.approved", f"rule/{number}", {"n": number}, workspace_id=workspace
                )
            await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            await asyncio.gather(*listening)
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    detail = f"{EVENTS} events to each of {CLIENTS} clients; median {p50 * 1000:.0f} ms"
    return [at_most("an event reaches a live client, p95", p95 * 1000, "ms", 100, detail)]


async def _audience(services: Services) -> tuple[UUID, UUID, list[str]]:
    owner = (await services.access.create_user(NewUser(email="owner@example.com"))).id
    async with services.tenancy.acting_as(Caller.user(owner)) as tx:
        workspace = (await services.membership.create_workspace(tx, NamedWorkspace(name="Bench"))).id
    keys = []
    for number in range(CLIENTS):
        user = (await services.access.create_user(NewUser(email=f"u{number}@example.com"))).id
        async with services.tenancy.acting_as(Caller.user(owner)) as tx:
            await services.membership.workspace_members.add(
                tx, workspace, NewWorkspaceMember(user_id=user, role="viewer")
            )
        async with services.tenancy.acting_as(Caller.user(user)) as tx:
            keys.append((await services.access.create_key(tx, NewKey(name="bench"))).key)
    return owner, workspace, keys


async def _listen(
    client: httpx.AsyncClient, key: str, sent: dict[int, float], taken: list[float], ready: asyncio.Semaphore
) -> None:
    headers, heard = {"Authorization": f"Bearer {key}"}, 0
    async with client.stream("GET", "/api/events", headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("retry"):
                ready.release()
            elif line.startswith("data: "):
                arrived = time.perf_counter()
                taken.append(arrived - sent[json.loads(line[6:])["data"]["n"]])
                heard += 1
                if heard == EVENTS:
                    return


async def _idling(home: Path) -> list[Figure]:
    """Of the server with its worker, and of Postgres, with nobody asking for anything."""
    port = free_port()
    async with serving(home, port):
        await asyncio.sleep(5)
        before = _cpu_seconds(home, port)
        await asyncio.sleep(IDLE_SECONDS)
        after = _cpu_seconds(home, port)
    server, postgres = ((b - a) / IDLE_SECONDS * 100 for a, b in zip(before, after, strict=True))
    return [
        at_most("an idle server", server, "% of a core", 2, f"over {IDLE_SECONDS} s, worker included"),
        Figure("its Postgres meanwhile", postgres, "% of a core"),
    ]


def _cpu_seconds(home: Path, port: int) -> tuple[float, float]:
    server = 0.0
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        command, times = process.info["cmdline"] or [], process.info["cpu_times"]
        if times is not None and "serve" in command and str(port) in command:
            server += times.user + times.system
    return server, postgres_seconds(home)
