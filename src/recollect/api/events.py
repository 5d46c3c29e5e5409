"""What happens: read afterwards, or heard as it happens, as server-sent events or over a WebSocket."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.errors import InvalidInput, NotAllowed, NotSignedIn, RecollectError
from recollect.events.live import Listener, Live, Reset, TooManyListeners
from recollect.events.models import PATTERNS, Event, wanted_types
from recollect.http.callers import Recollect, caller_of, caller_with, services
from recollect.http.edge.protocol import HANG_UP
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.kit.text import of_form

HELLO_SECONDS = 10

router = APIRouter(tags=["events"], route_class=RecollectRoute)

_PATTERN = "|".join(map(re.escape, PATTERNS))
Types = Annotated[
    str | None,
    Query(max_length=500, description='Only these, comma separated: "bank.changed", "memory.*".'),
    *of_form(f"^(({_PATTERN})(, ?({_PATTERN}))*)?$", f"comma separated, out of {', '.join(PATTERNS)}"),
]


Reading = Annotated[Transaction, transaction("events:read")]


class EventStream(Response):
    """Server-sent events to one client, for as long as it stays."""

    def __init__(self, live: Live, caller: Caller, types: Sequence[str], after: int | None) -> None:
        super().__init__(media_type="text/event-stream")
        self._live = live
        self._caller = caller
        self._types = types
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve("", self._after, scope, receive, send)
        except Reset as reset:
            opening = _message("reset", reset.newest, {"newest": reset.newest})
            await self._serve(opening, reset.newest, scope, receive, send)

    async def _serve(
        self, opening: str, after: int | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with self._live.listen(self._caller, self._types, after, scope[HANG_UP]) as listener:
            stream = StreamingResponse(
                self._lines(opening, listener),
                media_type="text/event-stream",
                # Proxies that gather an answer before they pass it on would gather this one for ever.
                headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            )
            await stream(scope, receive, send)

    async def _lines(self, opening: str, listener: Listener) -> AsyncIterator[str]:
        # With its place, so that a client that is interrupted before the first event misses none either.
        yield f"retry: 2000\nid: {listener.position}\n\n{opening}"
        async for event in self._live.heard_by(listener):
            if event is None:
                yield ": still here\n\n"
            else:
                yield _message(event.type, event.position, event.model_dump(mode="json"))


def _message(kind: str, position: int, data: dict[str, Any]) -> str:
    return f"id: {position}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


@router.get(
    "/api/events",
    summary="Hear what happens, as server-sent events.",
    description=(
        "Each event carries its position as id; a browser sends the last one back by itself when it "
        "reconnects, and hears everything since. If that is too long ago, an event `reset` comes first: read "
        "your state anew."
    ),
    response_class=Response,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **responses(401, 403, 422, 429, 503),
    },
)
async def stream(
    recollect: Recollect,
    types: Types = None,
    after: Annotated[int | None, Query(ge=0, le=2**62, description="Begin after this position.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=20, pattern=r"^[0-9]{1,18}$")] = None,
    *,
    tx: Reading,
) -> Response:
    if last_event_id is not None:
        after = int(last_event_id)
    return EventStream(recollect.live, tx.caller, wanted_types(types), after)


@router.get(
    "/api/events/history",
    summary="Events that have happened, the oldest first.",
    response_model=Page[Event],
    responses=responses(401, 403, 422, 503),
)
async def history(
    recollect: Recollect,
    wanted: Annotated[PageQuery, Query()],
    tx: Reading,
) -> Any:
    listing = Listing[Event](recollect.cursors, ("events",), lambda event: [event.position])

    async def fetch(after: list[Any] | None, limit: int) -> list[Event]:
        return await recollect.events.list(tx, after=after[0] if after else 0, limit=limit)

    return await listing.page(wanted, fetch)


class Hello(BaseModel):
    """The first message of a client that did not prove who it is otherwise; also chooses what to hear."""

    model_config = ConfigDict(extra="forbid")

    key: SecretStr | None = None
    types: list[str] = Field(default_factory=list, max_length=50)
    after: int | None = Field(None, ge=0, le=2**62)


@router.websocket("/ws")
async def socket(websocket: WebSocket, types: str | None = None, after: int | None = None) -> None:
    """The same events over a WebSocket, one JSON text each. A program that cannot send an Authorization
    header sends ``{"key": "rk_..."}`` first."""
    await websocket.accept()
    live = services(websocket).live
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            caller, wanted, after = await _greeted(websocket, types, after)
        try:
            await _talk(websocket, live, caller, wanted, after)
        except Reset as reset:
            await websocket.send_json({"type": "reset", "position": reset.newest})
            await _talk(websocket, live, caller, wanted, reset.newest)
    except (WebSocketDisconnect, TimeoutError):
        return
    except (NotSignedIn, NotAllowed) as error:
        await websocket.close(4401, _reason(error))
    except TooManyListeners as error:
        await websocket.close(4429, _reason(error))
    except RecollectError as error:
        await websocket.close(4400, _reason(error))


def _reason(error: RecollectError) -> str:
    # The protocol has room for 123 bytes.
    return error.detail.encode()[:120].decode(errors="ignore")


async def _greeted(
    websocket: WebSocket, types: str | None, after: int | None
) -> tuple[Caller, tuple[str, ...], int | None]:
    try:
        caller, wanted = await caller_of(websocket), wanted_types(types)
    except NotSignedIn:
        if "authorization" in websocket.headers:
            raise
        try:
            hello = Hello.model_validate_json(await websocket.receive_text())
        except (ValidationError, KeyError) as error:
            raise InvalidInput('Send {"key": "rk_..."} first.') from error
        if hello.key is None:
            raise NotSignedIn from None
        caller = await caller_with(services(websocket), hello.key.get_secret_value())
        wanted, after = wanted_types(",".join(hello.types)), hello.after
    if caller is SERVICE:
        raise NotAllowed("The service key acts for a user; this address names none.") from None
    return caller, wanted, after


async def _talk(
    websocket: WebSocket, live: Live, caller: Caller, types: Sequence[str], after: int | None
) -> None:
    async with live.listen(caller, types, after, websocket.scope[HANG_UP]) as listener:
        talking = asyncio.create_task(_send_all(websocket, live, listener))
        hanging_up = asyncio.create_task(_until_gone(websocket))
        try:
            await asyncio.wait({talking, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (talking, hanging_up):
                task.cancel()
            await asyncio.gather(talking, hanging_up, return_exceptions=True)
    if not hanging_up.cancelled() and hanging_up.done() and hanging_up.exception() is None:
        return
    await websocket.close(1001)


async def _send_all(websocket: WebSocket, live: Live, listener: Listener) -> None:
    async for event in live.heard_by(listener):
        # The protocol's own pings show that we are here.
        if event is not None:
            await websocket.send_text(event.model_dump_json())


async def _until_gone(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass  # after its greeting a client has nothing to say that we would act on
