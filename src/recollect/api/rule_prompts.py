"""What models are told before they extract rules: written, changed, tried."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import Field

from recollect.access.models import Model
from recollect.api.rules import ChatIds
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Transaction
from recollect.errors import NotAllowed
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Page
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.rules.material import Asked
from recollect.rules.models import Compared, NewPrompt, Prompt, PromptChange, PromptText, PromptVersion

router = APIRouter(tags=["rules"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("rules:read")]
Writing = Annotated[Transaction, transaction("rules:write")]
PromptId = Annotated[Id, Path(alias="promptId")]


class PromptQuery(Model):
    workspace_id: Annotated[Id | None, Field(description="Also those of a workspace.")] = None


class NewPromptFor(NewPrompt):
    workspace_id: Annotated[Id | None, Field(description="For this workspace; none: for all (admins).")] = (
        None
    )


class Trial(Model):
    chat_history_ids: ChatIds
    prompt_text: Annotated[PromptText | None, Field(description="To be tried in place of its text.")] = None


@router.get(
    "/api/rules/prompts",
    summary="List the prompts: a workspace's, and those for all.",
    response_model=Page[Prompt],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_prompts(wanted: Annotated[PromptQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    if wanted.workspace_id is not None:
        await recollect.membership.workspace(tx, wanted.workspace_id)
    return {"data": await recollect.rule_prompts.list(tx, workspace=wanted.workspace_id)}


@router.post(
    "/api/rules/prompts",
    summary="Add a prompt, in use from the next extraction on (owners and admins of its workspace; admins).",
    status_code=201,
    response_model=Prompt,
    responses=responses(404, 409),
)
async def add_prompt(wanted: NewPromptFor, tx: Writing, recollect: Recollect) -> Any:
    author = await recollect.histories.author(tx)
    new = NewPrompt(**wanted.model_dump(exclude={"workspace_id"}))
    if wanted.workspace_id is not None:
        await recollect.membership.workspace(tx, wanted.workspace_id)
        return await recollect.rule_prompts.add(tx, new, workspace=wanted.workspace_id, by=author)
    async with await _for_all(tx, recollect) as own:
        return await recollect.rule_prompts.add(own, new, by=author)


@router.patch(
    "/api/rules/prompts/{promptId}",
    summary="Change a prompt, from the next extraction on; how it was is kept.",
    response_model=Prompt,
    responses=responses(404),
)
async def change_prompt(prompt_id: PromptId, wanted: PromptChange, tx: Writing, recollect: Recollect) -> Any:
    found = await recollect.rule_prompts.get(tx, prompt_id)
    if found.workspace_id is not None:
        return await recollect.rule_prompts.change(tx, prompt_id, wanted)
    async with await _for_all(tx, recollect) as own:
        return await recollect.rule_prompts.change(own, prompt_id, wanted)


@router.get(
    "/api/rules/prompts/{promptId}/versions",
    summary="List every earlier text of a prompt, the latest first.",
    response_model=Page[PromptVersion],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_versions(prompt_id: PromptId, tx: Reading, recollect: Recollect) -> Any:
    return {"data": await recollect.rule_prompts.versions(tx, prompt_id)}


@router.post(
    "/api/rules/prompts/{promptId}/try",
    summary="Show what a prompt, or another text for it, makes of chats, beside the active one.",
    description="No rule is stored. It waits for the model, which is asked twice.",
    response_model=Compared,
    responses=responses(404, 409),
)
async def try_prompt(prompt_id: PromptId, wanted: Trial, tx: Writing, recollect: Recollect) -> Any:
    user_id: UUID = await recollect.histories.author(tx)
    await recollect.rule_prompts.get(tx, prompt_id)
    await tx.finish()
    asked = Asked(user_id, chat_ids=wanted.chat_history_ids, prompt_id=prompt_id)
    return await recollect.extractor.compare(asked, wanted.prompt_text)


async def _for_all(tx: Transaction, recollect: Services) -> Transaction:
    """What is for all is for admins to say."""
    if "admin" not in tx.principal.scopes:
        raise NotAllowed("A prompt for all is for admins to write; name a workspace of yours.")
    await tx.finish()
    return recollect.tenancy.acting_as(SERVICE, for_one_call=True)
