"""What the profile promises: a late version read as fast as an early one, little room for many small edits,
and a daily update whose last thousand users take no longer than the first."""

from __future__ import annotations

import random
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from bench.foundation import postgres_seconds
from bench.report import Figure, at_least, at_most
from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.database import open_tenancy
from recollect.db.tenancy import Caller
from recollect.profile.canonical import canonical
from recollect.profile.compacting import Compactor
from recollect.settings import Settings

VERSIONS = 10_000
DOCUMENT_BYTES = 50_000
READS = 300
USERS = 10_000
SHARE = 50

_WORDS = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text().split()

_PEOPLE = """
with made as (
  insert into auth.users (email) select 'u' || n || '@example.com' from generate_series(1, %s) n returning id
)
insert into activities (user_id, kind, content)
select m.id, 'note', 'The critic in me was loud today. I want to feel calm on stage. Note ' || n || '.'
from made m, generate_series(1, 3) n
"""


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(home=Path(folder) / "home", embedding="static", _env_file=None)
        async with open_services(settings) as services:
            return [*await _versions(services), *await _daily(services)]


def _document(chance: random.Random) -> dict[str, Any]:
    """A state of about 50 KB, of words that people write."""
    document: dict[str, Any] = {
        "version": 0,
        "last_updated_by": "user",
        "summary": _said(chance, 120),
        "parts": {},
        "triggers_and_goals": [],
        "safety_notes": _said(chance, 40),
    }
    while len(canonical(document)) < DOCUMENT_BYTES:
        number = len(document["parts"])
        document["parts"][f"part_{number}"] = {
            "name": _said(chance, 2),
            "status": "active",
            "recency_score": round(chance.random(), 2),
            "influence_score": round(chance.random(), 2),
            "goals": [{"goal": _said(chance, 12)} for _ in range(3)],
        }
        document["triggers_and_goals"].append(
            {
                "trigger": _said(chance, 5),
                "desired_outcome": _said(chance, 8),
                "related_parts": [f"part_{number}"],
            }
        )
    return document


