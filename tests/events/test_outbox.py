"""Events: written with the change, told in order, to those concerned."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg
import pytest

from recollect.access.membership_models import (
    NamedWorkspace,
    NewCompany,
    NewCompanyMember,
    NewWorkspaceMember,
)
from recollect.bank.models import Append, Put
from recollect.bank.tasks import subscriptions
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.errors import NotAllowed
from recollect.events.models import Event, Subscription
from recollect.events.relay import Relay
from recollect.events.service import queries
from recollect.jobs.models import Job, Task
from tests.conftest import Person, until, working

pytestmark = pytest.mark.anyio

MAKE_PREMIUM = Query("premium", "For the test.", "update profiles set is_premium = true where id = %(id)s")


async def told(services: Services, caller: Caller = SERVICE, after: int = 0) -> list[Event]:
    await services.relay.relay()
    async with services.tenancy.acting_as(caller) as tx:
        return await services.events.list(tx, after=after)


async def put(services: Services, person: Person, key: str, value: object = 1) -> None:
    async with services.tenancy.acting_as(person.caller) as tx:
        await services.bank.put(tx, person.id, Put(key=key, value=value))


async def test_what_did_not_happen_is_not_told(services: Services, ana: Person) -> None:
    with pytest.raises(RuntimeError):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.bank.put(tx, ana.id, Put(key="a", value=1))
            raise RuntimeError
    assert await told(services) == []


async def test_every_change_of_the_bank_is_told_without_its_contents(services: Services, ana: Person) -> None:
    await put(services, ana, "tone", "a secret")
    await put(services, ana, "tone", "another secret")
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.bank.append(tx, ana.id, Append(key="seen", item="x"))
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.bank.clear(tx, ana.id)
    events = await told(services)
    assert [(event.data["key"], event.data["action"]) for event in events[:3]] == [
        ("tone", "created"),
        ("tone", "updated"),
        ("seen", "created"),
    ]
    assert {(event.data["key"], event.data["action"]) for event in events[3:]} == {
        ("tone", "deleted"),
        ("seen", "deleted"),
    }
    assert {event.type for event in events} == {"bank.changed"}
    assert {event.actor for event in events} == {ana.id}
    assert "secret" not in "".join(event.model_dump_json() for event in events)


async def test_a_value_that_is_only_sealed_anew_has_not_changed(
    services: Services, ana: Person, database_url: str
) -> None:
    await put(services, ana, "a")
    before = await told(services)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update user_memory set value = '2'")
    assert await told(services) == before


async def test_those_concerned_hear_of_it_and_nobody_else(
    services: Services, ana: Person, ben: Person
) -> None:
    async with services.tenancy.acting_as(ana.caller) as tx:
        shared = await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))
        await services.events.publish(tx, "rule.extracted", "rule/1", {}, workspace_id=shared.id)
    await put(services, ana, "a")
    assert [event.type for event in await told(services, ana.caller)] == ["rule.extracted", "bank.changed"]
    assert await told(services, ben.caller) == []


async def test_nobody_publishes_in_anothers_name(services: Services, ana: Person, ben: Person) -> None:
    async with services.tenancy.acting_as(ben.caller) as tx:
        foreign = await services.membership.create_workspace(tx, NamedWorkspace(name="Ben's"))
    for place in ({"user_id": ben.id}, {"workspace_id": foreign.id}, {}):
        with pytest.raises(NotAllowed):
            async with services.tenancy.acting_as(ana.caller) as tx:
                await services.events.publish(tx, "rule.approved", "rule/1", {}, **place)
    # What others act upon is the server's to say, also about oneself.
    for event_type in ("user.updated", "job.failed", "webhook.disabled", "access.changed", "bank.changed"):
        with pytest.raises(NotAllowed):
            async with services.tenancy.acting_as(ana.caller) as tx:
                await services.events.publish(tx, event_type, "x", {"isPremium": True}, user_id=ana.id)
    assert await told(services) == []


async def test_a_slow_transaction_neither_holds_up_others_nor_is_lost(
    services: Services, ana: Person, ben: Person
) -> None:
    """Its event has a lower number than theirs, and comes after them: nobody's cursor passes it by."""
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.bank.put(tx, ana.id, Put(key="slow", value=1))
        await put(services, ben, "quick")
        [quick] = await told(services)
        assert quick.data["key"] == "quick"
    [slow] = await told(services, after=quick.position)
    assert slow.data["key"] == "slow"


async def test_relays_that_run_at_once_give_each_position_once(services: Services, ana: Person) -> None:
    async def write(number: int) -> None:
        for turn in range(10):
            await put(services, ana, f"k{number}", turn)

    async def relay() -> None:
        for _ in range(30):
            await services.relay.relay()

    await asyncio.gather(*(write(number) for number in range(4)), *(relay() for _ in range(3)))
    events = await told(services)
    assert len({event.position for event in events}) == len(events) == 40
    for number in range(4):
        times = [event.happened_at for event in events if event.data["key"] == f"k{number}"]
        assert times == sorted(times)


