"""Stripe's webhooks: who pays becomes premium, once, and nobody else can say so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import structlog

from recollect.bootstrap import Services
from tests.api.raw import assert_problem
from tests.api.serving import serving
from tests.conftest import Person, make_settings
from tests.events.inbound.conftest import Ledger
from tests.events.inbound.sending import (
    STRIPE,
    STRIPE_SECRET,
    checkout,
    event,
    send_stripe,
    signature,
)

pytestmark = pytest.mark.anyio

TAKEN = {"received": True}
REPEATED = {"received": True, "duplicate": True}


# What is sold


async def test_who_pays_becomes_premium_and_everybody_is_told(
    ana: Person, ben: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    answer = await send_stripe(anonymous, checkout(str(ana.id)))

    assert (answer.status_code, answer.json()) == (200, TAKEN)
    assert (await ana.http.get("/api/profile")).json()["is_premium"] is True
    assert not await ledger.is_premium(ben.id)
    [told] = await ledger.events("user.updated")
    assert (told["subject"], told["user_id"]) == (f"user/{ana.id}", ana.id)
    assert told["data"] | {"userId": str(ana.id), "isPremium": True} == told["data"]


async def test_who_is_premium_already_stays_so_and_nobody_is_told_again(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    for _ in range(2):
        assert (await send_stripe(anonymous, checkout(str(ana.id)))).json() == TAKEN
    assert await ledger.is_premium(ana.id)
    assert len(await ledger.upgrades()) == 1


async def test_the_user_may_be_named_in_the_metadata(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    for absent in (None, ""):
        with subtests.test(client_reference_id=absent):
            await ledger.run("update profiles set is_premium = false")
            sent = checkout(absent, metadata={"userId": str(ana.id).upper()})
            assert (await send_stripe(anonymous, sent)).json() == TAKEN
            assert await ledger.is_premium(ana.id)


async def test_the_reference_comes_before_the_metadata(
    ana: Person, ben: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    await send_stripe(anonymous, checkout(str(ana.id), metadata={"userId": str(ben.id)}))
    assert (await ledger.is_premium(ana.id), await ledger.is_premium(ben.id)) == (True, False)


async def test_what_costs_nothing_now_is_sold_too(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    sent = checkout(str(ana.id), payment_status="no_payment_required")
    assert (await send_stripe(anonymous, sent)).json() == TAKEN
    assert await ledger.is_premium(ana.id)


async def test_an_unpaid_session_sells_nothing_until_the_money_comes(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    unpaid = await send_stripe(anonymous, checkout(str(ana.id), payment_status="unpaid"))
    assert unpaid.status_code == 200
    assert "not paid" in unpaid.json()["ignored"]
    assert not await ledger.is_premium(ana.id)
    assert await ledger.upgrades() == []

    arrived = checkout(str(ana.id), kind="checkout.session.async_payment_succeeded")
    assert (await send_stripe(anonymous, arrived)).json() == TAKEN
    assert await ledger.is_premium(ana.id)


async def test_storing_a_card_is_no_purchase(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    sent = checkout(str(ana.id), mode="setup", payment_status="no_payment_required")
    assert "ignored" in (await send_stripe(anonymous, sent)).json()
    assert not await ledger.is_premium(ana.id)


async def test_other_events_are_taken_and_change_nothing(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    session = checkout(str(ana.id))["data"]["object"]
    for kind in ("checkout.session.expired", "customer.created", "checkout.session.async_payment_failed"):
        with subtests.test(kind=kind):
            answer = await send_stripe(anonymous, event(kind, session))
            assert answer.status_code == 200
            assert answer.json().keys() == {"received", "ignored"}
    assert not await ledger.is_premium(ana.id)
    assert await ledger.upgrades() == []
    assert await ledger.received("stripe") == 3


async def test_a_user_whom_nobody_knows_is_taken_so_that_stripe_stops_asking(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    answers = set()
    for user in [str(uuid4()), "cus_123", "", None, f"{{{ana.id}}}", ana.id.hex, f"urn:uuid:{ana.id}"]:
        with subtests.test(user=user):
            sent = checkout(user)
            answer = await send_stripe(anonymous, sent)
            assert answer.status_code == 200
            answers |= {answer.text, (await send_stripe(anonymous, sent)).text}
    [only] = answers
    assert "ignored" in only
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_who_paid_before_they_were_a_user_becomes_premium_when_it_is_sent_again(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    user = uuid4()
    sent = checkout(str(user))
    assert "ignored" in (await send_stripe(anonymous, sent)).json()
    await ledger.run(
        "insert into auth.users (id, email, email_confirmed_at) values (%s, 'late@example.com', now())", user
    )
    assert (await send_stripe(anonymous, sent)).json() == TAKEN
    assert await ledger.is_premium(user)
    assert (await send_stripe(anonymous, sent)).json() == REPEATED


# Users without a profile


async def test_a_buyer_without_a_profile_gets_one(anonymous: httpx.AsyncClient, ledger: Ledger) -> None:
    [user] = await ledger.rows("insert into auth.users (email) values ('new@example.com') returning id")
    assert (await send_stripe(anonymous, checkout(str(user["id"])))).json() == TAKEN
    assert await ledger.is_premium(user["id"])


async def test_where_the_project_makes_profiles_stripe_is_asked_to_come_again(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    await ledger.run("alter table profiles add column handle text not null")
    [user] = await ledger.rows("insert into auth.users (email) values ('new@example.com') returning id")
    sent = checkout(str(user["id"]))

    assert_problem(await send_stripe(anonymous, sent), 409, "no_profile")
    assert await ledger.received("stripe") == 0
    assert await ledger.upgrades() == []

    await ledger.run("insert into profiles (id, handle) values (%s, 'new')", user["id"])
    assert (await send_stripe(anonymous, sent)).json() == TAKEN
    assert await ledger.is_premium(user["id"])


# Once


async def test_a_repeated_event_is_welcome_and_changes_nothing(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    sent = checkout(str(ana.id))
    assert (await send_stripe(anonymous, sent)).json() == TAKEN
    await ledger.run("update profiles set is_premium = false")

    again = await send_stripe(anonymous, sent)

    assert (again.status_code, again.json()) == (200, REPEATED)
    assert not await ledger.is_premium(ana.id)
    assert len(await ledger.upgrades()) == 1


async def test_one_event_that_arrives_ten_times_at_once_counts_once(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    sent = checkout(str(ana.id))
    answers = await asyncio.gather(*(send_stripe(anonymous, sent) for _ in range(10)))

    assert {answer.status_code for answer in answers} == {200}
    assert sorted(len(answer.json()) for answer in answers) == [1] + [2] * 9
    assert len(await ledger.upgrades()) == 1
    assert await ledger.received("stripe") == 1


async def test_an_event_whose_effect_fails_was_not_received(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    await ledger.run(
        "create function public.fail() returns trigger language plpgsql as"
        " 'begin raise exception ''no''; end'"
    )
    await ledger.run(
        "create trigger fail before insert on events.log for each row execute function public.fail()"
    )
    sent = checkout(str(ana.id))
    assert_problem(await send_stripe(anonymous, sent), 500)
    await ledger.assert_nothing_came_of_it(ana.id)

    await ledger.run("drop trigger fail on events.log")
    assert (await send_stripe(anonymous, sent)).json() == TAKEN
    assert await ledger.is_premium(ana.id)


async def test_what_was_received_long_ago_is_forgotten(
    services: Services, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    for _ in range(2):
        await send_stripe(anonymous, event("customer.created", {}))
    assert await services.inbound.purge() == 0
    await ledger.run(
        "update events.received set received_at = now() - interval '91 days'"
        " where id = (select min(id) from events.received)"
    )
    assert await services.inbound.purge() == 1
    assert await ledger.received("stripe") == 1


# The server


async def test_without_a_secret_nothing_is_taken(
    home: Path, database_url: str, ana: Person, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    for configured in (None, "", "  "):
        settings = make_settings(home, database_url, stripe_webhook_secret=configured)
        with subtests.test(configured=configured):
            async with (
                serving(settings) as (_, address),
                httpx.AsyncClient(base_url=address, timeout=30) as http,
            ):
                body = json.dumps(checkout(str(ana.id))).encode()
                for header in (None, signature(body, secret=configured or "")):
                    problem = assert_problem(
                        await send_stripe(http, body, header), 404, "webhook_not_configured"
                    )
                    assert "STRIPE_WEBHOOK_SECRET" in problem["detail"]
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_logs_tell_what_came_and_nothing_of_whom(
    ana: Person, anonymous: httpx.AsyncClient, services: Services
) -> None:
    sent = checkout(str(ana.id), customer_email="marker@example.com")
    body = json.dumps(sent).encode()
    wrong, right = signature(body, secret="whsec_another"), signature(body)
    with structlog.testing.capture_logs() as lines:
        await send_stripe(anonymous, body, wrong)
        await send_stripe(anonymous, body, right)

    ours = [line for line in lines if line.get("source") == "stripe"]
    assert [line["event"] for line in ours] == ["a webhook was refused", "a webhook was taken"]
    assert (ours[0]["code"], ours[1]["id"]) == ("invalid_signature", sent["id"])
    for private in (str(ana.id), "marker", STRIPE_SECRET, wrong, right):
        assert private not in str(lines)


async def test_the_endpoints_are_described(anonymous: httpx.AsyncClient) -> None:
    described = (await anonymous.get("/openapi.json")).json()["paths"]
    for path, statuses in {STRIPE: {"404", "409"}, "/api/webhooks/mem0": {"401", "404"}}.items():
        operation = described[path]["post"]
        assert operation["security"] == []
        assert operation["requestBody"]["content"].keys() == {"application/json"}
        assert statuses | {"200", "400", "413", "415", "422", "503"} <= operation["responses"].keys()
