"""What an agent would like to have known, where people decide about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from recollect.access.roles import RoleTooLow
from recollect.brain.models import NewMemory, Owner, UnknownOwner
from recollect.brain.service import PAGE, Brain
from recollect.brain.store import queries
from recollect.db.tenancy import Transaction
from recollect.errors import Conflict, NotFound, Unavailable
from recollect.kit.diff import Part, differences
from recollect.kit.text import Text

State = Literal["pending", "approved", "rejected"]
AgentName = Annotated[Text, StringConstraints(min_length=1, max_length=256)]

# Beside a fact's content, who has written it and who let it stand.
MARKS = ("written_by", "agent", "approved_by")


class UnknownProposal(NotFound):
    """There is no such proposal, or a newer one has taken its place."""

    code = "unknown_proposal"


class AlreadyDecided(Conflict):
    """Somebody has decided about this, or a newer proposal has taken its place; look again."""

    code = "already_decided"


class NotApproved(Unavailable):
    """The fact could not be saved; it still waits for a decision."""

    code = "not_approved"


class Proposal(BaseModel):
    """A fact that an agent proposes."""

    id: UUID
    user_id: UUID | None = Field(description="The user whom it is about; none: a company.")
    company_id: UUID | None
    slug: str
    content: str
    category: str | None = None
    agent: str
    state: State
    proposed_by: UUID | None = Field(description="In whose name the agent was at work.")
    decided_by: UUID | None
    reason: str | None = Field(description="Why it was decided so.")
    created_at: datetime
    decided_at: datetime | None
    about: Annotated[UUID, Field(exclude=True)]

    @property
    def owner(self) -> Owner:
        return Owner("user" if self.company_id is None else "company", self.about)


class Difference(BaseModel):
    kind: Literal["same", "gone", "new"]
    text: str


class ProposedChange(Proposal):
    """A proposal beside what is known in its place now."""

    known: str | None = Field(description="What is known under the slug; none: nothing.")
    known_metadata: dict[str, Any]
    may_decide: bool = Field(description="Whether the caller may approve or reject it.")
    diff: list[Difference]


class Proposals:
    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    async def propose(self, tx: Transaction, owner: Owner, memory: NewMemory, agent: str) -> Proposal:
        """Have people decide about a fact, instead of what waits under its slug."""
        asked = {
            **owner.parameters,
            "slug": memory.slug,
            "content": memory.content,
            "described": json.dumps(by_agent(memory, agent, {}).described),
            "agent": agent,
        }
        return _proposal(await tx.one(queries.propose, asked, last=True))

    async def list(
        self,
        tx: Transaction,
        *owners: Owner,
        state: State | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = PAGE,
    ) -> list[Proposal]:
        """Proposals about these, or about all whom the caller can see; newest first."""
        for owner in owners:
            if await tx.maybe(queries.owner, owner.parameters) is None:
                raise UnknownOwner(f"There is no such {owner.kind}.")
        asked = {
            "owners": [owner.id for owner in owners],
            "state": state,
            "before": before[0] if before else None,
            "before_id": before[1] if before else None,
            "limit": limit,
        }
        return [_proposal(row) for row in await tx.all(queries.list_proposals, asked, last=True)]

    async def get(self, tx: Transaction, proposal_id: UUID) -> ProposedChange:
        """A proposal, and what it would change."""
        row = await tx.maybe(queries.get_proposal, {"proposal_id": proposal_id}, last=True)
        if row is None:
            raise UnknownProposal
        parts = differences(row["known"] or "", row["content"])
        return ProposedChange(**_fields(row), diff=list(map(_difference, parts)))

    async def approve(self, tx: Transaction, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Save what was proposed, and let it stand as approved."""
        proposal = await self._to_decide(tx, proposal_id)
        decider = tx.principal
        memory = by_agent(
            NewMemory(slug=proposal.slug, content=proposal.content, category=proposal.category),
            proposal.agent,
            proposal.known_metadata,
            approved_by=str(decider.actor_id or decider.user_id),
        )
        because = reason or f"proposed by agent {proposal.agent}"
        saved = await self._brain.save(tx, proposal.owner, [memory], reason=because)
        if not saved.success:
            raise NotApproved(f"{saved.errors[0]} It still waits for a decision.")
        return await self._decide(tx, proposal_id, "approved", reason)

    async def reject(self, tx: Transaction, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Leave what is known as it is."""
        await self._to_decide(tx, proposal_id)
        return await self._decide(tx, proposal_id, "rejected", reason)

    async def _to_decide(self, tx: Transaction, proposal_id: UUID) -> ProposedChange:
        proposal = await self.get(tx, proposal_id)
        # Saving has transactions of its own.
        await tx.finish()
        # Row security says the same, but only after the fact has been saved.
        if not proposal.may_decide:
            raise RoleTooLow("About a company its owners and admins decide; ask one of them.")
        if proposal.state != "pending":
            raise AlreadyDecided
        return proposal

    async def _decide(self, tx: Transaction, proposal_id: UUID, state: State, reason: str | None) -> Proposal:
        asked = {"proposal_id": proposal_id, "state": state, "reason": reason}
        async with tx.still_open() as writing:
            row = await writing.maybe(queries.decide, asked, last=True)
        if row is None:
            raise AlreadyDecided
        return _proposal(row)


def by_agent(memory: NewMemory, agent: str, before: Mapping[str, Any], **more: str) -> NewMemory:
    """The memory with the marks of who has written it; what else stood beside it stays."""
    kept = {name: value for name, value in before.items() if name not in MARKS}
    marks = {"written_by": "agent", "agent": agent, **more}
    return memory.model_copy(
        update={"category": memory.category or kept.get("category"), "extra_metadata": {**kept, **marks}}
    )


def _proposal(row: Mapping[str, Any]) -> Proposal:
    return Proposal(**_fields(row))


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "category": row["extra_metadata"].get("category")}


def _difference(part: Part) -> Difference:
    return Difference(kind=part.kind, text=part.text)
