"""The examples of a backend that keeps its memories with Recollect run as they are written there, with our
own engine and with mem0's library."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.access.membership_models import NewCompany
from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.brain.models import Owner
from recollect.db.tenancy import SERVICE, Caller
from recollect.settings import Settings
from tests.adapters.conftest import Site
from tests.conftest import make_settings, working
from tests.jobs.conftest import ended

EXAMPLES = """
import asyncio, json
from recollect.adapters.backend import CompanyBrainRepository, get_supabase_client, is_mem0_configured
from recollect.adapters.backend import save_company_memories, save_user_memories, UserBrainRepository

async def companies():
    memories = [
        {
            "slug": "company_tax_regime",
            "category": "company_tax",
            "content": "Régimen tributario: ProPyme General"
        },
        {
            "slug": "company_activity",
            "category": "company_tax",
            "content": "Actividad económica: Comercio al por menor"
        }
    ]

    result = await save_company_memories(company_id="COMPANY", memories=memories)
    return result

async def users():
    memories = [
        {
            "slug": "user_full_name",
            "category": "user_profile",
            "content": "Nombre completo: Juan Pérez"
        }
    ]

    result = await save_user_memories(user_id="USER", memories=memories)
    return result

async def repositories():
    supabase = get_supabase_client()
    brain_repo = CompanyBrainRepository(supabase._client)

    # Get by slug
    memory = await brain_repo.get_by_company_and_slug(
        company_id="COMPANY",
        slug="company_tax_regime"
    )

    # Get all company memories
    memories = await brain_repo.get_all_by_company(company_id="COMPANY")
    user_repo = UserBrainRepository(supabase._client)
    user = await user_repo.get_by_user_and_slug(user_id="USER", slug="user_full_name")
    everything = await user_repo.get_all_by_user(user_id="USER")
    gone = await user_repo.delete("USER", "user_full_name")
    missing = await user_repo.get_by_user_and_slug(user_id="USER", slug="user_full_name")
    again = await user_repo.upsert("USER", "user_full_name", "Nombre: Juan", {"category": "user"})
    return [
        memory["content"], [each["slug"] for each in memories], user["extra_metadata"], len(everything), gone,
        missing, again["content"],
    ]

if is_mem0_configured():
    # Each on an event loop of its own, as tasks of Celery are.
    for work in (companies, users, repositories):
        print(json.dumps(asyncio.run(work())))
"""


LOAD_ONE = """
from recollect.adapters.celery import load_company_memories
from recollect.adapters.celery import load_user_memories

# Load memories for one company
result = load_company_memories.delay("COMPANY")
print(result.get(timeout=30))

# Load memories for one user
result = load_user_memories.delay("USER")
print(result.get(timeout=30))
"""
LOAD_ALL = """
from recollect.adapters.celery import load_all_companies_memories
from recollect.adapters.celery import load_all_users_memories

# Load all company memories
result = load_all_companies_memories.delay()
print(result.get(timeout=30))

# Load all user memories
result = load_all_users_memories.delay()
print(result.get(timeout=30))
"""


@pytest.fixture(params=["self-hosted", "oss"])
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def settings(mode: str, home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, mem0_mode=mode, embedding="static")


@pytest.fixture
def site(mode: str, site: Site) -> Site:
    site.environment |= {"MEM0_MODE": mode, "RECOLLECT_EMBEDDING": "static"}
    return site


async def _company(services: Services) -> tuple[str, str]:
    user = await services.access.create_user(NewUser(email="juan@example.com"))
    async with services.tenancy.acting_as(Caller.user(user.id), for_one_call=True) as tx:
        wanted = NewCompany(name="Almacén", rut="76.086.428-5", tax_regime="ProPyme", start_date="2020-03-01")
        company = await services.membership.create_company(tx, wanted)
    return str(company.id), str(user.id)


async def test_company_and_user_memories_are_saved_and_read_back(services: Services, site: Site) -> None:
    company_id, user_id = await _company(services)
    printed = await site.run(EXAMPLES.replace("COMPANY", company_id).replace("USER", user_id))
    company, user, rows = map(json.loads, printed.splitlines())
    assert company == {"success": True, "saved_count": 2, "failed_count": 0, "errors": []}
    assert user == {"success": True, "saved_count": 1, "failed_count": 0, "errors": []}
    assert rows == [
        "Régimen tributario: ProPyme General",
        ["company_activity", "company_tax_regime"],
        {"category": "user_profile"},
        1,
        True,
        None,
        "Nombre: Juan",
    ]


async def test_the_manual_test_and_what_goes_wrong(services: Services, site: Site) -> None:
    company_id, _ = await _company(services)
    printed = await site.run(f"""
