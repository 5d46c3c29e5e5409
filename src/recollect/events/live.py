"""Live updates: the clients that listen at this server, and what each of them may hear.

One reader per process follows the events and asks the database, for all clients at once, who may hear which.
A client has a short queue of its own; one that does not keep up is cut off, and comes back with the position
of the last event it got.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from uuid import UUID

from recollect.db.listening import wake_ups
from recollect.db.tenancy import SERVICE, Caller, Tenancy
from recollect.errors import NotSignedIn, RecollectError, TooManyAttempts, Unavailable
from recollect.events.models import Event, matches
from recollect.events.service import Events, queries
from recollect.kit.logs import logger

QUEUE = 256
BATCH = 100
PAGE = 500
MOST_PER_USER = 50
RECHECK_SECONDS = 30
HEARTBEAT_SECONDS = 15

log = logger("live")


class TooManyListeners(TooManyAttempts):
    """You have as many live connections as one user may have; close some."""

    code = "too_many_listeners"


class Reset(Exception):
    """What the client asks for is no longer known, or never was: it has to read everything anew."""

    def __init__(self, newest: int) -> None:
        super().__init__()
        self.newest = newest


class Sign(Enum):
    """What a listener finds in its queue besides events."""

    BEHIND = "read on in the database"
    END = "nothing more comes"


@dataclass(eq=False)
class Listener:
    """One client. ``hang_up`` cuts its connection, however little of what was sent it has read."""

    caller: Caller
    user_id: UUID
    types: Sequence[str]
    hang_up: Callable[[], None]
    position: int
    queue: asyncio.Queue[Event | Sign] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    overflowed_at: int | None = None

    def offer(self, event: Event) -> None:
        if not matches(event.type, self.types):
            return
        if not self.queue.full():
            self.queue.put_nowait(event)
        elif self.overflowed_at != self.position:
            # Too much at once. It finds all of it in the database, in its own time.
            self.overflowed_at = self.position
            self._replace_queue(Sign.BEHIND)
        else:
            # Since it fell behind the last time it has taken nothing.
            log.info("a slow listener is cut off", user=str(self.user_id))
            self.close()
            self.hang_up()

    def close(self) -> None:
        """Let it end."""
        self._replace_queue(Sign.END)

    def _replace_queue(self, sign: Sign) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(sign)


class Live:
    def __init__(self, tenancy: Tenancy, conninfo: str, events: Events) -> None:
        self._tenancy = tenancy
        self._conninfo = conninfo
        self._events = events
        self._listeners = defaultdict[UUID, set[Listener]](set)
        self._position: int | None = None
        self._turn = asyncio.Lock()

    @property
    def listeners(self) -> int:
        return sum(map(len, self._listeners.values()))

    async def watch(self) -> None:
        """Follow the events, as long as the server runs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recheck())
            async for _ in wake_ups(self._conninfo, "recollect_events"):
                try:
                    await self._tell()
                except Unavailable as error:
                    log.warning("listeners wait for the database", code=error.code)

    def close(self) -> None:
        """The server stops: everybody is told to come back elsewhere."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()

    @asynccontextmanager
    async def listen(
        self, caller: Caller, types: Sequence[str], after: int | None, hang_up: Callable[[], None]
    ) -> AsyncIterator[Listener]:
        """Take a client in. It hears what happens from now on, or everything after a position."""
        caller = caller.needing("events:read")
        async with self._tenancy.acting_as(caller) as tx:
            present = await tx.one(queries.present)
            user_id = tx.principal.user_id
        newest: int = present["newest"]
        if after is not None and not present["oldest"] - 1 <= after <= newest:
            raise Reset(newest)
        if len(self._listeners.get(user_id, ())) >= MOST_PER_USER:
            raise TooManyListeners
        listener = Listener(caller, user_id, types, hang_up, newest if after is None else after)
        self._listeners[user_id].add(listener)
        if self._position is None:
            self._position = newest
        try:
            await self._tell()
            yield listener
        finally:
            self._leave(listener)

    def _leave(self, listener: Listener) -> None:
        others = self._listeners.get(listener.user_id, set()) - {listener}
        if others:
            self._listeners[listener.user_id] = others
        else:
            self._listeners.pop(listener.user_id, None)

    async def heard_by(self, listener: Listener) -> AsyncIterator[Event | None]:
        """What the client has missed, then what happens; None now and then, to show that we are here."""
        async for missed in self._missed(listener):
            yield missed
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    event = await listener.queue.get()
            except TimeoutError:
                yield None
                continue
            if event is Sign.END:
                return
            if event is Sign.BEHIND:
                async for missed in self._missed(listener):
                    yield missed
            elif event.position > listener.position:
                listener.position = event.position
                yield event

    async def _missed(self, listener: Listener) -> AsyncIterator[Event]:
        """With the client's own rights, up to where its queue has begun."""
        while not _is_over(listener):
            async with self._tenancy.acting_as(listener.caller) as tx:
                page = await self._events.list(tx, after=listener.position, limit=PAGE)
            for event in page:
                listener.position = event.position
                if matches(event.type, listener.types):
                    yield event
            if len(page) < PAGE:
                return

    async def _tell(self) -> None:
        """Hand out what is new. One at a time, so that every client gets it in order."""
        async with self._turn:
            while self._listeners and self._position is not None:
                async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                    rows = await tx.all(
                        queries.hear,
                        {"after": self._position, "limit": BATCH, "listeners": list(self._listeners)},
                        last=True,
                    )
                for row in rows:
                    await self._tell_one(Event(**row), row["listeners"] or ())
                # Those who listen take it out meanwhile, and need not fall behind.
                await asyncio.sleep(0)
                if len(rows) < BATCH:
                    return
            if not self._listeners:
                self._position = None

    async def _tell_one(self, event: Event, users: Sequence[UUID]) -> None:
        self._position = event.position
        for user_id in users:
            if event.type == "access.changed":
                await self._recheck_user(user_id)
            for listener in tuple(self._listeners.get(user_id, ())):
                listener.offer(event)

    async def _recheck(self) -> None:
        """A key expires and an account is suspended without an event."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            for user_id in tuple(self._listeners):
                await self._recheck_user(user_id)

    async def _recheck_user(self, user_id: UUID) -> None:
        for listener in tuple(self._listeners.get(user_id, ())):
            try:
                if _is_over(listener):
                    raise NotSignedIn
                async with self._tenancy.acting_as(listener.caller, for_one_call=True) as tx:
                    await tx.one(queries.present, last=True)
            except Unavailable:
                continue
            except RecollectError:
                log.info("a listener may no longer listen", user=str(user_id))
                listener.close()
                self._leave(listener)


def _is_over(listener: Listener) -> bool:
    """Whether the token that let the client in has run out; of it the database knows nothing."""
    expires_at = listener.caller.expires_at
    return expires_at is not None and expires_at <= datetime.now(UTC)
