"""The brain: facts about a user or a company, one per slug. Each endpoint is there once for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field, StringConstraints

from recollect.access.models import Model
from recollect.api.memories import Flag
from recollect.api.memory_models import Because
from recollect.brain.models import (
    Category,
    Content,
    Fact,
    FactChange,
    FoundFact,
    Kind,
    Owner,
    Planned,
    Saved,
    Slug,
    UnknownFact,
)
from recollect.brain.service import MAX_MEMORIES
from recollect.db.tenancy import Transaction
from recollect.engine.models import Reason
from recollect.errors import InvalidInput
from recollect.http import callers
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.kit.text import Text, of_form

FOUND = 10
_SAYS_SOMETHING = r"^[^\x00]*\S[^\x00]*$"

router = APIRouter(tags=["brain"], route_class=RecollectRoute)

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Reading = Annotated[Transaction, transaction("memory:read", lets_service_in=True)]
Writing = Annotated[Transaction, transaction("memory:write", lets_service_in=True)]
InPath = Annotated[Slug, Path(alias="slug")]
Sought = Annotated[
    Text, StringConstraints(max_length=2_000), *of_form(_SAYS_SOMETHING, "say what to look for")
]


class FactQuery(PageQuery):
    query: Annotated[
        Sought | None,
        Field(description="Give those that fit this best, instead of all: ten, unless limit says otherwise."),
    ] = None
    category: Annotated[Category | None, Field(description="Those of this category.")] = None


class NewMemories(Model):
    """Facts to save. Each is judged for itself: the answer names those that cannot be saved, and why."""

    memories: Annotated[
        list[Any],
        Field(
            max_length=MAX_MEMORIES,
            description="Each with slug, content and, where wanted, category and extra_metadata.",
            examples=[[{"slug": "user_full_name", "category": "user_profile", "content": "Name: Ana Pérez"}]],
        ),
    ]
    reason: Reason | None = None


class NewContent(Model):
    """What is to be known under a slug, in place of all that was."""

    content: Annotated[Content, Field(json_schema_extra={"pattern": _SAYS_SOMETHING})]
    category: Category | None = None
    extra_metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    reason: Reason | None = None


class MaybeDry(Model):
    dry_run: Annotated[Flag, Field(description="Say what would change, and change nothing.")] = False


class Undo(Because):
    change: Annotated[
        int | None,
        Field(ge=1, le=2**63 - 1, description="Undo only if this is the last change; its id in the history."),
    ] = None


class Plan(BaseModel):
    data: list[Planned]


async def _a_user(request: Request, user_id: callers.Owner) -> None:
    request.state.about = Owner("user", user_id)


async def _a_company(request: Request, company_id: Annotated[Id, Path(alias="companyId")]) -> None:
    request.state.about = Owner("company", company_id)


async def _about(request: Request) -> Owner | None:
    # Where the id is not one there is none, and the endpoint is not called.
    return getattr(request.state, "about", None)


About = Annotated[Owner, Depends(_about)]
PATHS: dict[Kind, tuple[str, Any]] = {
    "user": ("/api/users/{userId}/brain", Depends(_a_user)),
    "company": ("/api/companies/{companyId}/brain", Depends(_a_company)),
}


def endpoint(
    method: str, path: str, summary: str, *problems: int, **more: Any
) -> Callable[[Endpoint], Endpoint]:
    """Offer this for users and for companies."""

    def offer(work: Endpoint) -> Endpoint:
        for kind, (place, names_somebody) in PATHS.items():
            router.add_api_route(
                f"{place}{path}",
                work,
                methods=[method],
                summary=summary.format(whom=f"a {kind}"),
                responses=responses(404, *problems),
                dependencies=[names_somebody],
                **more,
            )
        return work

    return offer


@endpoint(
    "GET",
    "",
    "List what is known about {whom}, by slug; or with a query find what fits it best.",
    response_model=Page[FoundFact | Fact],
    response_model_exclude_unset=True,
)
async def list_facts(
    about: About, wanted: Annotated[FactQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    if wanted.query is not None:
        return {"data": await _found(about, wanted, wanted.query, tx, recollect)}

    async def fetch(after: list[Any] | None, limit: int) -> list[Fact]:
        return await recollect.brain.facts(
            tx, about, category=wanted.category, after=after[0] if after else "", limit=limit
        )

    name = ("brain", about.kind, str(about.id), wanted.category or "")
    return await Listing[Fact](recollect.cursors, name, lambda fact: [fact.slug]).page(wanted, fetch)


async def _found(
    about: Owner, wanted: FactQuery, query: str, tx: Transaction, recollect: Recollect
) -> list[FoundFact]:
    if wanted.cursor is not None:
        raise InvalidInput("cursor: what a query finds comes on one page; ask for more with limit.")
    limit = wanted.limit if "limit" in wanted.model_fields_set else FOUND
    return await recollect.brain.search(tx, about, query, category=wanted.category, limit=limit)


@endpoint(
    "POST",
    "",
    "Save facts about {whom}, each under its slug.",
    description="What is known under a slug already is updated; the same again changes nothing. What cannot "
    "be saved is counted and named, and the others are saved nevertheless.",
    response_model=Saved | Plan,
)
async def save_facts(
    about: About,
    wanted: NewMemories,
    how: Annotated[MaybeDry, Query()],
    tx: Writing,
    recollect: Recollect,
) -> Any:
    if how.dry_run:
        return Plan(data=await recollect.brain.plan(tx, about, wanted.memories))
    return await recollect.brain.save(tx, about, wanted.memories, reason=wanted.reason)


@endpoint("GET", "/{slug}", "Read what is known about {whom} under a slug.", response_model=Fact)
async def get_fact(about: About, slug: InPath, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.brain.get(tx, about, slug)


@endpoint("PUT", "/{slug}", "Say what is known about {whom} under a slug.", response_model=Fact)
async def put_fact(about: About, slug: InPath, wanted: NewContent, tx: Writing, recollect: Recollect) -> Any:
    memory = {"slug": slug, **wanted.model_dump(exclude={"reason"})}
    return await recollect.brain.put(tx, about, memory, reason=wanted.reason)


@endpoint("DELETE", "/{slug}", "Forget what is known about {whom} under a slug.", 409, status_code=204)
async def delete_fact(
    about: About, slug: InPath, why: Annotated[Because, Query()], tx: Writing, recollect: Recollect
) -> None:
    if not await recollect.brain.delete(tx, about, [slug], reason=why.reason):
        raise UnknownFact


@endpoint(
    "GET",
    "/{slug}/history",
    "List what became of a slug of {whom}, newest first; also of one that is gone.",
    response_model=Page[FactChange],
    response_model_exclude_unset=True,
)
async def list_changes(
    about: About, slug: InPath, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    async def fetch(after: list[Any] | None, limit: int) -> list[FactChange]:
        return await recollect.brain.history(tx, about, slug, after=after[0] if after else None, limit=limit)

    name = ("brain history", about.kind, str(about.id), slug)
    return await Listing[FactChange](recollect.cursors, name, lambda change: [change.id]).page(wanted, fetch)


@endpoint(
    "POST",
    "/{slug}/undo",
    "Take back the last change of a slug of {whom}; the answer is the change that this makes.",
    409,
    description="What was added is deleted; what was changed or deleted is again as it was before. That is a "
    "change too: undone once more, it is taken back itself.",
    response_model=FactChange,
)
async def undo_change(
    about: About, slug: InPath, which: Annotated[Undo, Query()], tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.brain.undo(tx, about, slug, change=which.change, reason=which.reason)
