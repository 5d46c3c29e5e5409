"""What the brain promises: many facts in one call, a steady load of companies, a quick look for drift."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from bench.report import Figure, at_least, at_most
from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.brain.loading import Loading
from recollect.brain.models import Owner
from recollect.db.tenancy import Caller
from recollect.settings import Settings

FACTS = 1_000
COMPANIES = 10_000
PAIRS = 100_000

# Distinct texts of the length that facts have.
_COMPANIES = """
insert into companies (name, rut, tax_regime, activity_name, activity_code, legal_representative, start_date,
                       accounting_start_month)
select 'Company ' || n, n::text, 'ProPyme ' || mod(n, 3), 'Activity ' || mod(n, 200), 470000 + mod(n, 200),
       'Representative number ' || n, date '2000-01-01' + mod(n, 9000), (1 + mod(n, 12))::text
from generate_series(1, %s) n
"""


async def measure() -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(home=Path(folder) / "home", embedding="static", _env_file=None)
        async with open_services(settings) as services:
            figures += await _loading(services)
            figures += await _in_one_call(services)
            figures += await _reconciling(services)
    return figures


async def _in_one_call(services: Services) -> list[Figure]:
    one, other = [await _somebody(services, number) for number in range(2)]
    facts = [
        {"slug": f"fact_{number}", "content": f"This is fact number {number}."} for number in range(FACTS)
    ]
    seconds: dict[str, tuple[float, float]] = {}
    for round_ in ("new", "changed"):
        wanted = [{**fact, "content": f"{fact['content']} It is {round_}."} for fact in facts]
        begun = time.perf_counter()
        for fact in wanted:
            await _save(services, one, [fact])
        each = time.perf_counter() - begun
        begun = time.perf_counter()
        await _save(services, other, wanted)
        seconds[round_] = each, time.perf_counter() - begun
    return [
        at_least(
            f"{FACTS:,} {round_} facts in one call against one call each",
            each / together,
            "times as fast",
            10,
            f"{together:.2f} s against {each:.2f} s",
        )
        for round_, (each, together) in seconds.items()
    ]


async def _save(services: Services, user: UUID, facts: list[dict[str, str]]) -> None:
    async with services.tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
        saved = await services.brain.save(tx, Owner("user", user), facts)
    assert saved.success, saved.errors[:3]


async def _somebody(services: Services, number: int) -> UUID:
    return (await services.access.create_user(NewUser(email=f"somebody{number}@example.com"))).id


async def _loading(services: Services) -> list[Figure]:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        await connection.execute(_COMPANIES, (COMPANIES,))
    begun = time.perf_counter()
    moments: list[tuple[int, float]] = [(0, begun)]

    async def progress(done: int, total: int, checkpoint: Mapping[str, Any]) -> None:
        del total, checkpoint
        moments.append((done, time.perf_counter()))

    loading = Loading(services.tenancy, services.brain, "es")
    loaded = await loading.load_all_companies(progress)
    assert loaded["loaded_companies"] == COMPANIES, loaded
    at = dict(moments)
    first = at[1_000] - at[0]
    last = at[COMPANIES] - at[COMPANIES - 1_000]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    created = loaded["total_memories_created"]
    detail = f"{last:.1f} s against {first:.1f} s; {created / (at[COMPANIES] - begun):,.0f} memories a second"
    return [
        at_most(
            "the last 1,000 of 10,000 companies loaded against the first",
            last / first,
            "times as long",
            1.2,
            detail,
        ),
        at_most("memory of the process, at its most", memory, "MB", 200, f"{created:,} memories made"),
    ]


async def _reconciling(services: Services) -> list[Figure]:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        cursor = await connection.execute("select count(*) from company_brain")
        row = await cursor.fetchone()
        assert row is not None
        missing = PAIRS - row[0]
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        await connection.execute(_COMPANIES, (missing // 5,))
    await Loading(services.tenancy, services.brain, "es").load_all_companies(_unheard)
    begun = time.perf_counter()
    mended = await services.brain.reconcile()
    seconds = time.perf_counter() - begun
    assert mended.checked >= PAIRS, mended
    assert sum(mended.counts.values()) == mended.checked, mended
    return [at_most("100,000 pairs without drift reconciled", seconds, "s", 60, f"{mended.checked:,} pairs")]


async def _unheard(done: int, total: int, checkpoint: Mapping[str, Any]) -> None: ...
