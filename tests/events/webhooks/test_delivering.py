"""From an event to its receiver: at least once, in order, again and again, and not for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import Superseded
from recollect.events.webhooks.sending import Outcome
from recollect.events.webhooks.store import record_attempt, take_due
from recollect.events.webhooks.tasks import AT_ONCE, DELAYS, DELIVER, LEASE, TEND, delay_after, rest_after
from tests.conftest import Person
from tests.events.webhooks.conftest import Turns, hook, remember
from tests.events.webhooks.receiving import OK, Receiver, receiving, status

pytestmark = pytest.mark.anyio

BROKEN = status(500, b"out of order")


async def test_a_worker_delivers_what_happens(services: Services, ana: Person, receiver: Receiver) -> None:
    """All of it in earnest: outbox, relay, queue, worker."""
    made = await hook(ana, receiver.url)
    working = asyncio.create_task(services.worker.work())
    try:
        await remember(ana, "tone", "a private value")
        [received] = await receiver.until(1)
    finally:
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working

    payload = received.verified(made.secret)
    assert (payload["type"], set(payload)) == ("bank.changed", {"type", "timestamp", "data"})
    assert datetime.fromisoformat(payload["timestamp"]).tzinfo is not None
    assert payload["data"] == {
        "position": payload["data"]["position"],
        "subject": f"bank/{ana.id}/default/tone",
        "user_id": str(ana.id),
        "workspace_id": None,
        "namespace": "default",
        "key": "tone",
        "action": "created",
    }
    assert b"private value" not in received.body


async def test_a_delivery_is_recorded(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    assert await turns.deliver(made) == {"delivered": 1, "failed": 0}

    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"], delivery["last_status"]) == ("delivered", 1, 200)
    assert (delivery["last_answer"], delivery["last_error"]) == ("thanks", None)
    assert delivery["id"] == receiver.received[0].id
    assert delivery["payload"] == json.loads(receiver.received[0].body)
    assert delivery["finished_at"]
    assert delivery["next_attempt_at"] is None


async def test_a_failure_is_tried_again_later_under_the_same_id(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    receiver.answers = [BROKEN, status(302, b"", "Location: /elsewhere"), OK]
    await remember(ana, "tone")

    await turns.deliver(made)
    [delivery] = await made.deliveries(state="pending")
    assert (delivery["attempt"], delivery["last_status"]) == (1, 500)
    assert delivery["last_answer"] == "out of order"
    assert delivery["next_attempt_at"] > datetime.now(UTC).isoformat()
    assert await turns.deliver(made) == {"delivered": 0, "failed": 0}  # not due yet

    await turns.retry(made)
    [delivery] = await made.deliveries(state="pending")
    assert (delivery["attempt"], delivery["last_status"]) == (2, 302)
    await turns.retry(made)

    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"]) == ("delivered", 3)
    assert [one.path for one in receiver.received] == ["/hooks"] * 3
    assert {one.id for one in receiver.received} == {delivery["id"]}
    for received in receiver.received:
        received.verified(made.secret)
    assert (await made.get())["failing_since"] is None


async def test_somebody_comes_back_when_the_next_attempt_is_due(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    receiver.answers = [BROKEN]
    await remember(ana, "tone")
    await turns.relay()
    await turns.sql("delete from jobs.runs")
    await turns.deliver(made)
    await turns.deliver(made)

    [waiting] = await turns.waiting()
    [delivery] = await made.deliveries()
    due = datetime.fromisoformat(delivery["next_attempt_at"])
    assert due <= waiting["due_at"] <= due + timedelta(seconds=2)
    assert waiting["arguments"] == {"endpoint": str(made.id)}

    # What happens meanwhile does not wait for that.
    await remember(ana, "other")
    await turns.relay()
    assert len(await turns.waiting()) == 2


async def test_attempts_are_spread_over_about_a_day_and_then_it_has_failed(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    receiver.answers = [BROKEN]
    await remember(ana, "tone")
    for _ in range(len(DELAYS) + 1):
        await turns.retry(made)
    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"]) == ("failed", len(DELAYS) + 1)
    assert await turns.retry(made) == {"delivered": 0, "failed": 0}
    assert len(receiver.received) == len(DELAYS) + 1

    spread = sum((delay_after(attempt) or timedelta() for attempt in range(20)), timedelta())
    assert timedelta(hours=18) < spread < timedelta(hours=30)
    assert len({delay_after(0) for _ in range(10)}) > 1  # with jitter


async def test_events_of_a_subject_come_in_order_even_if_the_first_fails(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    receiver.answers = [BROKEN, OK]
    for value in range(3):
        await remember(ana, "tone", value)
    await turns.deliver(made)
    assert len(receiver.received) == 1  # the others wait for it
    await remember(ana, "other")
    await turns.deliver(made)
    assert len(receiver.received) == 2  # another subject does not

    await turns.retry(made)

    keys = [json.loads(one.body)["data"]["key"] for one in receiver.received]
    assert keys == ["tone", "other", "tone", "tone", "tone"]
    positions = [
        json.loads(one.body)["data"]["position"] for one in receiver.received if b'"tone"' in one.body
    ]
    assert positions == sorted(positions)
    assert positions[0] == positions[1]  # the one that failed, again


async def test_the_next_of_a_subject_goes_when_the_one_before_was_given_up(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    receiver.answers = [*[BROKEN] * (len(DELAYS) + 1), OK]
    await remember(ana, "tone", 1)
    await remember(ana, "tone", 2)
    for _ in range(len(DELAYS) + 1):
        await turns.retry(made)
    await turns.retry(made)  # after so many failures the endpoint has a rest first
    second, first = await made.deliveries()
    assert (first["state"], second["state"]) == ("failed", "delivered")


async def test_a_flood_is_delivered_a_few_at_a_time(turns: Turns, ana: Person, receiver: Receiver) -> None:
    busy = most = 0

    async def counted(writer: asyncio.StreamWriter) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.02)
        busy -= 1
        await OK(writer)

    receiver.answers = [counted]
    made = await hook(ana, receiver.url)
    await asyncio.gather(*(remember(ana, f"k{number}") for number in range(40)))
    assert await turns.deliver(made) == {"delivered": 40, "failed": 0}
    assert 1 < most <= AT_ONCE
    assert len({one.id for one in receiver.received}) == 40


async def test_a_dead_endpoint_is_probed_less_and_less_often(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [BROKEN]
    made = await hook(ana, receiver.url)
    for number in range(30):
        await remember(ana, f"k{number}")
    assert await turns.deliver(made) == {"delivered": 0, "failed": AT_ONCE}
    assert await turns.deliver(made) == {"delivered": 0, "failed": 0}  # although 22 are due
    await turns.sql("update events.endpoints set rests_until = now()")
    assert await turns.deliver(made) == {"delivered": 0, "failed": 1}
    # However often it is looked at, one job waits for the end of its rest.
    await turns.deliver(made)
    own = [one for one in await turns.waiting() if " " in one["key"]]
    assert len({one["due_at"] for one in own}) == len(own) <= 3

    receiver.answers = [OK]
    assert await turns.retry(made) == {"delivered": 30, "failed": 0}
    rests = [rest_after(failures) for failures in range(40)]
    assert rests[:AT_ONCE] == [None] * AT_ONCE
    assert max(filter(None, rests)) == timedelta(hours=1)


async def test_what_a_dying_worker_sent_is_sent_again_under_the_same_id(
    turns: Turns, services: Services, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.relay()
    job = await turns.job(DELIVER, {"endpoint": str(made.id)})
    # Another worker takes the job over while this one is sending.
    running = asyncio.ensure_future(services.jobs.tasks[DELIVER].run(job))
    held = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        await held.wait()
        await OK(writer)

    receiver.answers = [slow, OK]
    await receiver.until(1)
    await turns.sql("update jobs.runs set fence = %s where id = %s", uuid4(), job.id)
    assert await turns.deliver(made) == {"delivered": 0, "failed": 0}  # it may still arrive
    held.set()
    with pytest.raises(Superseded):
        await running
    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"]) == ("pending", 0)

    assert await turns.retry(made) == {"delivered": 1, "failed": 0}
    assert len({one.id for one in receiver.received}) == 1
    assert len(receiver.received) == 2


async def test_two_workers_take_each_delivery_once(turns: Turns, services: Services, ana: Person) -> None:
    async with receiving() as receiver:
        made = await hook(ana, receiver.url)
        for number in range(20):
            await remember(ana, f"k{number % 12}", number)
        await turns.relay()
        ids: list[UUID] = []

        async def take() -> None:
            async with services.tenancy.acting_as(SERVICE) as tx:
                ids.extend(due.id for due in await take_due(tx, made.id, batch=AT_ONCE, lease=LEASE))

        await asyncio.gather(*(take() for _ in range(4)))
        await take()
        assert len(ids) == len(set(ids)) == 12  # one of each subject, and no second one of any


async def test_a_record_that_comes_too_late_changes_nothing(
    turns: Turns, services: Services, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.relay()
    async with services.tenancy.acting_as(SERVICE) as tx:
        [due] = await take_due(tx, made.id, batch=AT_ONCE, lease=LEASE)
    assert await turns.retry(made) == {"delivered": 1, "failed": 0}
    async with services.tenancy.acting_as(SERVICE) as tx:
        await record_attempt(tx, due, Outcome(500, 1, "Answered with 500."), timedelta(seconds=5))
    [delivery] = await made.deliveries()
    assert (delivery["state"], delivery["attempt"], delivery["last_status"]) == ("delivered", 1, 200)


async def test_an_answer_of_410_disables_at_once(turns: Turns, ana: Person, receiver: Receiver) -> None:
    receiver.answers = [status(410)]
    made, other = await hook(ana, receiver.url, "bank.*"), await hook(ana, receiver.url, "webhook.*")
    await remember(ana, "tone")
    await turns.deliver(made)

    found = await made.get()
    assert (found["is_enabled"], found["disabled_reason"]) == (False, "The receiver answered 410 Gone.")
    assert [one["state"] for one in await made.deliveries()] == ["failed"]
    receiver.answers = [OK]
    await turns.deliver(other)
    told = receiver.received[-1].verified(other.secret)
    assert told["type"] == "webhook.disabled"
    assert told["data"]["endpoint"] == str(made.id)
    assert told["data"]["host"] == f"127.0.0.1:{receiver.port}"

    await remember(ana, "tone", 2)
    await turns.deliver(made)
    assert len(await made.deliveries()) == 1


async def test_an_endpoint_that_keeps_failing_is_disabled_and_its_workspace_told(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [BROKEN]
    made = await hook(ana, receiver.url)
    for number in range(30):
        await remember(ana, f"k{number}")
    for _ in range(30):
        await turns.retry(made)
    assert (await made.get())["is_enabled"]  # many failures, but none of them old

    await turns.sql("update events.endpoints set failing_since = now() - interval '25 hours'")
    await turns.retry(made)

    found = await made.get()
    assert not found["is_enabled"]
    assert "attempts failed" in found["disabled_reason"]
    [told] = await turns.sql("select workspace_id, data from events.log where type = 'webhook.disabled'")
    assert str(told["workspace_id"]) in made.workspace
    assert told["data"]["endpoint"] == str(made.id)
    attempts = len(receiver.received)
    assert await turns.retry(made) == {"delivered": 0, "failed": 0}
    assert len(receiver.received) == attempts

    # Enabled again, it gets what still waits, at once.
    receiver.answers = [OK]
    await ana.http.patch(made.address, json={"is_enabled": True})
    found = await made.get()
    assert (found["is_enabled"], found["disabled_reason"], found["failing_since"]) == (True, None, None)
    await turns.sql("delete from jobs.runs")
    await turns.relay()
    assert [one["key"] for one in await turns.waiting()] == [str(made.id)]
    assert (await turns.deliver(made))["delivered"] > 0
    assert not await made.deliveries(state="pending")


async def test_few_failures_disable_nothing_however_old(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    receiver.answers = [BROKEN]
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.deliver(made)
    await turns.sql("update events.endpoints set failing_since = now() - interval '30 days'")
    await turns.retry(made)
    assert (await made.get())["is_enabled"]


async def test_a_moved_endpoint_is_tried_at_once(turns: Turns, ana: Person, receiver: Receiver) -> None:
    async with receiving(BROKEN) as old:
        made = await hook(ana, old.url)
        await remember(ana, "tone")
        await turns.deliver(made)
    assert (await ana.http.patch(made.address, json={"url": receiver.url})).status_code == 200
    assert await turns.deliver(made) == {"delivered": 1, "failed": 0}


async def test_forgotten_deliveries_are_found_again(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.relay()
    await turns.sql("delete from jobs.runs")
    assert await turns.run(TEND) == {"woken": 0}
    await turns.sql("update events.deliveries set next_attempt_at = now() - interval '1 hour'")
    assert await turns.run(TEND) == {"woken": 1}
    assert [one["arguments"] for one in await turns.waiting()] == [{"endpoint": str(made.id)}]


async def test_old_deliveries_are_forgotten(turns: Turns, services: Services, ana: Person) -> None:
    async with receiving(OK, BROKEN) as receiver:
        made = await hook(ana, receiver.url)
        for key in ("old", "waiting"):
            await remember(ana, key)
        await turns.deliver(made)
    assert await services.webhooks.purge(services.tenancy) == 0
    await turns.sql(
        "update events.deliveries set finished_at = now() - interval '31 days' where state <> 'pending'"
    )
    assert await services.webhooks.purge(services.tenancy) == 1
    assert [one["state"] for one in await made.deliveries()] == ["pending"]
