"""The pages of the brain: what is known about the visitor and their companies, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, StringConstraints
from starlette.responses import Response

from recollect.access.membership_models import Company
from recollect.brain.models import (
    Fact,
    FactChange,
    NewMemory,
    NotSaved,
    Owner,
    Slug,
    UnknownFact,
    checked_memory,
)
from recollect.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn, RecollectError
from recollect.http.paging import Listing, PageQuery
from recollect.kit.diff import Part
from recollect.kit.paging import InvalidCursor
from recollect.web.pages import page, see_other
from recollect.web.visiting import Visitor, changed, reason_in, visitor_of, written

PER_PAGE = 50
FOUND = 20
CHANGES_SHOWN = 50
MYSELF = "me"

router = APIRouter(include_in_schema=False)

Field = Annotated[str, Form()]
# Ends in no database's query unless it is one of the visitor's companies.
Whose = Annotated[str, StringConstraints(max_length=40)]


class Known(Conflict):
    """Something is known under that slug already; open it below to change it."""

    code = "known_already"


class Sought(BaseModel):
    """What the list page is asked for. What a form leaves empty comes as an empty text."""

    whose: Whose = ""
    q: Annotated[str, StringConstraints(max_length=10_000)] = ""
    category: Annotated[str, StringConstraints(max_length=255)] = ""
    cursor: Annotated[str | None, StringConstraints(max_length=4_400)] = None

    def address(self, **changed: str) -> str:
        asked = self.model_dump(exclude={"cursor"}) | changed
        given = {name: value for name, value in asked.items() if value}
        return f"/brain?{urlencode(given)}" if given else "/brain"


@dataclass(frozen=True)
class Place:
    """Whose facts the visitor looks at."""

    visitor: Visitor
    companies: Sequence[Company]
    owner: Owner
    company: Company | None

    @property
    def whose(self) -> str:
        return str(self.company.id) if self.company else MYSELF

    @property
    def address(self) -> str:
        return f"/brain?whose={self.company.id}" if self.company else "/brain"

    def of(self, slug: str) -> str:
        return f"/brain/{self.whose}/{slug}"


@router.get("/brain")
async def facts(request: Request, sought: Annotated[Sought, Query()]) -> Response:
    try:
        return await _list_page(request, sought)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other(sought.address())


@router.post("/brain")
async def add(
    request: Request,
    whose: Field = "",
    slug: Field = "",
    content: Field = "",
    category: Field = "",
    reason: Field = "",
) -> Response:
    typed = _typed(slug=slug, content=content, category=category, reason=reason)
    try:
        try:
            place = await _place(request, whose, "memory:write")
            await _add(place, typed)
        except (InvalidInput, NotAllowed, NotFound, Conflict, NotSaved) as refusal:
            return await _list_page(request, Sought(whose=whose[:40]), refusal=refusal, typed=typed)
    except NotSignedIn:
        return see_other("/sign-in")
    return see_other(place.of(typed["slug"]))


@router.get("/brain/{whose}/{slug}")
async def fact(request: Request, whose: Whose, slug: Slug) -> Response:
    try:
        return await _fact_page(request, whose, slug)
    except NotSignedIn:
        return see_other("/sign-in")


@router.post("/brain/{whose}/{slug}")
async def change(
    request: Request, whose: Whose, slug: Slug, content: Field = "", category: Field = "", reason: Field = ""
) -> Response:
    typed = _typed(content=content, category=category, reason=reason)

    async def work(place: Place) -> None:
        brain = place.visitor.recollect.brain
        before = await place.visitor.ask(lambda tx: brain.get(tx, place.owner, slug))
        await _put(place, _memory(slug, typed, before.extra_metadata), typed["reason"])

    return await _change(request, whose, slug, work, typed)


@router.post("/brain/{whose}/{slug}/delete")
async def delete(request: Request, whose: Whose, slug: Slug, reason: Field = "") -> Response:
    async def work(place: Place) -> None:
        brain, why = place.visitor.recollect.brain, reason_in(reason.strip())
        if not await place.visitor.ask(lambda tx: brain.delete(tx, place.owner, [slug], reason=why)):
            raise UnknownFact

    return await _change(request, whose, slug, work)


@router.post("/brain/{whose}/{slug}/undo")
async def undo(request: Request, whose: Whose, slug: Slug, change: Field = "") -> Response:
    async def work(place: Place) -> None:
        # What the visitor saw as the last change is undone, and nothing that came since.
        last = int(change) if change.isascii() and change.isdigit() else 0
        brain = place.visitor.recollect.brain
        await place.visitor.ask(lambda tx: brain.undo(tx, place.owner, slug, change=last))

    return await _change(request, whose, slug, work)


@router.get("/brain/{whose}/{slug}/{action:path}")
async def look_again(whose: Whose, slug: Slug, action: str) -> Response:
    """Where a refused form was shown there is nothing to come back to."""
    del action
    return see_other(f"/brain/{quote(whose, safe='')}/{slug}")


async def _change(
    request: Request,
    whose: str,
    slug: str,
    work: Callable[[Place], Awaitable[object]],
    typed: Mapping[str, str] | None = None,
) -> Response:
    """Do it, and show the fact; or show the fact and why not."""
    try:
        try:
            place = await _place(request, whose, "memory:write")
            await work(place)
        except (InvalidInput, NotAllowed, NotFound, Conflict, NotSaved) as refusal:
            return await _fact_page(request, whose, slug, refusal=refusal, typed=typed)
    except NotSignedIn:
        return see_other("/sign-in")
    return see_other(place.of(slug))


async def _add(place: Place, typed: Mapping[str, str]) -> None:
    wanted = _memory(typed["slug"], typed, {})
    if await _peek(place, wanted.slug) is not None:
        raise Known
    await _put(place, wanted, typed["reason"])


async def _put(place: Place, wanted: NewMemory, reason: str) -> None:
    brain, why = place.visitor.recollect.brain, reason_in(reason)
    await place.visitor.ask(lambda tx: brain.put(tx, place.owner, wanted, reason=why))


def _memory(slug: str, typed: Mapping[str, str], metadata: Mapping[str, Any]) -> NewMemory:
    wanted = {"slug": slug, "content": typed["content"], "extra_metadata": metadata}
    return checked_memory({**wanted, "category": typed["category"] or None})


def _typed(**fields: str) -> dict[str, str]:
    # Browsers send the ends of lines in a form of their own.
    return {name: value.replace("\r\n", "\n").strip() for name, value in fields.items()}


async def _place(request: Request, whose: str, needs: str) -> Place:
    """Their own, or that of one of their companies."""
    visitor = await visitor_of(request, needs)
    companies = await visitor.ask(visitor.recollect.membership.companies)
    if whose in {"", MYSELF}:
        return Place(visitor, companies, Owner("user", visitor.me.id), None)
    for company in companies:
        if str(company.id) == whose:
            return Place(visitor, companies, Owner("company", UUID(whose)), company)
    raise NotFound("There is no such company, or you are not in it.")


# The list, or what a search found


async def _list_page(
    request: Request,
    sought: Sought,
    *,
    refusal: RecollectError | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    try:
        place = await _place(request, sought.whose, "memory:read")
    except NotFound:
        return see_other("/brain")
    found: Sequence[Fact] = ()
    more = None
    try:
        if sought.q.strip():
            found = await _found(place, sought)
        else:
            found, more = await _listed(place, sought)
    except InvalidCursor:
        raise
    except InvalidInput as error:
        refusal = refusal or error
    return page(
        request,
        "brain/facts.html",
        status=refusal.status if refusal else 200,
        me=place.visitor.me,
        place=place,
        sought=sought,
        facts=found,
        categories=sorted({fact.category for fact in found if fact.category}),
        more=more,
        problem=refusal.detail if refusal else None,
        typed=typed,
    )


async def _found(place: Place, sought: Sought) -> Sequence[Fact]:
    brain, category = place.visitor.recollect.brain, sought.category or None
    return await place.visitor.ask(
        lambda tx: brain.search(tx, place.owner, sought.q, category=category, limit=FOUND)
    )


async def _listed(place: Place, sought: Sought) -> tuple[Sequence[Fact], str | None]:
    brain, category = place.visitor.recollect.brain, sought.category or None

    async def fetch(after: list[Any] | None, limit: int) -> list[Fact]:
        start = after[0] if after else ""
        return await place.visitor.ask(
            lambda tx: brain.facts(tx, place.owner, category=category, after=start, limit=limit)
        )

    name = ("brain page", str(place.visitor.me.id), sought.address())
    listing = Listing[Fact](place.visitor.recollect.cursors, name, lambda fact: [fact.slug])
    found = await listing.page(PageQuery(limit=PER_PAGE, cursor=sought.cursor or None), fetch)
    return found["data"], sought.address(cursor=found["nextCursor"]) if "nextCursor" in found else None


# One fact


@dataclass(frozen=True)
class Shown:
    """An entry of the history, with what it changed."""

    change: FactChange
    text: Sequence[Part]
    metadata: Sequence[Part]


async def _fact_page(
    request: Request,
    whose: str,
    slug: str,
    *,
    refusal: RecollectError | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    try:
        place = await _place(request, whose, "memory:read")
    except NotFound:
        return see_other("/brain")
    brain = place.visitor.recollect.brain
    try:
        changes = await place.visitor.ask(
            lambda tx: brain.history(tx, place.owner, slug, limit=CHANGES_SHOWN + 1)
        )
    except NotFound as unknown:
        me = place.visitor.me
        return page(request, "brain/fact.html", status=unknown.status, me=me, place=place, slug=slug)
    fact = await _peek(place, slug)
    own = {name: value for name, value in fact.extra_metadata.items() if name != "category"} if fact else {}
    return page(
        request,
        "brain/fact.html",
        status=refusal.status if refusal else 200,
        me=place.visitor.me,
        place=place,
        slug=slug,
        fact=fact,
        metadata=written(own),
        latest=changes[0],
        changes=[_shown(each) for each in changes[:CHANGES_SHOWN]],
        has_older=len(changes) > CHANGES_SHOWN,
        problem=refusal.detail if refusal else None,
        typed=typed,
    )


async def _peek(place: Place, slug: str) -> Fact | None:
    brain = place.visitor.recollect.brain
    try:
        return await place.visitor.ask(lambda tx: brain.get(tx, place.owner, slug))
    except UnknownFact:
        return None


def _shown(change: FactChange) -> Shown:
    return Shown(
        change,
        changed(change.before or "", change.after or ""),
        changed(written(change.metadata_before or {}), written(change.metadata_after or {})),
    )
