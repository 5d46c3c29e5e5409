"""The pages of memories: finding them, why they were found, and how they came to be as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any, TypeVar, get_args
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, StringConstraints
from starlette.responses import Response

from recollect.access.membership_models import Workspace
from recollect.access.roles import RoleTooLow
from recollect.engine.models import (
    Entities,
    Feedback,
    Found,
    Link,
    Memory,
    UnknownMemory,
    Version,
    Wanted,
    Where,
)
from recollect.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn, RecollectError
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, PageQuery
from recollect.kit.diff import Part
from recollect.kit.paging import InvalidCursor
from recollect.web.pages import page, see_other
from recollect.web.visiting import Visitor, changed, reason_in, visitor_of, written

PER_PAGE = 50
FOUND = 20
NAMES_OFFERED = 200
VERSIONS_SHOWN = 50
LINKS_SHOWN = 10
FEEDBACK: tuple[Feedback, ...] = get_args(Feedback)

router = APIRouter(include_in_schema=False)
T = TypeVar("T")

Name = Annotated[str, StringConstraints(max_length=256)]
Field = Annotated[str, Form()]


class Sought(BaseModel):
    """What the list page is asked for. What a form leaves empty comes as an empty text."""

    q: str = ""
    workspace: Annotated[str, StringConstraints(max_length=40)] = ""
    user: Name = ""
    agent: Name = ""
    app: Name = ""
    run: Name = ""
    superseded: bool = False
    cursor: Annotated[str | None, StringConstraints(max_length=4_400)] = None

    @property
    def where(self) -> Where:
        about = Entities(self.user or None, self.agent or None, self.app or None, self.run or None)
        place = UUID(self.workspace) if self.workspace else None
        return Where(about, place, superseded=self.superseded)

    @property
    def is_narrowed(self) -> bool:
        return self.where != Where()

    def address(self, **changed: str) -> str:
        asked = self.model_dump(exclude={"cursor", "superseded"})
        asked |= {"superseded": "true" if self.superseded else "", **changed}
        given = {name: value for name, value in asked.items() if value}
        return f"/memories?{urlencode(given)}" if given else "/memories"


@router.get("/memories")
async def memories(request: Request, sought: Annotated[Sought, Query()]) -> Response:
    try:
        return await _list_page(request, sought)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other(sought.address())


@router.get("/memories/{memory_id}")
async def memory(request: Request, memory_id: Id) -> Response:
    try:
        return await _memory_page(request, memory_id)
    except NotSignedIn:
        return see_other("/sign-in")


@router.post("/memories/{memory_id}")
async def change(
    request: Request, recollect: Recollect, memory_id: Id, text: Field = "", reason: Field = ""
) -> Response:
    # Browsers send the ends of lines in a form of their own.
    typed = {"text": text.replace("\r\n", "\n").strip(), "reason": reason.strip()}

    async def work(visitor: Visitor) -> None:
        before = await visitor.ask(lambda tx: recollect.engine.get(tx, memory_id))
        if before.text != typed["text"]:
            why = reason_in(typed["reason"])
            await visitor.ask(
                lambda tx: recollect.engine.update(tx, memory_id, text=typed["text"], reason=why)
            )

    return await _change(request, memory_id, work, typed)


@router.post("/memories/{memory_id}/feedback")
async def feedback(
    request: Request, recollect: Recollect, memory_id: Id, verdict: Field = "", reason: Field = ""
) -> Response:
    async def work(visitor: Visitor) -> None:
        said = next((each for each in FEEDBACK if each == verdict), None)
        why = reason_in(reason.strip()) if said else None
        await visitor.ask(lambda tx: recollect.engine.feedback(tx, memory_id, said, why))

    return await _change(request, memory_id, work)


@router.post("/memories/{memory_id}/delete")
async def delete(request: Request, recollect: Recollect, memory_id: Id, reason: Field = "") -> Response:
    async def work(visitor: Visitor) -> None:
        why = reason_in(reason.strip())
        await visitor.ask(lambda tx: recollect.engine.delete(tx, memory_id, reason=why))

    return await _change(request, memory_id, work)


@router.post("/memories/{memory_id}/restore")
async def restore(request: Request, recollect: Recollect, memory_id: Id) -> Response:
    return await _change(
        request, memory_id, lambda visitor: visitor.ask(lambda tx: recollect.engine.restore(tx, memory_id))
    )


@router.get("/memories/{memory_id}/{action:path}")
async def look_again(memory_id: Id, action: str) -> Response:
    """Where a refused form was shown there is nothing to come back to."""
    del action
    return see_other(f"/memories/{memory_id}")


async def _change(
    request: Request,
    memory_id: UUID,
    work: Callable[[Visitor], Awaitable[object]],
    typed: Mapping[str, str] | None = None,
) -> Response:
    """Do it, and show the memory; or show the memory and why not."""
    try:
        try:
            await work(await visitor_of(request, "memory:write"))
        except (InvalidInput, NotAllowed, NotFound, Conflict) as refusal:
            return await _memory_page(request, memory_id, refusal=refusal, typed=typed)
    except NotSignedIn:
        return see_other("/sign-in")
    return see_other(f"/memories/{memory_id}")


# The list, or what a search found


async def _list_page(request: Request, sought: Sought) -> Response:
    visitor = await visitor_of(request, "memory:read")
    engine = visitor.recollect.engine
    workspaces = await visitor.ask(visitor.recollect.membership.workspaces)
    if sought.workspace not in {"", *(str(each.id) for each in workspaces)}:
        return see_other("/memories")
    place = sought.where.workspace
    names = await visitor.ask(lambda tx: engine.entities(tx, place, limit=NAMES_OFFERED))
    found: Sequence[Memory] = ()
    older, refusal = None, None
    try:
        if sought.q.strip():
            found = await _found(visitor, sought)
        else:
            found, older = await _listed(visitor, sought)
    except InvalidCursor:
        raise
    except InvalidInput as error:
        refusal = error
    return page(
        request,
        "memories.html",
        status=refusal.status if refusal else 200,
        me=visitor.me,
        sought=sought,
        workspaces=workspaces,
        names=names,
        memories=found,
        older=older,
        problem=refusal.detail if refusal else None,
        now=datetime.now(UTC),
    )


async def _found(visitor: Visitor, sought: Sought) -> list[Found]:
    wanted = Wanted(sought.q, sought.where, limit=FOUND, explain=True)
    return await visitor.ask(lambda tx: visitor.recollect.engine.search(tx, wanted))


async def _listed(visitor: Visitor, sought: Sought) -> tuple[list[Memory], str | None]:
    async def fetch(after: list[Any] | None, limit: int) -> list[Memory]:
        place = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        return await visitor.ask(
            lambda tx: visitor.recollect.engine.list(tx, sought.where, after=place, limit=limit)
        )

    listing = Listing[Memory](
        visitor.recollect.cursors,
        ("memories page", str(visitor.me.id), sought.address()),
        lambda memory: [memory.created_at.isoformat(), str(memory.id)],
    )
    found = await listing.page(PageQuery(limit=PER_PAGE, cursor=sought.cursor or None), fetch)
    older = sought.address(cursor=found["nextCursor"]) if "nextCursor" in found else None
    return found["data"], older


# One memory


@dataclass(frozen=True)
class Shown:
    """A version, with what it changed."""

    version: Version
    text: Sequence[Part]
    metadata: Sequence[Part]


async def _memory_page(
    request: Request,
    memory_id: UUID,
    *,
    refusal: RecollectError | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    visitor = await visitor_of(request, "memory:read")
    engine = visitor.recollect.engine
    memory, workspace = await _peek(visitor, memory_id), None
    try:
        versions = await visitor.ask(lambda tx: engine.history(tx, memory_id))
    except UnknownMemory as unknown:
        return page(request, "memory.html", status=unknown.status, me=visitor.me, memory=None, versions=())
    newer, links = None, []
    if memory is not None:
        newer = await _peek(visitor, memory.superseded_by)
        links = await _linked(visitor, memory)
        workspace = await _workspace_of(visitor, memory)
    may_write = workspace is None or workspace.role != "viewer"
    if refusal is not None and not may_write:
        # Row security found nothing to change, which is not what the reader of this page sees.
        refusal = RoleTooLow()
    return page(
        request,
        "memory.html",
        status=refusal.status if refusal else 200,
        me=visitor.me,
        memory=memory,
        workspace=workspace,
        may_write=may_write,
        newer=newer,
        links=links,
        versions=_told(versions),
        left_out=max(len(versions) - VERSIONS_SHOWN, 0),
        latest=versions[-1],
        verdicts=FEEDBACK,
        problem=refusal.detail if refusal else None,
        typed=typed,
        now=datetime.now(UTC),
        json=written,
    )


async def _peek(visitor: Visitor, memory_id: UUID | None) -> Memory | None:
    if memory_id is None:
        return None
    try:
        return await visitor.ask(lambda tx: visitor.recollect.engine.get(tx, memory_id))
    except UnknownMemory:
        return None


async def _linked(visitor: Visitor, memory: Memory) -> list[tuple[Link, Memory]]:
    links = await visitor.ask(lambda tx: visitor.recollect.engine.links(tx, memory.id))
    shown = [(link, await _peek(visitor, link.memory_id)) for link in links[:LINKS_SHOWN]]
    return [(link, other) for link, other in shown if other is not None]


async def _workspace_of(visitor: Visitor, memory: Memory) -> Workspace | None:
    if memory.workspace is None:
        return None
    place = memory.workspace
    return await visitor.ask(lambda tx: visitor.recollect.membership.workspace(tx, place))


def _told(versions: Sequence[Version]) -> list[Shown]:
    """The newest first. What did not change has no parts."""
    pairs = [(None, versions[0]), *pairwise(versions)]
    return [
        Shown(
            version,
            changed(before.text if before else "", version.text),
            changed(written(before.metadata if before else {}), written(version.metadata)),
        )
        for before, version in reversed(pairs[-VERSIONS_SHOWN:])
    ]
