"""One attempt at a delivery: signed by the Standard Webhooks scheme, bounded, and never trusted back."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import httpx
from standardwebhooks import Webhook

from recollect.events.webhooks.addresses import AddressRefused, CheckedTransport, Resolver, resolve

TIMEOUT_SECONDS = 10.0
# The answer is for the log alone: once the status is there, its text gets no more time than this.
ANSWER_SECONDS = 2.0
ANSWER_BYTES = 4_096
SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins, and no secret
SECRET_BYTES = 32


@dataclass(frozen=True)
class Outcome:
    """How an attempt went. ``error`` is a sentence, and None if it was delivered."""

    status: int | None
    took_ms: int
    error: str | None = None
    answer: str | None = None

    @property
    def is_delivered(self) -> bool:
        return self.error is None

    @property
    def is_gone(self) -> bool:
        """The receiver says that it wants nothing any more."""
        return self.status == 410


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(
    message_id: str, moment: datetime, body: str, signing_secrets: Sequence[str]
) -> dict[str, str]:
    """One signature for each secret, so that a receiver can change over at leisure."""
    signatures = [Webhook(secret).sign(message_id, moment, body) for secret in signing_secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


class Sender:
    """Sends deliveries. Open it once; it keeps no connection from one to the next."""

    def __init__(
        self,
        *,
        allow_private: bool,
        resolver: Resolver = resolve,
        trust: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._timeout = timeout_seconds
        self._http = httpx.AsyncClient(
            transport=CheckedTransport(allow_private=allow_private, resolver=resolver, trust=trust),
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_seconds,
            headers={"User-Agent": "Recollect-Webhooks", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def send(
        self, url: str, message_id: str, payload: dict[str, Any], signing_secrets: Sequence[str]
    ) -> Outcome:
        """Whatever the other side does, an outcome, and in bounded time."""
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        headers = signed_headers(message_id, datetime.now(UTC), body, signing_secrets)
        headers["Content-Type"] = "application/json"
        began = time.monotonic()
        status, answer, error = None, None, None
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._http.stream("POST", url, content=body.encode(), headers=headers) as response,
            ):
                status, error = response.status_code, _refusal(response.status_code)
                answer = await _excerpt(response)
        except (AddressRefused, httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as failure:
            # What comes after the status changes nothing about it.
            error = error if status else self._reason(failure)
        took = round((time.monotonic() - began) * 1_000)
        return Outcome(status, took, error, answer)

    def _reason(self, failure: Exception) -> str:
        match failure:
            case AddressRefused():
                return failure.detail
            case TimeoutError() | httpx.TimeoutException():
                return f"No answer within {self._timeout:g} seconds."
            case httpx.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(failure):
                return "The certificate of the receiver is not valid for this address."
            case httpx.ConnectError():
                return "No connection could be made."
            case _:
                return f"The connection broke ({type(failure).__name__})."


def _refusal(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"Answered with {status}; redirects are not followed, so give the final address."
    return f"Answered with {status}."


async def _excerpt(response: httpx.Response) -> str | None:
    """The beginning of the answer, as it came: not unpacked, since little can become a lot."""
    received = bytearray()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            async for piece in response.aiter_raw():
                received += piece
                if len(received) >= ANSWER_BYTES:
                    break
    except (TimeoutError, httpx.HTTPError):
        pass  # as much as came is enough for the log
    text = bytes(received[:ANSWER_BYTES]).decode(errors="replace")
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t") or None
