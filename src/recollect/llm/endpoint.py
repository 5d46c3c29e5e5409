"""One exchange with a model's server: bounded in size, and whatever goes wrong becomes a short reason in our
own words. What the server says is not passed on: it may quote the prompt, or the key."""

from __future__ import annotations

import asyncio
import json
import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from pydantic import BaseModel

from recollect.kit.logs import logger
from recollect.llm.dialects import Dialect, Form, NotOurProtocol
from recollect.llm.models import Question, Reply
from recollect.llm.schema import NotExpressible

CONNECT_SECONDS = 10
MAX_REPLY_BYTES = 4 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
# Of one process: a model that hangs must not take every connection that leads out of it.
AT_ONCE = 32

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# Asked for more than was paid for: that does not pass by waiting a little.
_SPENT = re.compile(rb"insufficient_quota|enforced_spend_limit_reached|billing_hard_limit_reached")
_ABOUT_THE_FORM = re.compile(
    rb"response_?format|output_config|schema|grammar|guided|structured", re.IGNORECASE
)

log = logger("llm")


class Setback(Exception):
    """An exchange that brought no answer. ``wait`` is for how long the server wants to be left alone."""

    def __init__(
        self,
        reason: str,
        *,
        may_pass: bool = False,
        may_have_cost: bool = False,
        wait: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_pass = may_pass
        self.may_have_cost = may_have_cost
        self.wait = wait


class _FormRefused(Exception):
    """The server does not take the schema in this form."""


class Endpoint:
    def __init__(self, http: httpx.AsyncClient, dialect: Dialect) -> None:
        self.dialect = dialect
        self._http = http
        self._turns = asyncio.Semaphore(AT_ONCE)
        # What a server has refused for one kind of answer it would refuse again.
        self._forms: WeakKeyDictionary[type[BaseModel], int] = WeakKeyDictionary()

    async def send(self, question: Question) -> Reply:
        """Ask once, in the surest form that the server takes."""
        forms = self.dialect.forms
        for number in range(self._forms.get(question.answer, 0), len(forms)):
            try:
                reply = await self._send(question, forms[number])
            except (_FormRefused, NotExpressible):
                self._forms[question.answer] = number + 1
                log.debug("schema not taken", answer=question.answer.__name__, form=forms[number].name)
            else:
                return reply
        raise Setback("The model's server does not take the request (400).")

    async def _send(self, question: Question, form: Form) -> Reply:
        request = self.dialect.request(question, form)
        body = await self._post(request, may_change_form=form is not self.dialect.forms[-1])
        try:
            return self.dialect.reply(json.loads(body))
        except (ValueError, RecursionError, NotOurProtocol):
            raise Setback(
                "What came back is no answer of a model; look at the address of its server.",
                may_have_cost=True,
            ) from None

    async def _post(self, request: dict[str, Any], *, may_change_form: bool) -> bytes:
        # How long it may take in all is the caller's to say.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        try:
            async with (
                self._turns,
                self._http.stream(
                    "POST", self.dialect.url, json=request, headers=self.dialect.headers(), timeout=timeout
                ) as response,
            ):
                if response.is_success:
                    return await _read(response, MAX_REPLY_BYTES)
                said = await _read(response, MAX_ERROR_BYTES, cut=True)
                if (
                    may_change_form
                    and response.status_code in {400, 422, 501}
                    and _ABOUT_THE_FORM.search(said)
                ):
                    raise _FormRefused
                raise self._refusal(response, said)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            raise Setback("The model's server cannot be reached.", may_pass=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Without its cause, which holds the request with the key in its headers.
            name = type(error).__name__
            raise Setback(
                f"The connection to the model's server broke ({name}).", may_pass=True, may_have_cost=True
            ) from None

    def _refusal(self, response: httpx.Response, said: bytes) -> Setback:
        status = response.status_code
        if status in _BUSY and not _SPENT.search(said):
            # Both say so where they know that it would not help.
            may_pass = response.headers.get("x-should-retry") != "false"
            reason = f"The model's server is busy or has a fault of its own ({status})."
            return Setback(reason, may_pass=may_pass, wait=_wait(response.headers))
        match status:
            case 401 | 403:
                key = self.dialect.key_setting
                reason = f"The model's server refused the key ({status}); look at {key}."
            case 402 | 429:
                reason = f"The account with the model's server has no credit left ({status})."
            case 404:
                reason = (
                    f"The model's server knows no {self.dialect.model}, or nothing is at that address (404); "
                    "look at RECOLLECT_MODEL and RECOLLECT_MODEL_URL."
                )
            case 413:
                reason = "The model's server takes no request as long as that (413)."
            case _ if 300 <= status < 400:
                reason = f"The model's server is somewhere else ({status}); give its final address."
            case _:
                reason = f"The model's server does not take the request ({status}{_kind(said)})."
        return Setback(reason)


async def _read(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    received = bytearray()
    async for piece in response.aiter_bytes():
        received += piece
        if len(received) > limit:
            if cut:
                break
            raise Setback("The answer of the model's server is too large.", may_have_cost=True)
    return bytes(received)


def _kind(said: bytes) -> str:
    """What sort of error the server calls it, if that is a plain word."""
    try:
        match json.loads(said):
            case {"error": {"type": str(word)}} | {"error": {"code": str(word)}}:
                return f", {word}" if re.fullmatch(r"[a-z_]{1,40}", word) else ""
    except (ValueError, RecursionError):
        pass  # no JSON: then there is no such word
    return ""


def _wait(headers: httpx.Headers) -> float | None:
    """Retry-After, in seconds or as a date."""
    given = headers.get("retry-after", "").strip()
    try:
        seconds = float(given)
    except ValueError:
        try:
            until = parsedate_to_datetime(given)
        except ValueError:
            return None
        seconds = (until.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
