"""Memories of companies and users that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.brain.loading import PAGE, Loading
from recollect.brain.models import Kind, NewMemory, Owner, Saved, UnknownOwner
from recollect.brain.service import Brain
from recollect.brain.tasks import tasks
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import Unavailable
from tests.brain.conftest import Knower
from tests.conftest import working
from tests.jobs.conftest import ended, queue

COMPANY = {
    "tax_regime": "ProPyme General",
    "activity_name": "Comercio al por menor",
    "activity_code": "471100",
    "legal_representative": "Juan Pérez",
    "start_date": date(2020, 3, 1),
    "accounting_start_month": "3",
}
COMPANY_FACTS = {
    "company_tax_regime": "Régimen tributario: ProPyme General",
    "company_activity": "Actividad económica: Comercio al por menor (471100)",
    "company_legal_representative": "Representante legal: Juan Pérez",
    "company_start_date": "Inicio de actividades: 2020-03-01",
    "company_accounting_start": "Mes de inicio de la contabilidad: marzo",
}
TOO_LONG = "x" * 60_000


class Watched(Brain):
    """The brain. It notes how large each batch is, and fails for some, or once after so many batches."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self.batches: list[int] = []
        self.refuses: set[UUID] = set()
        self.breaks_after: int | None = None

    async def save_for_many(
        self,
        tenancy: Tenancy,
        batch: Sequence[tuple[Owner, Sequence[NewMemory]]],
        *,
        reason: str | None = None,
    ) -> list[Saved]:
        if self.breaks_after == len(self.batches):
            self.breaks_after = None
            raise Unavailable
        self.batches.append(len(batch))
        saved = iter(
            await self._brain.save_for_many(
                tenancy, [each for each in batch if each[0].id not in self.refuses], reason=reason
            )
        )
        return [
            Saved(success=False, failed_count=len(memories), errors=["no"])
            if owner.id in self.refuses
            else next(saved)
            for owner, memories in batch
        ]


@pytest.fixture
def brain(services: Services) -> Watched:
    return Watched(services.brain)


@pytest.fixture
def loading(services: Services, brain: Watched) -> Loading:
    """Workers do their jobs with this one."""
    watched = Loading(services.tenancy, brain, "es")
    services.jobs.offer(*tasks(services.brain, watched))
    return watched


async def known(services: Services, kind: Kind, owner_id: UUID) -> dict[str, str]:
    return await Knower(services, SERVICE, Owner(kind, owner_id)).known()


async def execute(database_url: str, sql: LiteralString, *parameters: object) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        cursor = await connection.execute(sql, parameters)
        return await cursor.fetchall() if cursor.description else []


async def new_company(database_url: str, **columns: object) -> UUID:
    row: dict[str, object] = dict.fromkeys(COMPANY) | columns
    [[company]] = await execute(
        database_url,
        "insert into companies (name, tax_regime, activity_name, activity_code, legal_representative,"
        " start_date, accounting_start_month) values ('Company', %s, %s, %s, %s, %s, %s) returning id",
        *row.values(),
    )
    assert isinstance(company, UUID)
    return company


async def many_companies(database_url: str, count: int) -> None:
    await execute(
        database_url,
        "insert into companies (name, tax_regime) select n, n from generate_series(1, %s::int) n",
        count,
    )


async def nobody_watches(done: int, total: int, checkpoint: Mapping[str, Any]) -> None:
    pass


async def test_a_company_is_known_by_what_is_in_its_row(
    services: Services, loading: Loading, database_url: str
) -> None:
    company = await new_company(database_url, **COMPANY)
    saved = await loading.load_company_memories(company)
    assert (saved.success, saved.saved_count, saved.created) == (True, 5, 5)
    assert await known(services, "company", company) == COMPANY_FACTS
    assert (await loading.load_company_memories(company)).created == 0


async def test_a_user_is_known_by_what_is_in_their_profile(
    services: Services, loading: Loading, database_url: str
) -> None:
    user = (await services.access.create_user(NewUser(email="juan@example.com"))).id
    columns: LiteralString = "full_name = 'Juan Pérez', phone = '+56 9 1234', role = 'Contador'"
    await execute(database_url, f"update profiles set {columns} where id = %s", user)
    assert (await loading.load_user_memories(user)).created == 4
    assert await known(services, "user", user) == {
        "user_full_name": "Nombre completo: Juan Pérez",
        "user_email": "Correo electrónico: juan@example.com",
        "user_phone": "Teléfono: +56 9 1234",
        "user_role": "Cargo: Contador",
    }


async def test_who_is_not_there_cannot_be_loaded(loading: Loading) -> None:
    nobody = uuid4()
    for load in (loading.load_company_memories, loading.load_user_memories):
        with pytest.raises(UnknownOwner, match=str(nobody)):
            await load(nobody)


