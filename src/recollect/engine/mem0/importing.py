"""Memories brought over from mem0: from an account, or from what it exported."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from recollect.db.tenancy import Caller, Tenancy
from recollect.engine.mem0.replies import RawPage
from recollect.engine.mem0.wire import Wire
from recollect.engine.models import Addition, Entities, EntityName, MemoryEngine, Message, Where
from recollect.errors import Conflict, InvalidInput
from recollect.kit.text import Text

PAGE = 100
MEM0_ID = "mem0_id"
"""Under this name the metadata says which memory of mem0's it was."""


def _moment(given: object) -> object:
    """A moment without a zone is UTC."""
    if isinstance(given, str):
        given = datetime.fromisoformat(given.strip())
    if isinstance(given, datetime) and given.tzinfo is None:
        given = given.replace(tzinfo=UTC)
    return given


def _end(given: object) -> object:
    """mem0 tells the last day on which a memory is there."""
    if isinstance(given, str) and len(given.strip()) == len("2026-03-01"):
        day = date.fromisoformat(given.strip())
        return datetime.combine(day + timedelta(days=1), time(), UTC)
    return _moment(given)


Name = Annotated[EntityName | None, BeforeValidator(lambda given: given or None)]


class Record(BaseModel):
    """A memory as mem0 tells it."""

    id: Annotated[str, Field(min_length=1)]
    text: Annotated[Text, Field(min_length=1, validation_alias=AliasChoices("memory", "text", "data"))]
    user_id: Name = None
    agent_id: Name = None
    app_id: Name = None
    run_id: Annotated[Name, Field(validation_alias=AliasChoices("run_id", "session_id"))] = None
    role: Annotated[Text | None, Field(max_length=64)] = None
    metadata: dict[str, Any] | None = None
    categories: list[Text] | None = None
    created_at: Annotated[datetime | None, BeforeValidator(_moment)] = None
    expiration_date: Annotated[datetime | None, BeforeValidator(_end)] = None

    def addition(self, workspace: UUID | None) -> Addition:
        return Addition(
            [Message(role=self.role or "user", content=self.text)],
            Entities(self.user_id, self.agent_id, self.app_id, self.run_id),
            workspace=workspace,
            metadata={**(self.metadata or {}), MEM0_ID: self.id},
            categories=self.categories or (),
            infer=False,
            expires_at=self.expiration_date,
            occurred_at=self.created_at,
            reason="imported from mem0",
        )


class Failure(BaseModel):
    """A memory that could not be brought over, and why."""

    mem0_id: str | None
    problem: str


class Imported(BaseModel):
    """What an import came to. ``known`` were brought over before."""

    found: int = 0
    added: int = 0
    known: int = 0
    failed: list[Failure] = []


def read_export(given: bytes) -> list[Any]:
    """The memories in a file: a list, alone or under "results", "memories" or "data"; or one in each line."""
    try:
        text = given.decode("utf-8-sig")
        try:
            found = json.loads(text)
        except ValueError:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The file is neither JSON nor a line of JSON for each memory.") from error
    while isinstance(found, Mapping):
        inside = next((found[name] for name in ("results", "memories", "data") if name in found), None)
        found = [found] if inside is None else inside
    if not isinstance(found, list):
        raise InvalidInput("The file holds no list of memories.")
    return found


async def read_account(wire: Wire) -> AsyncIterator[tuple[int, list[Any]]]:
    """The memories of an account, a page at a time, each with how many there are in all."""
    anybody = {"OR": [{name: "*"} for name in ("user_id", "agent_id", "app_id", "run_id")]}
    page = 1
    while True:
        answer = await wire.ask(
            RawPage,
            "POST",
            "/v3/memories/",
            body={"filters": anybody, "show_expired": True},
            query={"page": page, "page_size": PAGE},
        )
        yield answer.count, answer.results
        if answer.next is None:
            return
        page += 1


class Import:
    """Brings memories over to a caller, or to a workspace of theirs. Again, it adds what is new."""

    def __init__(
        self,
        engine: MemoryEngine,
        tenancy: Tenancy,
        caller: Caller,
        *,
        workspace: UUID | None = None,
        dry_run: bool = False,
    ) -> None:
        self._engine = engine
        self._tenancy = tenancy
        self._caller = caller
        self._workspace = workspace
        self._dry_run = dry_run
        self._seen: set[str] = set()
        self.outcome = Imported()

    async def bring(self, records: Sequence[Any]) -> None:
        """A page of them, as mem0 tells them."""
        self.outcome.found += len(records)
        read = [record for record in map(self._read, records) if record is not None]
        known = await self._known([record.id for record in read]) | self._seen
        for record in read:
            if record.id in known:
                self.outcome.known += 1
            else:
                await self._add(record)
                known.add(record.id)
        self._seen |= known

    def _read(self, given: Any) -> Record | None:
        named = given.get("id") if isinstance(given, Mapping) else None
        try:
            return Record.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            self._fail(named, f"{place}: {first['msg']}." if place else f"{first['msg']}.")
            return None

    async def _known(self, ids: Sequence[str]) -> set[str]:
        if not ids:
            return set()
        # Also those that have been changed here since.
        where = Where(
            workspace=self._workspace,
            filters={"metadata": {MEM0_ID: {"in": list(ids)}}},
            expired=True,
            superseded=True,
        )
        async with self._tenancy.acting_as(self._caller, for_one_call=True) as tx:
            found = await self._engine.list(tx, where, limit=2 * PAGE)
        return {memory.metadata[MEM0_ID] for memory in found}

    async def _add(self, record: Record) -> None:
        wanted = record.addition(self._workspace)
        try:
            wanted.entities.named()
            if self._dry_run:
                self.outcome.added += 1
                return
            async with self._tenancy.acting_as(self._caller, for_one_call=True) as tx:
                [change] = (await self._engine.add(tx, wanted)).results
        except (InvalidInput, Conflict) as error:
            self._fail(record.id, error.detail)
            return
        if change.event == "ADD":
            self.outcome.added += 1
        else:
            self.outcome.known += 1

    def _fail(self, mem0_id: Any, problem: str) -> None:
        named = mem0_id if isinstance(mem0_id, str) else None
        self.outcome.failed.append(Failure(mem0_id=named, problem=problem))
