"""Agents and the brain: their tools, what they propose, what they are told; and forms that become facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import PlainTextResponse

from recollect.access.models import Model
from recollect.api.memory_models import TrueOrFalse
from recollect.bootstrap import Services
from recollect.brain.context import BUDGET, BrainContext, as_instructions, brain_context
from recollect.brain.domains import Built, Domain, build, domains
from recollect.brain.models import Kind, Owner, Planned, Saved
from recollect.brain.proposals import AgentName, Proposal, ProposedChange, State
from recollect.brain.tools import Format, in_place_of, tools_for
from recollect.db.tenancy import SERVICE, Transaction
from recollect.engine.models import Reason
from recollect.errors import InvalidInput, NotAllowed
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Digits, Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text, of_form

router = APIRouter(tags=["brain"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("memory:read")]
Writing = Annotated[Transaction, transaction("memory:write")]
# The service key is let in where a request can name a user.
ReadingAbout = Annotated[Transaction, transaction("memory:read", lets_service_in=True)]
WritingAbout = Annotated[Transaction, transaction("memory:write", lets_service_in=True)]
ProposalId = Annotated[Id, Path(alias="proposalId")]
ToolName = Annotated[Text, Path(alias="tool", max_length=100)]
DomainName = Annotated[Text, Path(alias="domain", max_length=100)]
User = Annotated[
    Id | None,
    Field(description="Whom it is about; none: the caller. Of an admin and of the service, anybody."),
]
Company = Annotated[Id | None, Field(description="Their company, where it is about that too.")]


class ToolQuery(Model):
    form: Annotated[
        Format,
        Field(alias="format", description="Of OpenAI's chat completions, OpenAI's responses, or Anthropic."),
    ] = "openai"
    company_id: Annotated[Id | None, Field(description="Also the tools for a company.")] = None


class ToolCall(Model):
    """A call as a model made it, and in which conversation."""

    arguments: Annotated[
        dict[str, Any] | Text, Field(description="As the model sent them: an object, or its JSON text.")
    ]
    agent: Annotated[AgentName, Field(description="Who is speaking; what it writes is marked with this.")]
    user_id: User = None
    company_id: Company = None


class ProposalQuery(PageQuery):
    state: Annotated[State | None, Field(description="Those in this state.")] = None
    user_id: Annotated[Id | None, Field(description="Those about this user.")] = None
    company_id: Annotated[Id | None, Field(description="Those about this company.")] = None

    @property
    def owners(self) -> list[Owner]:
        named: dict[Kind, UUID | None] = {"user": self.user_id, "company": self.company_id}
        return [Owner(kind, owner_id) for kind, owner_id in named.items() if owner_id is not None]


class Decision(Model):
    reason: Reason | None = None


class ContextQuery(Model):
    user_id: User = None
    company_id: Company = None
    query: Annotated[
        Text | None,
        StringConstraints(min_length=1, max_length=2_000),
        Field(description="What the answer is about; it decides what is told where not everything can be."),
    ] = None
    budget_tokens: Annotated[
        int, Field(ge=1, le=1_000_000, description="The text takes no more than this."), Digits
    ] = BUDGET
    form: Annotated[
        Literal["json", "instructions"],
        Field(alias="format", description="instructions: as plain text for a field of instructions."),
    ] = "json"


class Form(Model):
    """A form that was filled in, or settings that were changed."""

    fields: Annotated[
        dict[str, Any], Field(description="As the domain calls them; what is empty is left out.")
    ]
    user_id: User = None
    company_id: Company = None
    language: Annotated[
        Annotated[Text, *of_form("^[a-z]{2}$", "two letters, such as es")] | None,
        Field(description="Of the facts; none: the server's."),
    ] = None
    dry_run: Annotated[TrueOrFalse, Field(description="Say what would change, and change nothing.")] = False
    reason: Reason | None = None


class Filled(BaseModel):
    """What becomes of a form's facts about one owner."""

    about: Kind
    id: UUID
    planned: list[Planned]
    saved: Annotated[Saved | None, Field(description="None: it was a dry run.")] = None


