"""Only what Stripe has signed, just now and byte by byte, is believed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from tests.api.raw import assert_problem, exchange, request
from tests.conftest import Person
from tests.events.inbound.conftest import Ledger
from tests.events.inbound.sending import (
    STRIPE,
    STRIPE_SECRET,
    checkout,
    mac,
    send_stripe,
    signature,
)

pytestmark = pytest.mark.anyio

JSON = "Content-Type: application/json"
TAKEN = {"received": True}


async def test_a_signature_that_does_not_hold_is_refused(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    body = json.dumps(checkout(str(ana.id))).encode()
    now = int(time.time())
    right = mac(body, now)
    for name, header in {
        "empty": "",
        "another secret": signature(body, secret="whsec_another"),
        "another body": signature(body + b" "),
        "another time": f"t={now - 1},v1={right}",
        "no time": f"v1={right}",
        "no signature": f"t={now}",
        "an older scheme alone": f"t={now},v0={right}",
        "cut short": f"t={now},v1={right[:-1]}",
        "in capitals": f"t={now},v1={right.upper()}",
        "no number": f"t=now,v1={right}",
        "an endless number": f"t={'9' * 5000},v1={right}",
        "nonsense": ",,==,",
        "many wrong ones": f"t={now}" + f",v1={'0' * 64}" * 100,
    }.items():
        with subtests.test(name):
            problem = assert_problem(await send_stripe(anonymous, body, header), 400, "invalid_signature")
            assert STRIPE_SECRET not in json.dumps(problem)
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_a_missing_signature_is_refused(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    assert_problem(await anonymous.post(STRIPE, json=checkout(str(ana.id))), 400, "invalid_signature")
    # Nor is an API key a signature.
    assert_problem(await ana.http.post(STRIPE, json=checkout(str(ana.id))), 400, "invalid_signature")
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_a_signature_that_is_not_ascii_is_refused(ana: Person, address: str, ledger: Ledger) -> None:
    body = json.dumps(checkout(str(ana.id))).encode()
    header = f"Stripe-Signature: t={int(time.time())},v1=\xe9\xff"
    sent = request("POST", STRIPE, JSON, f"Content-Length: {len(body)}", header, body=body)
    assert_problem(await exchange(address, sent), 400, "invalid_signature")
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_a_signature_from_yesterday_is_refused(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    body = json.dumps(checkout(str(ana.id))).encode()
    for age in (86_400, 310, int(time.time())):
        with subtests.test(age=age):
            refused = await send_stripe(anonymous, body, signature(body, age=age))
            assert_problem(refused, 400, "stale_signature")
    await ledger.assert_nothing_came_of_it(ana.id)
    assert (await send_stripe(anonymous, body, signature(body, age=240))).json() == TAKEN


async def test_one_right_signature_among_several_is_enough(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    """As while a secret is being replaced: Stripe signs with the old and the new one."""
    body = json.dumps(checkout(str(ana.id))).encode()
    now = int(time.time())
    header = f"t={now},v1={mac(body, now, 'whsec_the_next')},v1={mac(body, now)}"
    assert (await send_stripe(anonymous, body, header)).json() == TAKEN
    assert await ledger.is_premium(ana.id)


async def test_a_body_changed_by_one_byte_is_refused(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    body = json.dumps(checkout(str(ana.id), payment_status="unpaid")).encode()
    header = signature(body)
    for changed in (body.replace(b"unpaid", b"paid"), body + b"\n", body.replace(b": ", b":", 1)):
        assert_problem(await send_stripe(anonymous, changed, header), 400, "invalid_signature")
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_the_signature_is_checked_over_the_bytes_as_they_were_sent(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    def formatted(**options: object) -> bytes:
        sent = checkout(str(ana.id), customer_details={"name": "Zoë \N{SNOWMAN}"}, amount=1.50)
        return json.dumps(sent, **options).encode()  # type: ignore[arg-type]  # only json's own options

    for body in (
        formatted(indent=2),
        formatted(separators=(",", ":"), ensure_ascii=False),
        b"\r\n\t " + formatted(indent="\t", sort_keys=True).replace(b"\n", b"\r\n") + b" \n\n",
        formatted().replace(b"1.5", b"1.50e0").replace(b"paid", rb"\u0070aid"),
    ):
        with subtests.test(body=body):
            await ledger.run("update profiles set is_premium = false")
            assert (await send_stripe(anonymous, body)).json() == TAKEN
            assert await ledger.is_premium(ana.id)


async def test_a_body_in_chunks_is_put_together_again(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    body = json.dumps(checkout(str(ana.id)), indent=1).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    headers = {"Content-Type": "application/json", "Stripe-Signature": signature(body)}
    assert (await anonymous.post(STRIPE, content=in_pieces(), headers=headers)).json() == TAKEN
    assert await ledger.is_premium(ana.id)


async def test_nobody_learns_who_is_a_user(ana: Person, anonymous: httpx.AsyncClient) -> None:
    answers = set()
    for user in (ana.id, uuid4()):
        body = json.dumps(checkout(str(user))).encode()
        refused = await send_stripe(anonymous, body, signature(body, secret="whsec_guessed"))
        answers.add(refused.text)
    assert len(answers) == 1


# Bodies that lie or cannot be read


async def test_a_body_that_lies_about_its_length_is_refused(
    ana: Person, address: str, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    body = json.dumps(checkout(str(ana.id))).encode() + b"    "
    signed = f"Stripe-Signature: {signature(body)}"
    for length, status, code in [
        # What is left over is read as the next request, which may be refused before this one is.
        (len(body) - 2, 400, None),
        (len(body) // 2, 400, None),
        (len(body) + 1, 408, "body_too_slow"),
        (10_000_000, 413, "body_too_large"),
    ]:
        with subtests.test(length=length):
            sent = request("POST", STRIPE, JSON, f"Content-Length: {length}", signed, body=body)
            assert_problem(await exchange(address, sent), status, code)
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_a_body_that_is_not_an_event_is_refused_with_a_reason(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    whole = checkout(str(ana.id))
    for body, status in [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"null", 422),
        (b"{}", 422),
        (json.dumps(whole | {"id": None}).encode(), 422),
        (json.dumps(whole | {"id": ""}).encode(), 422),
        (json.dumps(whole | {"id": "e" * 256}).encode(), 422),
        (json.dumps(whole | {"data": None}).encode(), 422),
        (json.dumps(whole | {"data": {}}).encode(), 422),
        (json.dumps(whole | {"data": {"object": "marker"}}).encode(), 422),
        (json.dumps(checkout(["marker"])).encode(), 422),
        (json.dumps(checkout(None, metadata="marker")).encode(), 422),
        (json.dumps(whole).encode("utf-16"), 400),
        (json.dumps(whole)[:-1].encode() + b', "id": "evt_other"}', 400),
    ]:
        with subtests.test(body=body):
            # Over the bytes themselves, whatever they are.
            answer = await send_stripe(anonymous, body)
            assert "marker" not in json.dumps(assert_problem(answer, status))
    await ledger.assert_nothing_came_of_it(ana.id)


async def test_a_body_that_does_not_say_json_is_refused(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    body = json.dumps(checkout(str(ana.id))).encode()
    for content_type in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""):
        with subtests.test(content_type=content_type):
            headers = {"Content-Type": content_type, "Stripe-Signature": signature(body)}
            answer = await anonymous.post(STRIPE, content=body, headers=headers)
            assert_problem(answer, 415, "unsupported_body")
    await ledger.assert_nothing_came_of_it(ana.id)
