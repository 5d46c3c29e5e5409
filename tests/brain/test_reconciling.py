"""Rows and memories that have come apart, and how they come together again."""

from __future__ import annotations

from typing import Any, LiteralString

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from recollect.db.tenancy import SERVICE
from recollect.engine.models import Addition, Entities, Message, Update
from recollect.settings import Settings
from tests.brain.conftest import Knower
from tests.conftest import served, until, working
from tests.events.inbound.sending import MEM0_SECRET, change, send_mem0
from tests.support.engines import ENGINES

MEM0 = pytest.mark.parametrize("mode", ["oss", "platform"])
ALL = pytest.mark.parametrize("mode", ENGINES)


async def in_database(knower: Knower, statement: LiteralString, *given: Any) -> None:
    async with await psycopg.AsyncConnection.connect(knower.services.database.admin) as connection:
        await connection.execute(statement, given)


async def delete_unheard(knower: Knower) -> None:
    """Delete all that the engine has, as if the news of it had been lost."""
    for memory in await knower.memories():
        async with knower.services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await knower.services.engine.delete(tx, memory.id)


async def mended(knower: Knower) -> dict[str, int]:
    counts = (await knower.services.brain.reconcile()).counts
    return {name: count for name, count in counts.items() if count and name != "checked"}


@MEM0
async def test_a_row_whose_memory_is_lost_gets_it_back(acme: Knower) -> None:
    await acme.save(motto="Ours", size="Small")
    await delete_unheard(acme)

    assert await mended(acme) == {"recreated": 2}
    assert await acme.remembered() == {"motto": "Ours", "size": "Small"}
    assert await acme.is_in_step()
    assert await mended(acme) == {}


async def test_a_row_from_another_engine_gets_a_memory_in_ours(acme: Knower) -> None:
    """As after MEM0_MODE has changed."""
    await in_database(
        acme,
        "insert into company_brain (company_id, memory_id, slug, content, extra_metadata)"
        " values (%s, 'mem_abc123', 'motto', 'Ours', '{\"category\": \"brand\"}')",
        acme.owner.id,
    )

    assert await mended(acme) == {"recreated": 1}
    assert await acme.remembered() == {"motto": "Ours"}
    assert (await acme.get("motto")).category == "brand"
    assert await acme.is_in_step()
    assert len(await acme.history("motto")) == 1


@ALL
async def test_a_memory_whose_row_is_lost_gets_it_back(ana: Knower) -> None:
    await ana.save({"slug": "pet", "content": "A dog", "category": "home"})
    await in_database(ana, "delete from user_brain where user_id = %s", ana.owner.id)

    assert await mended(ana) == {"adopted": 1}
    assert await ana.known() == {"pet": "A dog"}
    assert await ana.is_in_step()


@MEM0
async def test_of_two_memories_under_one_slug_one_is_left(ana: Knower) -> None:
    await ana.save(pet="A dog")
    added = Addition(
        [Message(content="Another dog")],
        Entities(user="x", app="user_brain"),
        metadata={"slug": "pet"},
        infer=False,
    )
    await ana.do(lambda tx: ana.services.engine.add(tx, added))

    assert await mended(ana) == {"removed": 1}
    assert await ana.remembered() == {"pet": "A dog"}


@MEM0
async def test_what_was_changed_last_counts(ana: Knower) -> None:
    await ana.save(pet="A dog", city="Lima")
    pet, city = sorted(await ana.memories(), key=lambda memory: memory.text)
    engine = ana.services.engine
    await ana.do(
        lambda tx: engine.update_many(tx, [Update(pet.id, text="A cat"), Update(city.id, text="Rome")])
    )
    await in_database(ana, "update user_brain set content = 'Cusco' where slug = 'city'")

    assert await mended(ana) == {"updated": 2}
    assert await ana.known() == {"pet": "A cat", "city": "Cusco"}
    assert await ana.is_in_step()


@pytest.mark.parametrize("mode", ["platform"])
async def test_memories_of_somebody_who_is_gone_go_too(ana: Knower) -> None:
    await ana.save(pet="A dog")
    await in_database(ana, "delete from auth.users where id = %s", ana.owner.id)
    assert len(await ana.memories()) == 1

    assert await mended(ana) == {"removed": 1}
    assert await ana.memories() == []