@router.get(
    "/api/brain/tools",
    summary="Describe the tools by which an agent looks up and records facts, as its API takes them.",
    response_model=Page[dict[str, Any]],
    response_model_exclude_unset=True,
)
async def list_tools(wanted: Annotated[ToolQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    await recollect.access.me(tx)
    tools = tools_for(company=wanted.company_id is not None)
    return {"data": [tool.definition(wanted.form) for tool in tools]}


@router.post(
    "/api/brain/tools/{tool}",
    summary="Run an agent's tool as the caller.",
    description="The answer is for the model: what the tool did, or an error about its arguments that it can "
    'put right. Whatever else is wrong is a problem, as everywhere. Saving needs the scope "memory:write".',
    response_model=dict[str, Any],
    responses=responses(404, 409),
)
async def run_tool(tool: ToolName, wanted: ToolCall, tx: ReadingAbout, recollect: Recollect) -> Any:
    user_id = await _whom(tx, recollect, wanted.user_id)
    toolbox = recollect.toolboxes.toolbox(
        tx.caller, user_id, company_id=wanted.company_id, agent=wanted.agent
    )
    try:
        return await toolbox.run(tool, wanted.arguments)
    except InvalidInput as error:
        return {"error": error.detail}


@router.get(
    "/api/brain/proposals",
    summary="List what agents have proposed about the caller and the caller's companies, the newest first.",
    response_model=Page[Proposal],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_proposals(wanted: Annotated[ProposalQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    reading = _acting(tx, recollect, wanted.user_id) if wanted.user_id else tx

    def position(proposal: Proposal) -> list[str]:
        return [proposal.created_at.isoformat(), str(proposal.id), str(reading.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Proposal]:
        before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        found = await recollect.proposals.list(
            reading, *wanted.owners, state=wanted.state, before=before, limit=limit
        )
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(reading.principal.user_id):
            raise InvalidCursor
        return found

    name = ("brain proposals", wanted.model_dump_json(exclude={"cursor", "limit"}))
    async with reading:
        return await Listing[Proposal](recollect.cursors, name, position).page(wanted, fetch)


@router.get(
    "/api/brain/proposals/{proposalId}",
    summary="Read a proposal beside what is known in its place, word by word.",
    response_model=ProposedChange,
    responses=responses(404),
)
async def get_proposal(proposal_id: ProposalId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.proposals.get(tx, proposal_id)


@router.post(
    "/api/brain/proposals/{proposalId}/approve",
    summary="Save what was proposed (the user; of a company its owners and admins).",
    response_model=Proposal,
    responses=responses(404, 409),
)
async def approve_proposal(
    proposal_id: ProposalId, tx: Writing, recollect: Recollect, decision: Decision | None = None
) -> Any:
    reason = decision.reason if decision else None
    return await recollect.proposals.approve(tx, proposal_id, reason=reason)


@router.post(
    "/api/brain/proposals/{proposalId}/reject",
    summary="Leave what is known as it is (the user; of a company its owners and admins).",
    response_model=Proposal,
    responses=responses(404, 409),
)
async def reject_proposal(
    proposal_id: ProposalId, tx: Writing, recollect: Recollect, decision: Decision | None = None
) -> Any:
    reason = decision.reason if decision else None
    return await recollect.proposals.reject(tx, proposal_id, reason=reason)


@router.get(
    "/api/brain/context",
    summary="Give what an answer should know about a user and their company, within a budget of tokens.",
    response_model=BrainContext,
    responses={**responses(404), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def make_context(
    wanted: Annotated[ContextQuery, Query()], tx: ReadingAbout, recollect: Recollect
) -> Any:
    user_id = await _whom(tx, recollect, wanted.user_id)
    asked = wanted.model_dump(include={"company_id", "query", "budget_tokens"})
    async with _acting(tx, recollect, user_id) as reading:
        if wanted.form == "json":
            return await brain_context(recollect.brain, reading, user_id, **asked)
        return PlainTextResponse((await as_instructions(recollect.brain, reading, user_id, **asked)).text)


@router.get(
    "/api/brain/domains",
    summary="List the forms that can become facts: their fields, and the facts that these tell.",
    response_model=Page[Domain],
    response_model_exclude_unset=True,
)
async def list_domains(tx: Reading, recollect: Recollect) -> Any:
    await recollect.access.me(tx)
    return {"data": domains()}


@router.post(
    "/api/brain/domains/{domain}",
    summary="Save the facts in a form that was filled in, about its user and their company.",
    response_model=Page[Filled],
    response_model_exclude_unset=True,
    responses=responses(404, 409),
)
async def fill_in(domain: DomainName, form: Form, tx: WritingAbout, recollect: Recollect) -> Any:
    user_id = await _whom(tx, recollect, form.user_id)
    built = build(domain, form.fields, language=form.language or recollect.settings.brain_language)
    memories = {owner: _of_kind(built, owner.kind) for owner in _owners(built, user_id, form.company_id)}
    async with _acting(tx, recollect, user_id) as writing:
        return {"data": await _fill_in(writing, recollect, memories, form)}


async def _fill_in(
    tx: Transaction, recollect: Services, memories: dict[Owner, list[dict[str, Any]]], form: Form
) -> list[Filled]:
    filled: list[Filled] = []
    # All is planned before anything is saved: where one of the owners is unknown, nothing is.
    for owner, facts in memories.items():
        async with tx.still_open() as reading:
            planned = await recollect.brain.plan(reading, owner, facts)
        filled.append(Filled(about=owner.kind, id=owner.id, planned=planned))
    if form.dry_run:
        return filled
    saved = [
        await recollect.brain.save(tx, owner, facts, reason=form.reason) for owner, facts in memories.items()
    ]
    return [each.model_copy(update={"saved": one}) for each, one in zip(filled, saved, strict=True)]


async def _whom(tx: Transaction, recollect: Services, named: UUID | None) -> UUID:
    """The user whom a request is about. That it may be, the database says when it acts."""
    if tx.caller is SERVICE:
        if named is None:
            raise NotAllowed("The service key acts for a user; say for whom with user_id.")
        return named
    me = await recollect.access.me(tx)
    # Whatever follows has a transaction of its own, which may need the only connection there is.
    await tx.finish()
    return named or me.id


def _acting(tx: Transaction, recollect: Services, user_id: UUID) -> Transaction:
    """For what is done about a user: by themselves, or by an admin or the service in their place."""
    return recollect.tenancy.acting_as(in_place_of(tx.caller, user_id), for_one_call=True)


def _owners(built: Iterable[Built], user_id: UUID, company_id: UUID | None) -> list[Owner]:
    kinds = {each.owner for each in built}
    if "company" in kinds and company_id is None:
        raise InvalidInput("company_id: the form tells about a company; say which.")
    owners = [Owner("user", user_id)] if "user" in kinds else []
    return owners if "company" not in kinds or company_id is None else [*owners, Owner("company", company_id)]


def _of_kind(built: Iterable[Built], kind: Kind) -> list[dict[str, Any]]:
    return [
        {"slug": each.slug, "content": each.content, "category": each.category}
        for each in built
        if each.owner == kind
    ]
