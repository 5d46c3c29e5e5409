"""Routes: one request is one transaction, and a POST with an Idempotency-Key happens once."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response

from recollect.access.answers import Answer, Answers
from recollect.db.tenancy import Caller, Transaction
from recollect.errors import InvalidInput, NotFound, NotSignedIn
from recollect.http.callers import caller_for, is_service, services
from recollect.http.edge.body import ParsedRequest
from recollect.kit.secret import fingerprint

# Structured headers allow no more, and neither end of it is blank: servers strip that.
KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Acting:
    """A dependency: the request's transaction, for a caller who needs this scope. Where no path names a
    user, the service key is let in only if the endpoint says so."""

    def __init__(self, needs: str, *, lets_service_in: bool) -> None:
        self.needs = needs
        self.lets_service_in = lets_service_in

    async def __call__(self, request: Request) -> Transaction:
        opened: Transaction = request.state.transaction
        return opened


def transaction(needs: str, *, lets_service_in: bool = False) -> Any:
    return Depends(Acting(needs, lets_service_in=lets_service_in))


def scope_needed(dependant: Dependant) -> str | None:
    """The scope that a route's caller needs, or None if it is open to everybody."""
    acting = _acting_in(dependant)
    return acting.needs if acting else None


def _acting_in(dependant: Dependant) -> Acting | None:
    if isinstance(dependant.call, Acting):
        return dependant.call
    return next(filter(None, map(_acting_in, dependant.dependencies)), None)


class RecollectRoute(APIRoute):
    """A route of the API. Where an endpoint asks for a transaction, it is opened here for the request's
    caller, and committed when the endpoint has returned and before the answer is sent."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        acting = _acting_in(self.dependant)
        is_idempotent = any(each.call is _documented for each in self.dependant.dependencies)

        async def once(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            return await (handle(request) if key is None else _once(request, key, handle))

        async def handle_parsed(request: Request) -> Response:
            request = ParsedRequest(request.scope, request.receive)
            if acting is None:
                return await handle(request)
            caller = await caller_for(request, acting.needs, lets_service_in=acting.lets_service_in)
            try:
                return await _in_transaction(request, caller, once if is_idempotent else handle)
            except NotSignedIn as error:
                if is_service(request):
                    raise NotFound("There is no such user.") from error
                raise

        return handle_parsed


async def _in_transaction(request: Request, caller: Caller, handle: Handler) -> Response:
    async with services(request).tenancy.acting_as(caller, for_one_call=True) as tx:
        request.state.transaction = tx
        return await handle(request)


async def _once(request: Request, key: str, handle: Handler) -> Response:
    tx: Transaction = request.state.transaction
    if not re.fullmatch(KEY_PATTERN, key):
        raise InvalidInput("Idempotency-Key: 1 to 255 printable ASCII characters.")
    answers = Answers(services(request).secret)
    before = await answers.claim(tx, key, await _fingerprint(request))
    if before is not None:
        return _again(before)
    response = await handle(request)
    await answers.keep(tx, key, _as_answer(response))
    return response


async def _fingerprint(request: Request) -> bytes:
    url = request.url
    return fingerprint(request.method.encode(), url.path.encode(), url.query.encode(), await request.body())


def _as_answer(response: Response) -> Answer:
    return Answer(response.status_code, response.headers.get("content-type"), bytes(response.body).decode())


def _again(answer: Answer) -> Response:
    headers = {"Idempotency-Replayed": "true"}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    return Response(answer.body, answer.status, headers=headers)


async def _documented(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            max_length=255,
            pattern=KEY_PATTERN,
            description="Send the same key again to repeat a request without repeating its effect.",
        ),
    ] = None,
) -> None:
    del idempotency_key


idempotent = Depends(_documented)
"""Has an endpoint honour the header, and puts it into the endpoint's description."""
