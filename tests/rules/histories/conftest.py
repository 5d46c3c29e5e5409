"""Somebody with chats, without HTTP in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from recollect.access import store
from recollect.access.membership_models import NamedWorkspace, NewWorkspaceMember
from recollect.access.models import WorkspaceRole
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.rules.chats.models import Chat, Role, Turn
from recollect.rules.histories.models import History, HistoryTurn, Imported, Stored
from recollect.rules.histories.service import Histories

R = TypeVar("R")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def chat(
    *said: str, session: str = "one", start: datetime | None = NOON, first: int = 0, **more: Any
) -> Chat:
    """A chat in which the user and the assistant take turns, a minute apart."""
    roles: tuple[Role, Role] = ("user", "assistant")
    turns = [
        Turn(roles[number % 2], text, start and start + timedelta(minutes=number), number + first)
        for number, text in enumerate(said)
    ]
    fields: dict[str, Any] = {"source": f"{session}.jsonl", "project": "/shop", "author": None, "title": None}
    return Chat(
        **{**fields, **more}, format="claude-code", session=session, started_at=start, turns=tuple(turns)
    )


@dataclass(frozen=True)
class Person:
    services: Services
    id: UUID
    email: str

    @property
    def histories(self) -> Histories:
        return self.services.histories

    async def do(self, work: Callable[[Transaction], Awaitable[R]]) -> R:
        async with self.services.tenancy.acting_as(Caller.user(self.id)) as tx:
            return await work(tx)

    async def add(self, *chats: Chat, **where: UUID) -> Imported:
        return await self.do(lambda tx: self.histories.add(tx, self.id, chats, **where))

    async def chats(self, **where: Any) -> Sequence[History]:
        return await self.do(lambda tx: self.histories.list(tx, self.id, **where))

    async def turns(self, chat_id: UUID | None) -> Sequence[HistoryTurn]:
        assert chat_id is not None
        return await self.do(lambda tx: self.histories.turns(tx, self.id, chat_id))

    async def texts(self, chat_id: UUID | None) -> list[tuple[int, str]]:
        return [(turn.number, turn.text) for turn in await self.turns(chat_id)]

    async def read(self, workspace: UUID | None = None, **which: Any) -> list[Stored]:
        async def everything(tx: Transaction) -> list[Stored]:
            return [stored async for stored in self.histories.read(tx, self.id, workspace, **which)]

        return await self.do(everything)

    async def may_be_analysed(self, workspace: UUID | None = None) -> bool:
        return await self.do(lambda tx: self.histories.may_analyse(tx, self.id, workspace))

    async def agrees(self, granted: bool = True, workspace: UUID | None = None, how: str = "test") -> None:
        await self.do(lambda tx: self.histories.consent(tx, self.id, granted, workspace, how=how))

    async def workspace(self, *others: tuple[Person, WorkspaceRole]) -> UUID:
        """A workspace of theirs, with these people in it."""
        membership = self.services.membership
        made = await self.do(lambda tx: membership.create_workspace(tx, NamedWorkspace(name="Shop")))
        for other, role in others:
            wanted = NewWorkspaceMember(email=other.email, role=role)
            async with self.services.tenancy.acting_as(Caller.user(self.id)) as tx:
                await membership.workspace_members.add(tx, made.id, wanted)
        return made.id


async def person(services: Services, name: str) -> Person:
    email = f"{name}@example.com"
    async with services.tenancy.acting_as(SERVICE) as tx:
        return Person(services, await store.add_user(tx, email, None), email)


@pytest.fixture
async def ana(services: Services) -> Person:
    return await person(services, "ana")


@pytest.fixture
async def ben(services: Services) -> Person:
    return await person(services, "ben")


@pytest.fixture
async def everything_stored(database_url: str) -> Callable[[], Awaitable[str]]:
    """All that any column of any table holds, as one text."""

    async def dump() -> str:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            tables = await connection.execute(
                "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n"
                " on n.oid = c.relnamespace where c.relkind = 'r'"
                " and n.nspname !~ '^(pg_|information_schema)'"
            )
            rows: list[str] = []
            for (table,) in await tables.fetchall():
                found = await connection.execute(f"select to_jsonb(t)::text from {table} t".encode())
                rows += [row[0] for row in await found.fetchall()]
            return "\n".join(rows)

    return dump


@pytest.fixture
def analyse(database_url: str) -> Callable[[], Awaitable[None]]:
    """Mark everything that is there as read by an extraction."""

    async def mark() -> None:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await connection.execute("update chat_turns set analysed_in = gen_random_uuid()")

    return mark
