"""Which webhooks hear of what: those of the workspace it happened in, and no others."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from tests.conftest import Person
from tests.events.webhooks.conftest import Turns, hook, remember, shared
from tests.events.webhooks.receiving import Receiver, receiving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("types", "hears"),
    [
        (["*"], ["bank.changed", "user.updated"]),
        (["bank.*"], ["bank.changed"]),
        (["user.updated"], ["user.updated"]),
        (["brain.*", "memory.added"], []),
    ],
)
async def test_an_endpoint_hears_the_types_it_names(
    turns: Turns, ana: Person, receiver: Receiver, types: list[str], hears: list[str]
) -> None:
    made = await hook(ana, receiver.url, *types)
    await remember(ana, "tone")
    await ana.http.patch("/api/profile", json={"full_name": "Ana"})
    await turns.deliver(made)
    assert sorted(one["type"] for one in await made.deliveries()) == hears


async def test_nobody_hears_what_is_not_theirs(
    turns: Turns, services: Services, ana: Person, ben: Person, receiver: Receiver
) -> None:
    team = await shared(ana)
    await ana.http.post(f"{team}/members", json={"email": ben.email, "role": "admin"})
    of_ana, of_ben = await hook(ana, receiver.url), await hook(ben, receiver.url)
    of_team = await hook(ben, receiver.url, workspace=team)
    team_id = UUID(team.rpartition("/")[2])
    async with services.tenancy.acting_as(SERVICE) as tx:
        publish = services.events.publish
        await publish(tx, "memory.added", "of ana", {}, user_id=ana.id)
        await publish(tx, "memory.added", "of ben", {}, user_id=ben.id)
        await publish(tx, "memory.added", "of the team", {}, workspace_id=team_id)
        await publish(tx, "memory.added", "of ana in the team", {}, user_id=ana.id, workspace_id=team_id)
        await publish(tx, "memory.added", "of nobody", {})
    for made in (of_ana, of_ben, of_team):
        await turns.deliver(made)

    heard = {
        made: sorted(one["subject"] for one in await made.deliveries()) for made in (of_ana, of_ben, of_team)
    }
    assert heard == {of_ana: ["of ana"], of_ben: ["of ben"], of_team: ["of ana in the team", "of the team"]}
    for received in receiver.received:
        [secret] = [m.secret for m in heard if json.loads(received.body)["data"]["subject"] in heard[m]]
        received.verified(secret)


async def test_a_subject_of_any_length_is_delivered(turns: Turns, services: Services, ana: Person) -> None:
    async with receiving() as receiver:
        made = await hook(ana, receiver.url)
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.events.publish(tx, "memory.added", "🎈" * 1_024, {}, user_id=ana.id)
        assert await turns.deliver(made) == {"delivered": 1, "failed": 0}


async def test_what_happened_before_is_not_told(turns: Turns, ana: Person, receiver: Receiver) -> None:
    await remember(ana, "before")
    await turns.relay()
    made = await hook(ana, receiver.url)
    await turns.deliver(made)
    assert await made.deliveries() == []


async def test_with_its_endpoint_a_delivery_is_gone(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.relay()
    assert (await ana.http.delete(made.address)).status_code == 204
    assert await turns.deliver(made) == {"delivered": 0, "failed": 0}
    assert receiver.received == []
    assert await turns.sql("select from events.deliveries") == []
