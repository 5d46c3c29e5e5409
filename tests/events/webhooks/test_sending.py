"""One attempt: signed so that the receivers' own library verifies it, and bounded whatever they do."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from recollect.events.webhooks.sending import ANSWER_BYTES, Sender, new_secret, signed_headers
from tests.events.webhooks.receiving import receiving, status

pytestmark = pytest.mark.anyio

PAYLOAD = {"type": "bank.changed", "timestamp": "2026-01-31T12:00:00Z", "data": {"key": "größe 🎈"}}


async def test_a_delivery_is_verified_by_the_receivers_library() -> None:
    secret = new_secret()
    async with receiving() as receiver, Sender(allow_private=True) as sender:
        outcome = await sender.send(receiver.url, "msg-1", PAYLOAD, [secret])

    assert (outcome.status, outcome.error, outcome.answer) == (200, None, "thanks")
    [received] = receiver.received
    assert received.verified(secret) == PAYLOAD
    assert received.id == "msg-1"
    assert received.headers["content-type"] == "application/json"
    age = datetime.now(UTC).timestamp() - int(received.headers["webhook-timestamp"])
    assert -1 <= age <= 30
    with pytest.raises(WebhookVerificationError):
        received.verified(new_secret())


async def test_a_secret_is_of_the_form_that_the_scheme_asks_for() -> None:
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert len(Webhook(secret)._whsecret) == 32
    assert secret != new_secret()


async def test_every_secret_signs() -> None:
    former, current = new_secret(), new_secret()
    async with receiving() as receiver, Sender(allow_private=True) as sender:
        await sender.send(receiver.url, "msg-1", PAYLOAD, [current, former])
    [received] = receiver.received
    assert received.verified(former) == received.verified(current) == PAYLOAD


def test_a_signature_holds_for_its_moment_its_id_and_its_body() -> None:
    secret, now = new_secret(), datetime.now(UTC)
    headers = signed_headers("msg-1", now, "{}", [secret])
    assert Webhook(secret).verify("{}", headers) == {}
    old = signed_headers("msg-1", now - timedelta(minutes=6), "{}", [secret])
    for body, changed in (
        ("[]", headers),
        ("{}", headers | {"webhook-id": "msg-2"}),
        ("{}", headers | {"webhook-timestamp": str(int(now.timestamp()) + 1)}),
        ("{}", old),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, changed)


@pytest.mark.parametrize("code", [301, 302, 307, 400, 404, 410, 429, 500, 503])
async def test_all_but_2xx_is_a_failure_with_its_status(code: int) -> None:
    async with receiving(status(code, b"why")) as receiver, Sender(allow_private=True) as sender:
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert (outcome.status, outcome.answer) == (code, "why")
    assert str(code) in (outcome.error or "")
    assert outcome.is_gone == (code == 410)
    assert receiver.connections == 1


@pytest.mark.parametrize("code", [200, 201, 202, 204])
async def test_2xx_is_delivered(code: int) -> None:
    async with receiving(status(code)) as receiver, Sender(allow_private=True) as sender:
        assert (await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])).is_delivered


async def never_answers(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drips_its_head(writer: asyncio.StreamWriter) -> None:
    for letter in b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 1_000:
        writer.write(bytes([letter]))
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("answer", [never_answers, drips_its_head])
async def test_a_slow_receiver_costs_no_more_than_the_time_allowed(answer: object) -> None:
    async with (
        receiving(answer) as receiver,  # type: ignore[arg-type]  # one of two answers
        Sender(allow_private=True, timeout_seconds=0.5) as sender,
    ):
        began = time.monotonic()
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert time.monotonic() - began < 20
    assert (outcome.status, outcome.error) == (None, "No answer within 0.5 seconds.")


async def test_a_receiver_that_drips_its_answer_has_been_reached() -> None:
    async def drips(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)

    async with (
        receiving(drips) as receiver,
        Sender(allow_private=True, timeout_seconds=1) as sender,
    ):
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert outcome.is_delivered
    assert len(outcome.answer or "") < 1_000


@pytest.mark.parametrize("code", [200, 500])
async def test_of_a_huge_answer_only_the_beginning_is_read(code: int) -> None:
    sent = 0

    async def huge(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: 1000000000000\r\n\r\n".encode())
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with receiving(huge) as receiver, Sender(allow_private=True) as sender:
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert (outcome.status, outcome.answer) == (code, "x" * ANSWER_BYTES)
    assert sent < 50_000_000


async def test_a_packed_answer_is_not_unpacked_and_an_odd_one_made_inert() -> None:
    body = b"\x1f\x8b\x00\x1b[31mred\x00"
    odd = status(500, body, "Content-Encoding: gzip")
    async with receiving(odd) as receiver, Sender(allow_private=True) as sender:
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert outcome.answer is not None
    assert all(letter.isprintable() for letter in outcome.answer)
    assert "[31mred" in outcome.answer


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def talks_nonsense(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 smtp.example ESMTP\r\n")


async def breaks_off(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")


async def floods_with_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        writer.write(f"X-{number}: {'x' * 100}\r\n".encode())
        await writer.drain()


@pytest.mark.parametrize("answer", [hangs_up, talks_nonsense, breaks_off, floods_with_headers])
async def test_whatever_the_receiver_does_there_is_an_outcome(answer: object) -> None:
    async with receiving(answer) as receiver, Sender(allow_private=True) as sender:  # type: ignore[arg-type]  # see above
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert outcome.status is None
    assert (outcome.error or "").startswith("The connection broke")


async def test_nobody_there_is_an_outcome_too() -> None:
    async with receiving() as receiver:
        pass
    async with Sender(allow_private=True) as sender:
        outcome = await sender.send(receiver.url, "id", PAYLOAD, [new_secret()])
    assert (outcome.status, outcome.error) == (None, "No connection could be made.")