async def test_all_companies_are_loaded_page_by_page_and_counted(
    services: Services, loading: Loading, brain: Watched, database_url: str
) -> None:
    full = await new_company(database_url, **COMPANY)
    empty = await new_company(database_url)
    unfit = await new_company(database_url, tax_regime=TOO_LONG)
    refused = await new_company(database_url, **COMPANY)
    brain.refuses = {refused}
    await many_companies(database_url, 2 * PAGE)
    seen: list[tuple[int, int]] = []

    async def progress(done: int, total: int, checkpoint: Mapping[str, Any]) -> None:
        seen.append((done, total))

    everybody = 2 * PAGE + 4
    assert await loading.load_all_companies(progress) == {
        "total_companies": everybody,
        "loaded_companies": everybody - 2,
        "failed_companies": 2,
        "total_memories_created": 2 * PAGE + 5,
    }
    assert seen == [(PAGE, everybody), (2 * PAGE, everybody), (everybody, everybody)]
    assert max(brain.batches) <= PAGE
    assert await known(services, "company", full) == COMPANY_FACTS
    for company in (empty, unfit, refused):
        assert await known(services, "company", company) == {}
    again = await loading.load_all_companies(nobody_watches)
    assert (again["loaded_companies"], again["total_memories_created"]) == (everybody - 2, 0)


async def test_all_users_are_loaded_and_counted(loading: Loading, services: Services) -> None:
    for name in ("ana", "ben"):
        await services.access.create_user(NewUser(email=f"{name}@example.com"))
    assert await loading.load_all_users(nobody_watches) == {
        "total_users": 2,
        "loaded_users": 2,
        "failed_users": 0,
        "total_memories_created": 2,
    }


async def test_without_companies_there_is_nothing_to_do(loading: Loading, brain: Watched) -> None:
    assert set((await loading.load_all_companies(nobody_watches)).values()) == {0}
    assert brain.batches == []


async def test_a_job_goes_on_where_an_earlier_attempt_stopped(
    services: Services, loading: Loading, brain: Watched, database_url: str
) -> None:
    await many_companies(database_url, 2 * PAGE + 1)
    brain.breaks_after = 1
    async with working(services):
        run = await ended(services, await queue(services, "memory.load_all_companies_memories"))
    assert (run.state, run.attempt, run.done, run.total) == ("succeeded", 2, 2 * PAGE + 1, 2 * PAGE + 1)
    assert run.result == {
        "total_companies": 2 * PAGE + 1,
        "loaded_companies": 2 * PAGE + 1,
        "failed_companies": 0,
        "total_memories_created": 2 * PAGE + 1,
    }
    assert brain.batches == [PAGE, PAGE, 1], "no page is loaded twice"


async def test_jobs_load_one_company_and_one_user(services: Services, ana: Knower, database_url: str) -> None:
    company = await new_company(database_url, **COMPANY)
    async with working(services):
        jobs = [
            await queue(services, "memory.load_company_memories", {"company_id": str(company)}),
            await queue(services, "memory.load_user_memories", {"user_id": str(ana.owner.id)}),
            await queue(services, "memory.load_all_users_memories"),
        ]
        results = [(await ended(services, job)).result for job in jobs]
    assert results[:2] == [
        {"saved_count": 5, "failed_count": 0, "errors": None},
        {"saved_count": 1, "failed_count": 0, "errors": None},
    ]
    assert results[2] is not None
    assert (results[2]["total_users"], results[2]["failed_users"]) == (1, 0)
    assert await known(services, "company", company) == COMPANY_FACTS
    assert await ana.known() == {"user_email": "Correo electrónico: ana@example.com"}


async def test_a_job_says_what_could_not_be_saved(
    services: Services, loading: Loading, brain: Watched, database_url: str
) -> None:
    company = await new_company(database_url, **COMPANY)
    brain.refuses = {company}
    async with working(services):
        asked = {"company_id": str(company)}
        run = await ended(services, await queue(services, "memory.load_company_memories", asked))
    assert run.result == {"saved_count": 0, "failed_count": 5, "errors": "no"}


async def test_a_job_for_nobody_gives_up_at_once(
    services: Services, loading: Loading, database_url: str
) -> None:
    nobody, unfit = uuid4(), await new_company(database_url, tax_regime=TOO_LONG)
    wanted: dict[str, tuple[str, dict[str, Any]]] = {
        f"There is no company {nobody}.": ("memory.load_company_memories", {"company_id": str(nobody)}),
        f"There is no user {nobody}.": ("memory.load_user_memories", {"user_id": str(nobody)}),
        "company_id must be a UUID.": ("memory.load_company_memories", {"company_id": "acme"}),
        "user_id must be a UUID.": ("memory.load_user_memories", {}),
        "tax_regime: too long; company_tax_regime has room for 50,000 characters.": (
            "memory.load_company_memories",
            {"company_id": str(unfit)},
        ),
    }
    async with working(services):
        for error, (task, arguments) in wanted.items():
            run = await ended(services, await queue(services, task, arguments))
            assert (run.state, run.attempt, run.error) == ("failed", 1, error)


async def test_a_user_cannot_have_others_loaded(
    services: Services, loading: Loading, brain: Watched, ana: Knower, database_url: str
) -> None:
    await new_company(database_url, **COMPANY)
    async with working(services):
        for task in tasks(brain, loading):
            run = await ended(services, await queue(services, task.name, by=ana.caller))
            assert (run.state, run.attempt) == ("failed", 1)
    assert brain.batches == []