def _said(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


async def _versions(services: Services) -> list[Figure]:
    early, late = [
        (await services.access.create_user(NewUser(email=f"{name}@example.com"))).id
        for name in ("early", "late")
    ]
    chance = random.Random(7)
    document = _document(chance)
    for user_id, upto in ((early, 10), (late, VERSIONS)):
        async with services.tenancy.acting_as(Caller.user(user_id)) as tx:
            await services.profile.replace(tx, user_id, document)
        await _edit(services, user_id, upto - 1, random.Random(11))
    figures = await _reading(services, early, late)
    # As far from a checkpoint as a version can be.
    await _edit(services, late, 49, random.Random(13))
    figures += await _reading(services, early, late)
    trips = await _round_trips(services, late)
    figures.append(at_most("round trips of reading the latest state", trips, "", 1, "counted by libpq"))
    return [*figures, *await _room(services, late)]


async def _edit(services: Services, user_id: UUID, times: int, chance: random.Random) -> None:
    for begin in range(0, times, 500):
        async with services.tenancy.acting_as(Caller.user(user_id)) as tx:
            for _ in range(min(500, times - begin)):
                edited = f"/parts/part_{chance.randrange(60)}/recency_score"
                patch = [{"op": "replace", "path": edited, "value": round(chance.random(), 3)}]
                await services.profile.save_new_snapshot(tx, user_id, patch)


async def _reading(services: Services, early: UUID, late: UUID) -> list[Figure]:
    seconds: dict[UUID, list[float]] = {early: [], late: []}
    version = 0
    for _ in range(READS):
        # In turns, so that whatever else the machine does meets both.
        for user_id, taken in seconds.items():
            begun = time.perf_counter()
            async with services.tenancy.acting_as(Caller.user(user_id), for_one_call=True) as tx:
                version = (await services.profile.reconstruct_memory(tx, user_id)).version
            taken.append(time.perf_counter() - begun)
    first, last = (statistics.median(seconds[user_id]) for user_id in (early, late))
    return [
        at_most(
            f"the latest state at version {version:,} against that at version 10",
            last / first,
            "times as long",
            1.5,
            f"{last * 1000:.2f} ms against {first * 1000:.2f} ms",
        ),
    ]


async def _round_trips(services: Services, user_id: UUID) -> int:
    """Of one read, as libpq counts them; of the second, when every statement is prepared."""
    answers = 0
    async with open_tenancy(services.database, 1, 1) as tenancy:
        for _ in range(2):
            with tempfile.TemporaryFile("w+b") as trace:
                async with tenancy._api_pool.connection() as only_one:
                    only_one.pgconn.trace(trace.fileno())
                async with tenancy.acting_as(Caller.user(user_id), for_one_call=True) as tx:
                    await services.profile.reconstruct_memory(tx, user_id)
                only_one.pgconn.untrace()
                trace.seek(0)
                answers = trace.read().count(b"ReadyForQuery")
    return answers


async def _room(services: Services, user_id: UUID) -> list[Figure]:
    """Beside a table that has each version whole, with the same compression."""
    every = services.settings.profile_checkpoint_every
    before = await _measured(services, "user_memory_snapshots")
    await Compactor(services.tenancy, services.profile, checkpoint_every=every).compact()
    async with await psycopg.AsyncConnection.connect(services.database.admin, autocommit=True) as connection:
        await connection.execute("vacuum full user_memory_snapshots")
        await connection.execute(
            "create table whole as select user_id, version, jsonb_set(full_snapshot_content, '{version}',"
            " to_jsonb(n)) as content, created_at from user_memory_snapshots, generate_series(1, %s) n"
            " where user_id = %s and version = 1",
            (VERSIONS, user_id),
        )
    patched, whole = [await _measured(services, name) for name in ("user_memory_snapshots", "whole")]
    return [
        at_most(
            f"room for {VERSIONS:,} small edits of a 50 KB document against each version whole",
            100 * patched / whole,
            "%",
            3,
            f"{patched / 2**20:.1f} MB with indexes ({before / 2**20:.1f} before compaction) against "
            f"{whole / 2**20:.0f} MB as Postgres compresses it",
        )
    ]


async def _measured(services: Services, table: str) -> int:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        cursor = await connection.execute("select pg_total_relation_size(%s)", (table,))
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def _daily(services: Services) -> list[Figure]:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        await connection.execute(_PEOPLE.encode(), (USERS,))
        await connection.commit()
        await connection.set_autocommit(True)
        await connection.execute("analyze")
        cursor = await connection.execute("select distinct user_id from activities order by 1")
        users = [row[0] for row in await cursor.fetchall()]
    period, memory = datetime.now(UTC), [_memory()]
    begun, worked = time.perf_counter(), [_worked(services)]
    for begin in range(0, USERS, SHARE):
        share: Sequence[UUID] = users[begin : begin + SHARE]
        counts = await services.updater.update_some(share, period)
        assert counts["updated"] == len(share), counts
        if (begin + SHARE) % 1_000 == 0:
            worked.append(_worked(services))
            memory.append(_memory())
    took = time.perf_counter() - begun
    first, last = worked[1] - worked[0], worked[-1] - worked[-2]
    return [
        at_least(
            "users updated without a model",
            USERS / took,
            "a second",
            100,
            f"{USERS:,} users with 3 activities each, in one process",
        ),
        at_most(
            "the last 1,000 of 10,000 users against the first",
            last / first,
            "times as long",
            1.2,
            f"{last:.1f} s against {first:.1f} s of processors' time, Postgres included",
        ),
        at_most(
            "memory of the process, after 10,000 users against after 1,000",
            memory[-1] / memory[1],
            "times",
            1.1,
            f"{memory[-1]:.0f} MB against {memory[1]:.0f} MB",
        ),
    ]


def _worked(services: Services) -> float:
    """Seconds of processors so far: the clock would also tell what else the machine did."""
    return time.process_time() + postgres_seconds(services.settings.home)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
