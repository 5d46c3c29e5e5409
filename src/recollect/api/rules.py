"""Rules: extracting them from chats, looking at them, deciding, handing out those that hold."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, StringConstraints

from recollect.access.models import Model
from recollect.api.memories import InWorkspace
from recollect.bootstrap import Services
from recollect.brain.tools import in_place_of
from recollect.db.tenancy import SERVICE, Transaction
from recollect.engine.models import Reason
from recollect.errors import NotAllowed
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.jobs.models import Run as Job
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text
from recollect.rules.material import Asked, check, placed
from recollect.rules.models import ApprovedRule, Category, Rule, RuleQuery, Run, Status
from recollect.rules.tasks import EXTRACT

MAX_CHATS = 100

router = APIRouter(tags=["rules"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("rules:read")]
Writing = Annotated[Transaction, transaction("rules:write")]
# The service key is let in where a request can name a user.
WritingAbout = Annotated[Transaction, transaction("rules:write", lets_service_in=True)]
RuleId = Annotated[Id, Path(alias="ruleId")]
ChatIds = Annotated[list[Id], Field(min_length=1, max_length=MAX_CHATS)]
PromptId = Annotated[Id | None, Field(description="Which prompt to use; none: the active one.")]
User = Annotated[
    Id | None,
    Field(description="Whose chats; none: the caller's. Of an admin and of the service, anybody's."),
]


class ExtractRules(Model):
    """Chats to find rules in."""

    chat_history_ids: ChatIds
    user_id: User = None
    prompt_id: PromptId = None


class NewExtraction(Model):
    """What to find rules in: the chats named, or whatever is new."""

    chat_history_ids: Annotated[ChatIds | None, Field(description="None: whatever is new.")] = None
    user_id: User = None
    prompt_id: PromptId = None
    workspace_id: InWorkspace = None


class ToldRule(BaseModel):
    """A rule in short, with its evidence as text."""

    rule_text: str
    category: str
    confidence: float
    evidence: str


class ToldRules(BaseModel):
    success: bool
    rules_count: int
    rules: list[ToldRule]
    chat_histories_processed: int


class RulesQuery(PageQuery):
    workspace_id: InWorkspace = None
    project_id: Annotated[Id | None, Field(description="Those of a project.")] = None
    status: Annotated[Status | None, Field(description="Those of this status.")] = None
    category: Annotated[Category | None, Field(description="Those of this category.")] = None
    min_confidence: Annotated[float | None, Field(ge=0, le=1, description="Those at least this sure.")] = None

    @property
    def wanted(self) -> RuleQuery:
        return RuleQuery(self.workspace_id, self.project_id, self.status, self.category, self.min_confidence)


class ApprovedQuery(Model):
    workspace_id: InWorkspace = None
    project_id: Annotated[Id | None, Field(description="Those that hold in a project.")] = None
    category: Annotated[
        Text | None, StringConstraints(max_length=64), Field(description="Those of this category.")
    ] = None


class RunQuery(PageQuery):
    workspace_id: InWorkspace = None


class Decision(Model):
    status: Status
    reason: Annotated[Reason | None, Field(description="Stays on record.")] = None


@router.post(
    "/extract-rules",
    summary="Find the rules that chats ask for, and wait for them.",
    description="They are kept as pending, with exact quotes. `POST /api/rules/extract` does not wait.",
    response_model=ToldRules,
    responses=responses(404, 409),
)
async def extract_rules(wanted: ExtractRules, tx: WritingAbout, recollect: Recollect) -> Any:
    user_id = await _whom(tx, recollect, wanted.user_id)
    asked = Asked(user_id, chat_ids=wanted.chat_history_ids, prompt_id=wanted.prompt_id)
    found = (await recollect.extractor.extract(asked)).rules
    return {
        "success": True,
        "rules_count": len(found),
        "rules": [rule.told() for rule in found],
        "chat_histories_processed": len(set(wanted.chat_history_ids)),
    }


@router.post(
    "/api/rules/extract",
    summary="Have rules found in the chats named, or in whatever is new; the job tells how far it is.",
    status_code=202,
    response_model=Job,
    responses=responses(404),
)
async def start_extraction(wanted: NewExtraction, tx: WritingAbout, recollect: Recollect) -> Any:
    user_id = await _whom(tx, recollect, wanted.user_id)
    asked = Asked(user_id, wanted.workspace_id, wanted.chat_history_ids, wanted.prompt_id)
    arguments = wanted.model_dump(mode="json", include={"chat_history_ids", "prompt_id"}, exclude_none=True)
    async with _acting(tx, recollect, user_id) as writing:
        if wanted.workspace_id is not None:
            await recollect.membership.workspace(writing, wanted.workspace_id)
        asked = await placed(writing, asked)
        await check(writing, recollect.histories, asked)
        job = await recollect.jobs.enqueue(writing, EXTRACT, arguments, workspace_id=asked.workspace)
        return await recollect.jobs.get(writing, job)


@router.get(
    "/api/rules",
    summary="List rules, the newest first.",
    response_model=Page[Rule],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_rules(wanted: Annotated[RulesQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    caller = await _in(tx, recollect, wanted.workspace_id)

    def position(rule: Rule) -> list[str]:
        return [rule.created_at.isoformat(), str(rule.id), caller]

    async def fetch(after: list[Any] | None, limit: int) -> list[Rule]:
        before = _before(after, caller)
        return list(await recollect.rules.list(tx, wanted.wanted, before=before, limit=limit))

    name = ("rules", wanted.model_dump_json(exclude={"cursor", "limit"}))
    return await Listing[Rule](recollect.cursors, name, position).page(wanted, fetch)


@router.get(
    "/api/rules/approved",
    summary="Hand out the rules that hold; being handed out counts as use.",
    response_model=Page[ApprovedRule],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def approved_rules(wanted: Annotated[ApprovedQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    await _in(tx, recollect, wanted.workspace_id)
    found = await recollect.rules.approved(
        tx, workspace=wanted.workspace_id, project=wanted.project_id, category=wanted.category
    )
    return {"data": found}


@router.get(
    "/api/rules/runs",
    summary="List extractions, the newest first: when, over what, what they found, what they cost.",
    response_model=Page[Run],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_runs(wanted: Annotated[RunQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    caller = await _in(tx, recollect, wanted.workspace_id)

    def position(run: Run) -> list[str]:
        return [run.started_at.isoformat(), str(run.id), caller]

    async def fetch(after: list[Any] | None, limit: int) -> list[Run]:
        before = _before(after, caller)
        found = recollect.rules.runs(tx, workspace=wanted.workspace_id, before=before, limit=limit)
        return list(await found)

    name = ("rule runs", str(wanted.workspace_id or ""))
    return await Listing[Run](recollect.cursors, name, position).page(wanted, fetch)


@router.get("/api/rules/{ruleId}", summary="Read a rule.", response_model=Rule, responses=responses(404))
async def get_rule(rule_id: RuleId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.rules.get(tx, rule_id)


@router.patch(
    "/api/rules/{ruleId}/status",
    summary="Approve or reject a rule (its owner; in a workspace owners, admins and reviewers).",
    response_model=Rule,
    responses=responses(404),
)
async def decide_rule(rule_id: RuleId, wanted: Decision, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.rules.decide(tx, rule_id, wanted.status, wanted.reason)


async def _whom(tx: Transaction, recollect: Services, named: UUID | None) -> UUID:
    """The user whose chats are meant: the caller, or whom an admin or the service may name."""
    if tx.caller is SERVICE and named is None:
        raise NotAllowed("The service key acts for a user; say for whom with user_id.")
    if named is None:
        user_id = await recollect.histories.author(tx)
    else:
        async with _acting(tx, recollect, named) as acting:
            user_id = await recollect.histories.author(acting)
    # Whatever follows has transactions of its own.
    await tx.finish()
    return user_id


def _acting(tx: Transaction, recollect: Services, user_id: UUID) -> Transaction:
    return recollect.tenancy.acting_as(in_place_of(tx.caller, user_id))


async def _in(tx: Transaction, recollect: Services, workspace: UUID | None) -> str:
    """Who asks; an error unless they are in the workspace, if one is named."""
    caller = await recollect.histories.author(tx)
    if workspace is not None:
        await recollect.membership.workspace(tx, workspace)
    return str(caller)


def _before(after: list[Any] | None, caller: str) -> tuple[datetime, UUID] | None:
    if after is None:
        return None
    if after[2] != caller:
        raise InvalidCursor
    return datetime.fromisoformat(after[0]), UUID(after[1])