async def test_subscribers_hear_every_event_of_a_subject_in_order(services: Services, ana: Person) -> None:
    heard: list[tuple[str, int]] = []

    async def react(job: Job) -> None:
        event = job.arguments["event"]
        if event["data"]["key"] == "k0" and job.attempt == 1:
            raise ConnectionError
        heard.append((event["subject"], event["position"]))

    services.jobs.offer(Task("react", react))
    relay = Relay(services.tenancy, services.database.worker, [Subscription(["bank.changed"], "react")])
    for turn in range(5):
        for number in range(3):
            await put(services, ana, f"k{number}", turn)
    assert await relay.relay() == 15
    async with working(services):
        await until(lambda: len(heard) == 15)
    for number in range(3):
        positions = [position for subject, position in heard if subject.endswith(f"/k{number}")]
        assert len(positions) == 5
        assert positions == sorted(positions)


async def test_a_user_who_is_deleted_takes_their_events_along(services: Services, ana: Person) -> None:
    await put(services, ana, "a")
    await told(services)
    await put(services, ana, "b")
    await services.access.remove_user(ana.email)
    assert await told(services) == []


async def test_profiles_tell_what_changed(services: Services, ana: Person) -> None:
    answer = await ana.http.patch("/api/profile", json={"full_name": "Ana"})
    assert answer.status_code == 200, answer.text
    [event] = await told(services, ana.caller)
    assert (event.type, event.data["changed"]) == ("user.updated", ["full_name"])
    assert "Ana" not in event.model_dump_json()


async def test_old_events_are_forgotten(services: Services, ana: Person, database_url: str) -> None:
    await put(services, ana, "old")
    await put(services, ana, "new")
    await told(services)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "update events.log set happened_at = now() - interval '8 days' where data ->> 'key' = 'old'"
        )
    assert await services.events.purge(services.tenancy) == 1
    assert [event.data["key"] for event in await told(services)] == ["new"]


async def test_an_upgrade_is_noted_in_the_bank_where_wished(
    services: Services, ana: Person, database_url: str
) -> None:
    relay = Relay(services.tenancy, services.database.worker, subscriptions(note_upgrades=True))
    async with services.tenancy.acting_as(SERVICE) as tx:
        await tx.run(MAKE_PREMIUM, {"id": ana.id})
    assert await relay.relay() == 1
    async with working(services):

        async def noted() -> bool:
            async with services.tenancy.acting_as(ana.caller) as tx:
                return bool(await services.bank.get_memory(tx, ana.id, "meta"))

        await until(noted)
    async with services.tenancy.acting_as(ana.caller) as tx:
        [entry] = await services.bank.get_memory(tx, ana.id, "meta")
    assert entry.key == "upgradedAt"


async def test_listeners_hear_exactly_what_row_security_shows_them(
    services: Services, ana: Person, ben: Person
) -> None:
    """Live connections ask for all listeners at once; the answer must be the policy's."""
    async with services.tenancy.acting_as(ana.caller) as tx:
        shared = await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))
        company = await services.membership.create_company(tx, NewCompany(name="Shared"))
        await services.membership.workspace_members.add(tx, shared.id, NewWorkspaceMember(user_id=ben.id))
        await services.membership.company_members.add(
            tx, company.id, NewCompanyMember(user_id=ben.id, status="inactive")
        )
    places: list[dict[str, UUID]] = [
        {},
        {"user_id": ana.id},
        {"user_id": ben.id},
        {"workspace_id": shared.id},
        {"company_id": company.id},
        {"user_id": ben.id, "company_id": company.id},
    ]
    async with services.tenancy.acting_as(SERVICE) as tx:
        for place in places:
            await services.events.publish(tx, "memory.added", "memory/1", {}, **place)
    await services.relay.relay()
    async with services.tenancy.acting_as(SERVICE) as tx:
        rows = await tx.all(queries.hear, {"after": 0, "limit": 100, "listeners": [ana.id, ben.id]})
    assert len(rows) == len(places)
    for person in (ana, ben):
        seen = {event.position for event in await told(services, person.caller)}
        heard = {row["position"] for row in rows if person.id in (row["listeners"] or ())}
        assert heard == seen
        assert 0 < len(heard) < len(places)


async def test_a_subject_of_any_length_stops_nobody(services: Services, ana: Person, ben: Person) -> None:
    relay = Relay(services.tenancy, services.database.worker, [Subscription(["memory.added"], "react")])
    async with services.tenancy.acting_as(ana.caller) as tx:
        subject = "".join(chr(0x10000 + number) for number in range(1_000))
        await services.events.publish(tx, "memory.added", subject, {}, user_id=ana.id)
    await put(services, ben, "k")
    assert await relay.relay() == 2
