"""Transactions that know who they are for.

A transaction begins and ends here and nowhere else. Its first statement sets the role and the claims,
locally, so that neither survives it: not in the pool, not behind pgbouncer. That statement travels together
with the first statement of the work itself, and checks the caller's credential on the way, so knowing who
calls costs no round trip: docs/decisions/0004-one-round-trip.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from recollect.db.connection import Answer, Connection
from recollect.db.failures import told_to_callers
from recollect.db.queries import Queries, Query
from recollect.errors import NotAllowed, NotFound

Pool = AsyncConnectionPool[Connection]
Parameters = Mapping[str, Any] | None

_queries = Queries(__package__)


class Proof(Enum):
    """How a caller proves who they are: the statement that checks it, and the role that it leads to."""

    KEY = _queries.act_by_key, "authenticated"
    SESSION = _queries.act_by_session, "authenticated"
    USER = _queries.act_by_user, "authenticated"
    SERVICE = _queries.act_as_service, "service_role"
    NOBODY = _queries.act_as_nobody, "anon"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a transaction is for, as something that the database itself checks.

    ``needs`` is the scope that the work takes. ``subject`` is the user whose memory it is about, where
    that is named in a path: it must be the caller, or the caller an admin.
    """

    proof: Proof
    credential: bytes | UUID | None = field(default=None, repr=False)
    needs: str = "write"
    subject: UUID | None = None
    expires_at: datetime | None = None
    """Until when a proof is good that was judged elsewhere; the database knows of all others."""

    @classmethod
    def by_key(cls, digest: bytes) -> Self:
        return cls(Proof.KEY, digest)

    @classmethod
    def by_session(cls, digest: bytes) -> Self:
        return cls(Proof.SESSION, digest)

    @classmethod
    def user(cls, user_id: UUID, expires_at: datetime | None = None) -> Self:
        return cls(Proof.USER, user_id, expires_at=expires_at)

    def needing(self, scope: str) -> Self:
        return replace(self, needs=scope)

    def about(self, subject: UUID | None) -> Self:
        return replace(self, subject=subject)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"credential_": self.credential, "needs_": self.needs, "subject_": self.subject}


SERVICE = Caller(Proof.SERVICE)
NOBODY = Caller(Proof.NOBODY)


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom the database found the caller to be."""

    user_id: UUID
    email: str | None
    scopes: frozenset[str]
    actor_id: UUID | None = None
    session_id: UUID | None = None

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any]) -> Self:
        return cls(
            user_id=UUID(claims["sub"]),
            email=claims.get("email"),
            scopes=frozenset(claims.get("scopes", ())),
            actor_id=UUID(claims["act"]) if "act" in claims else None,
            session_id=UUID(claims["session_id"]) if "session_id" in claims else None,
        )


class Transaction:
    """Takes a connection at its first statement, and none if it never has one.

    A service marks the statement that completes its work as ``last``. Where the transaction was opened
    for that one call, the commit then travels along in the same round trip; elsewhere the mark means
    nothing, and calls can be put together in one transaction.
    """

    def __init__(self, pool: Pool, caller: Caller, *, for_one_call: bool) -> None:
        self.caller = caller
        self._pool = pool
        self._connection: Connection | None = None
        self._claims: str | None = None
        self._finished = False
        self._has_committed = False
        self._commits_early = for_one_call
        self._afterwards: list[Callable[[], Awaitable[None]]] = []

    async def all(self, query: Query, parameters: Parameters = None, *, last: bool = False) -> list[DictRow]:
        return (await self._execute(query, parameters, last=last)).rows

    async def maybe(
        self, query: Query, parameters: Parameters = None, *, last: bool = False
    ) -> DictRow | None:
        rows = (await self._execute(query, parameters, last=last)).rows
        return rows[0] if rows else None

    async def one(self, query: Query, parameters: Parameters = None, *, last: bool = False) -> DictRow:
        row = await self.maybe(query, parameters, last=last)
        if row is None:
            raise NotFound
        return row

    async def run(self, query: Query, parameters: Parameters = None, *, last: bool = False) -> int:
        """Execute, and say how many rows it touched."""
        return (await self._execute(query, parameters, last=last)).touched

    @property
    def principal(self) -> Principal:
        """Who the caller is; known from the first statement on."""
        if self._claims is None:
            raise RuntimeError("who the caller is comes with the first statement")
        claims = json.loads(self._claims)
        if "sub" not in claims:
            raise NotAllowed("This is for a user, not for the service.")
        return Principal.from_claims(claims)

    def hold(self) -> None:
        """Let no ``last`` statement commit after all: something else must stand or fall with it."""
        self._commits_early = False

    def afterwards(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this when the transaction stands, and before the caller is told so. It must not fail."""
        self._afterwards.append(work)

    def still_open(self) -> Transaction:
        """This one, or another for the same caller if this one's last statement has been."""
        return Transaction(self._pool, self.caller, for_one_call=True) if self._finished else self

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Transaction]:
        """This one as it stands, or another for the same caller, which ends with the block."""
        opened = self.still_open()
        if opened is self:
            yield self
            return
        async with opened:
            yield opened

    @property
    def has_afterwards(self) -> bool:
        return bool(self._afterwards)

    async def _execute(self, query: Query, parameters: Parameters, *, last: bool) -> Answer:
        if self._finished:
            raise RuntimeError(f"{query.name} comes after the transaction's last statement")
        last = last and self._commits_early
        with told_to_callers():
            if self._connection is None:
                answer = await self._begin_with(query, parameters, last=last)
            else:
                text = f"{query.text};\ncommit" if last else query.text
                answer = await self._connection.ask(text, parameters)
        self._finished = self._has_committed = last
        return answer

    async def _begin_with(self, query: Query, parameters: Parameters, *, last: bool) -> Answer:
        self._connection = await self._pool.getconn()
        self._claims, answer = await self._connection.open_with(
            *self.caller.proof.value,
            query,
            {**self.caller.parameters, **(parameters or {})},
            begin=not last,
        )
        return answer

    async def finish(self) -> None:
        """Commit now and let go of the connection: for work that must not wait inside a transaction."""
        await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection, self._connection = self._connection, None
        self._finished = True
        if connection is None:
            return
        has_committed = self._has_committed
        await self._end(connection, is_good=kind is None)
        if kind is None or has_committed:
            for work in self._afterwards:
                await work()

    async def _end(self, connection: Connection, *, is_good: bool) -> None:
        try:
            if connection.pgconn.transaction_status == TransactionStatus.IDLE:
                return
            with told_to_callers():
                ended = await connection.execute("commit" if is_good else "rollback")
            if is_good and ended.statusmessage != "COMMIT":
                raise RuntimeError("an error inside the transaction was swallowed; nothing was stored")
        finally:
            # Whatever is still open here, because the connection broke or we were cancelled, the pool
            # undoes or throws away.
            await self._pool.putconn(connection)


class Tenancy:
    """Opens transactions. The service has a login and a pool of its own; everybody else shares one
    whose login cannot become the service, whatever statement might be smuggled in."""

    def __init__(self, api_pool: Pool, service_pool: Pool) -> None:
        self._api_pool = api_pool
        self._service_pool = service_pool

    def acting_as(self, caller: Caller, *, for_one_call: bool = False) -> Transaction:
        pool = self._service_pool if caller.proof is Proof.SERVICE else self._api_pool
        return Transaction(pool, caller, for_one_call=for_one_call)

    def beside_requests(self) -> Tenancy:
        """For work that must not take connections away from requests: all on the service's pool."""
        return Tenancy(self._service_pool, self._service_pool)