async def test_in_our_own_engine_a_row_follows_its_memory_at_once(ana: Knower) -> None:
    await ana.save({"slug": "pet", "content": "A dog", "category": "home"})
    [memory] = await ana.memories()
    engine = ana.services.engine

    await ana.do(lambda tx: engine.update(tx, memory.id, text="A cat", metadata={"category": "friends"}))
    fact = await ana.get("pet")
    assert (fact.content, fact.category) == ("A cat", "friends")
    assert await ana.is_in_step()

    await ana.do(lambda tx: engine.delete(tx, memory.id))
    assert await ana.known() == {}

    await ana.do(lambda tx: engine.restore(tx, memory.id))
    assert await ana.known() == {"pet": "A cat"}
    assert await ana.is_in_step()
    assert [entry.event for entry in await ana.history("pet")] == ["ADD", "DELETE", "UPDATE", "ADD"]
    assert await mended(ana) == {}


async def test_who_leaves_a_company_sees_no_more_of_it(ana: Knower, ben: Knower, acme: Knower) -> None:
    await acme.save(motto="Ours")
    join: LiteralString = (
        "insert into company_members (company_id, user_id, status) values (%s, %s, 'active')"
    )
    await in_database(acme, join, acme.owner.id, ben.owner.id)
    member = ben.about(acme.owner)
    assert await member.known() == {"motto": "Ours"}
    assert (await member.save(motto="Mine now")).success

    await in_database(acme, "update company_members set status = 'inactive' where user_id = %s", ben.owner.id)

    with pytest.raises(Exception, match="no such company"):
        await member.known()


class TestWebhooks:
    """mem0's platform tells of changes that were made there."""

    @pytest.fixture
    def mode(self) -> str:
        return "platform"

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"mem0_webhook_secret": SecretStr(MEM0_SECRET)})

    async def test_a_change_at_mem0_reaches_the_row(self, ana: Knower) -> None:
        services = ana.services
        await ana.save(pet="A dog", city="Lima")
        pet, city = sorted(await ana.memories(), key=lambda memory: memory.text)
        async with (
            served(services) as address,
            httpx.AsyncClient(base_url=address, timeout=30) as http,
            working(services),
        ):
            await ana.do(lambda tx: services.engine.update(tx, pet.id, text="A cat"))
            await send_mem0(http, change("UPDATE", str(pet.id)))
            await until(lambda: _knows(ana, {"pet": "A cat", "city": "Lima"}))

            await ana.do(lambda tx: services.engine.delete(tx, city.id))
            await send_mem0(http, change("DELETE", str(city.id)))
            await until(lambda: _knows(ana, {"pet": "A cat"}))
        assert await ana.is_in_step()

    async def test_a_memory_added_at_mem0_gets_a_row(self, ana: Knower) -> None:
        added = Addition(
            [Message(content="A dog")],
            Entities(user="x", app="user_brain"),
            metadata={"slug": "pet", "category": "home"},
            infer=False,
        )
        [made] = (await ana.do(lambda tx: ana.services.engine.add(tx, added))).results

        assert (await ana.services.brain.follow(str(made.id))).adopted == 1
        assert await ana.known() == {"pet": "A dog"}
        assert await ana.is_in_step()

    async def test_a_repeated_or_late_event_changes_nothing(self, ana: Knower) -> None:
        await ana.save(pet="A dog")
        [first] = await ana.memories()
        await ana.save(pet="A cat")
        before = await ana.get("pet")

        for memory_id in (str(first.id), str(first.id), "mem_unknown", str(ana.owner.id)):
            counts = (await ana.services.brain.follow(memory_id)).counts
            assert {**counts, "checked": 0} == dict.fromkeys(counts, 0)

        assert await ana.get("pet") == before
        await ana.delete("pet")
        assert (await ana.services.brain.follow(str(first.id))).counts["adopted"] == 0
        assert await ana.known() == {}


async def _knows(knower: Knower, facts: dict[str, str]) -> bool:
    return await knower.known() == facts
