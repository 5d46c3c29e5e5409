"""When a delivery is over, and what becomes of those behind it."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.bootstrap import Services
from recollect.events.webhooks.tasks import DELIVER, TEND
from tests.conftest import Person, until, working
from tests.events.webhooks.conftest import Turns, hook, remember
from tests.events.webhooks.receiving import OK, Receiver, status
from tests.jobs.conftest import ended, queue

pytestmark = pytest.mark.anyio

BROKEN = status(500, b"out of order")


async def test_what_waits_behind_a_delivery_has_the_same_day(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [BROKEN]
    made = await hook(ana, receiver.url)
    for value in range(3):
        await remember(ana, "tone", value)
    await turns.deliver(made)
    await turns.sql("update events.deliveries set wanted_at = now() - interval '25 hours'")
    await remember(ana, "tone", "fresh")
    await turns.retry(made)

    fresh, *old = await made.deliveries()
    # Each of them was tried, and none of them gets another day.
    assert [(each["state"], each["attempt"]) for each in old] == [("failed", 1), ("failed", 1), ("failed", 2)]
    assert (fresh["state"], fresh["attempt"]) == ("pending", 1)


async def test_a_replay_has_another_day(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.deliver(made)
    await turns.sql("update events.deliveries set wanted_at = now() - interval '3 days'")
    [delivery] = await made.deliveries()
    receiver.answers = [BROKEN]
    await ana.http.post(f"{made.address}/deliveries/{delivery['id']}/replay")
    await turns.deliver(made)
    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"]) == ("pending", 1)


async def test_an_endpoint_comes_back_without_touching_all_that_waits(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [BROKEN]
    made = await hook(ana, receiver.url)
    for value in range(3):
        await remember(ana, "tone", value)
    await turns.deliver(made)
    *waiting, tried = await made.deliveries()
    for is_enabled in (False, True):
        assert (await ana.http.patch(made.address, json={"is_enabled": is_enabled})).status_code == 200

    *still_waiting, hurried = await made.deliveries()
    assert still_waiting == waiting
    assert hurried["next_attempt_at"] < tried["next_attempt_at"]
    receiver.answers = [OK]
    assert await turns.deliver(made) == {"delivered": 3, "failed": 0}


async def test_its_owner_is_told_what_a_disabled_webhook_misses(
    services: Services, turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [status(410)]
    made = await hook(ana, receiver.url)

    async def told() -> list[dict[str, Any]]:
        return await turns.sql(
            "select user_id, body, link from mail.messages where kind = 'webhook.disabled'"
        )

    async with working(services):
        await remember(ana, "tone")
        [message] = await until(told)
    assert (message["user_id"], message["link"]) == (ana.id, f"/webhooks/{made.id}")
    assert "What happens while it is off is not sent to it, also not later." in message["body"]

    receiver.answers = [OK]
    await remember(ana, "meanwhile")
    await turns.relay()
    await ana.http.patch(made.address, json={"is_enabled": True})
    assert await turns.deliver(made) == {"delivered": 0, "failed": 0}


@pytest.mark.parametrize("task", [DELIVER, TEND])
async def test_users_have_nothing_from_queueing_it_themselves(
    services: Services, ana: Person, receiver: Receiver, task: str
) -> None:
    made = await hook(ana, receiver.url)
    queued = await queue(services, task, {"endpoint": str(made.id)}, by=ana.caller)
    async with working(services):
        run = await ended(services, queued)
    assert (run.state, run.attempt) == ("failed", 1)
    assert run.error == "This is for the server itself to do."
