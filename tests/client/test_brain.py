"""Facts about users and companies through the Python client, against a real server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from recollect.brain.models import NewMemory
from recollect.client import Facts, Recollect
from recollect.errors import Conflict, InvalidInput, NotFound
from tests.client.relay import Relay, relaying
from tests.conftest import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(address: str, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(address, key=ana.key) as opened:
        yield opened


@pytest.fixture
async def facts(client: Recollect, ana: Person) -> Facts:
    return client.brain.user(ana.id)


@pytest.fixture
async def relay(address: str) -> AsyncIterator[Relay]:
    async with relaying(address) as found:
        yield found


@pytest.fixture
async def relayed(relay: Relay, ana: Person) -> AsyncIterator[Facts]:
    async with Recollect(relay.address, key=ana.key) as opened:
        yield opened.brain.user(ana.id)


async def test_what_is_saved_is_listed_and_found(client: Recollect, ana: Person) -> None:
    made = (await ana.http.post("/api/companies", json={"name": "Acme"})).json()
    company = client.brain.company(made["id"])
    regime = {"slug": "company_tax_regime", "category": "company_tax", "content": "Régimen: ProPyme"}

    saved = await company.save(
        [regime, NewMemory(slug="motto", content="Onward"), {"slug": "NO", "content": "x"}], reason="told"
    )

    assert (saved.success, saved.saved_count, saved.failed_count) == (False, 2, 1)
    assert saved.errors[0].startswith("Error with company memory NO: ")
    assert [fact.slug for fact in await company.list()] == ["company_tax_regime", "motto"]
    assert [fact.slug for fact in await company.list(category="company_tax")] == ["company_tax_regime"]
    [best, *_] = await company.search("régimen", category="company_tax")
    assert (best.slug, best.score > 0) == ("company_tax_regime", True)
    assert [change.reason for change in await company.history("motto")] == ["told"]
    assert await client.brain.user(ana.id).list() == []


async def test_a_list_is_whole_however_long_or_cut_where_wanted(facts: Facts) -> None:
    await facts.save([{"slug": f"n_{number:04}", "content": "x"} for number in range(1_001)])

    assert len(await facts.list()) == 1_001
    assert [fact.slug for fact in await facts.list(limit=2)] == ["n_0000", "n_0001"]


async def test_a_plan_changes_nothing(facts: Facts) -> None:
    await facts.put("pet", "A dog")

    planned = await facts.plan([{"slug": "pet", "content": "A cat"}, {"slug": "new", "content": "x"}])

    assert [(each.slug, each.change, each.before) for each in planned] == [
        ("pet", "update", "A dog"),
        ("new", "create", None),
    ]
    assert [fact.content for fact in await facts.list()] == ["A dog"]


async def test_a_fact_is_put_deleted_and_undone(facts: Facts) -> None:
    put = await facts.put("pet", "A dog", category="home", extra_metadata={"age": 3}, reason="she said")
    assert await facts.get("pet") == put
    assert (put.category, put.extra_metadata) == ("home", {"age": 3, "category": "home"})

    await facts.delete("pet", reason="it ran away")
    with pytest.raises(NotFound) as gone:
        await facts.get("pet")
    assert gone.value.code == "unknown_slug"

    undone = await facts.undo("pet", reason="it is back")
    assert (undone.event, undone.after, undone.reason) == ("ADD", "A dog", "it is back")
    assert (await facts.get("pet")).category == "home"
    with pytest.raises(Conflict):
        await facts.undo("pet", change=undone.id - 1)
    assert [change.event for change in await facts.history("pet", limit=2)] == ["ADD", "DELETE"]


async def test_what_cannot_be_sent_is_told_before_it_is(client: Recollect, facts: Facts) -> None:
    with pytest.raises(InvalidInput, match="company_id"):
        client.brain.company("nonsense")
    with pytest.raises(InvalidInput, match="slug: a-z"):
        await facts.put("../other", "x")
    with pytest.raises(InvalidInput, match="limit"):
        await facts.list(limit=0)
    with pytest.raises(InvalidInput, match="content"):
        await facts.put("pet", " ")


async def test_a_lost_answer_neither_undoes_twice_nor_hides_a_deletion(relay: Relay, relayed: Facts) -> None:
    for content in ("A dog", "A cat", "A cow"):
        await relayed.put("pet", content)
    await relayed.undo("pet")
    assert b"/undo?change=" in relay.requests[-1]
    [last] = await relayed.history("pet", limit=1)

    relay.lost_answers = 1
    with pytest.raises(Conflict):
        await relayed.undo("pet", change=last.id)
    assert (await relayed.get("pet")).content == "A cow"

    relay.lost_answers = 1
    await relayed.delete("pet")
    assert await relayed.list() == []


def test_the_client_does_not_load_the_databases_driver() -> None:
    listing = "import sys, recollect.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert not {"psycopg", "fastapi", "recollect.bootstrap"} & set(loaded.stdout.split())