import asyncio
from recollect.adapters.backend import save_company_memories

async def test(company_id, **more):
    memories = [
        {{
            "slug": "test_memory",
            "category": "test",
            "content": "This is a test memory",
            **more
        }}
    ]

    result = await save_company_memories(
        company_id=company_id,
        memories=memories
    )

    print(result)

asyncio.run(test("{company_id}"))
asyncio.run(test("{company_id}", slug="company invalid"))
asyncio.run(test("{uuid4()}"))
asyncio.run(test("your-company-id"))
""")
    good, bad_slug, unknown, no_id = printed.splitlines()
    assert good == "{'success': True, 'saved_count': 1, 'failed_count': 0, 'errors': []}"
    assert "'failed_count': 1, 'errors': ['Error with company memory company invalid: slug:" in bad_slug
    assert "'errors': ['There is no such company.']" in unknown
    assert "not a UUID" in no_id


async def test_without_a_key_for_the_platform_nothing_is_saved_and_one_error_says_why(
    services: Services, site: Site
) -> None:
    company_id, _ = await _company(services)
    site.environment |= {"MEM0_MODE": "platform"}
    printed = await site.run(f"""
import asyncio
from recollect.adapters.backend import is_mem0_configured, save_company_memories

print(is_mem0_configured())
memories = [{{"slug": "a", "content": "A"}}, {{"slug": "b", "content": "B"}}]
print(asyncio.run(save_company_memories(company_id="{company_id}", memories=memories)))
""")
    configured, result = printed.splitlines()
    assert configured == "False"
    assert result == str(
        {
            "success": False,
            "saved_count": 0,
            "failed_count": 0,
            "errors": ["mem0 is not configured: set MEM0_API_KEY, or MEM0_MODE=self-hosted."],
        }
    )
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        cursor = await connection.execute("select count(*) from company_brain")
        assert await cursor.fetchone() == (0,)


async def test_the_tasks_of_celery_lead_to_memories(services: Services, site: Site) -> None:
    company_id, user_id = await _company(services)
    async with site.worker(), working(services):
        runs = []
        for script in (LOAD_ONE.replace("COMPANY", company_id).replace("USER", user_id), LOAD_ALL):
            # A task only forwards: what it asked for is done some time later.
            runs += [await ended(services, UUID(run)) for run in (await site.run(script)).split()]

    assert [(run.state, run.result) for run in runs] == [
        ("succeeded", {"saved_count": 2, "failed_count": 0, "errors": None}),
        ("succeeded", {"saved_count": 1, "failed_count": 0, "errors": None}),
        (
            "succeeded",
            {"total_companies": 1, "loaded_companies": 1, "failed_companies": 0, "total_memories_created": 0},
        ),
        ("succeeded", {"total_users": 1, "loaded_users": 1, "failed_users": 0, "total_memories_created": 0}),
    ]
    async with services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
        facts = await services.brain.facts(tx, Owner("company", UUID(company_id)))
    assert [fact.content for fact in facts] == [
        "Inicio de actividades: 2020-03-01",
        "Régimen tributario: ProPyme",
    ]
