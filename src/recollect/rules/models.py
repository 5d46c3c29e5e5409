"""The nouns of rules: what was learnt, where it was said, what people say to it, and how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from recollect.access.models import Model
from recollect.errors import Conflict, NotFound
from recollect.kit.text import Text
from recollect.rules.learning.models import Kind, Proposal, Reach

Category = Literal[
    "git-workflow",
    "code-style",
    "naming",
    "architecture",
    "testing",
    "tooling-commands",
    "dependencies",
    "error-handling",
    "security",
    "documentation",
    "performance",
    "ui",
    "agent-behaviour",
    "best-practices",
]
CATEGORIES: tuple[str, ...] = get_args(Category)
Status = Literal["pending", "approved", "rejected", "needs_revision", "archived"]
Origin = Literal["request", "schedule", "command line", "trial"]
BY_RULES = "rules"
MAX_QUOTED = 3


class UnknownRule(NotFound):
    """There is no such rule, or it is not yours."""

    code = "unknown_rule"


class UnknownPrompt(NotFound):
    """There is no such prompt, or it is not yours."""

    code = "unknown_prompt"


class NoActivePrompt(Conflict):
    """No prompt for extractions is active; activate one first."""

    code = "no_active_prompt"


class ExtractionUnderWay(Conflict):
    """These chats are being read for rules already; wait for that to end."""

    code = "extraction_under_way"


class Scope(BaseModel):
    """Whom a rule holds for."""

    reach: Reach
    project: Annotated[str | None, Field(description="The folder or repository, where it holds in one.")] = (
        None
    )


class Quote(BaseModel):
    """Words that a rule rests on, as they were said."""

    quote: str
    source: Annotated[str | None, Field(description="The imported file, or what wrote the chat.")] = None
    session: str | None = None
    turn: Annotated[int, Field(description="Its number in the chat, from 0.")]
    author: str | None = None
    chat_id: UUID
    turn_id: UUID


class Rule(BaseModel):
    """A rule that chats ask for, and what people say to it."""

    id: UUID
    rule_text: str
    category: str | None
    confidence: float | None
    status: Status
    kind: Kind
    scope: Scope
    evidence: list[Quote]
    contradicts: Annotated[list[UUID], Field(description="Approved rules that it speaks against.")]
    source_session_ids: list[UUID]
    mem0_memory_id: str | None
    usage_count: int
    last_used_at: datetime | None
    workspace_id: UUID | None
    project_id: UUID | None
    extracted_by: UUID | None
    made_by: Annotated[str, Field(description='The model, or "rules" where there was none.')]
    reviewed_by: UUID | None
    reviewed_at: datetime | None
    rejection_reason: str | None
    revision_notes: str | None
    created_at: datetime
    updated_at: datetime

    def told(self) -> dict[str, Any]:
        """In short, with the evidence as text."""
        quotes = "; ".join(f"'{each.quote}'" for each in self.evidence[:MAX_QUOTED])
        return {
            "rule_text": self.rule_text,
            "category": self.category,
            "confidence": self.confidence,
            "evidence": f"User said: {quotes}",
        }


class ApprovedRule(BaseModel):
    """A rule that holds, as it is handed out."""

    id: UUID
    rule_text: str
    category: str | None
    confidence: float | None
    project_id: UUID | None
    scope: Scope


class Run(BaseModel):
    """One extraction: when, over what, what it found, what it cost."""

    id: UUID
    user_id: UUID
    workspace_id: UUID | None
    state: Literal["running", "done", "failed"]
    origin: Origin
    made_by: str | None
    prompt_id: UUID | None
    prompt_version: int | None
    chats: int
    turns: int
    candidates: int
    proposed: Annotated[int, Field(description="New rules.")]
    repeated: Annotated[int, Field(description="Known rules that got more evidence.")]
    refused: Annotated[
        int, Field(description="A model's rules that were dropped: no exact quote, or refuted.")
    ]
    tokens_whole: Annotated[int, Field(description="Of the whole conversations, had they been sent.")]
    tokens_sent: Annotated[int, Field(description="Of what was sent instead, prompt and all.")]
    input_tokens: Annotated[int, Field(description="As the server counted, failed calls included.")]
    output_tokens: int
    cost_usd: Annotated[Decimal | None, Field(description="Where the model's price is known.")]
    error: str | None
    started_at: datetime
    ended_at: datetime | None


class Extracted(BaseModel):
    """An extraction and the rules that it found, or found more evidence of."""

    run: Run
    rules: list[Rule]


class Estimate(BaseModel):
    """What an extraction would read and send. Nothing has been sent or written."""

    chats: int
    turns: Annotated[int, Field(description="That no extraction has read.")]
    candidates: int
    tokens_whole: int
    tokens_sent: Annotated[int, Field(description="Estimated; 0 without a model.")]
    cost_usd: Annotated[float | None, Field(description="None where the price is not known.")]
    made_by: str


class Found(BaseModel):
    """A rule that an extraction found and did not store."""

    rule_text: str
    category: str
    confidence: float
    scope: Scope
    evidence: list[Quote]


class Tried(BaseModel):
    """What a prompt made of chats; nothing of it is stored."""

    rules: list[Found]
    run: Run


class Compared(BaseModel):
    """Two prompts beside each other, on the same chats."""

    active: Tried
    tried: Tried


class Prompt(BaseModel):
    """What a model is told before it extracts rules."""

    id: UUID
    name: str
    description: str | None
    prompt_text: str
    version: int
    is_active: bool
    target_categories: list[str] | None
    min_confidence: float
    workspace_id: UUID | None
    created_by: UUID | None
    created_at: datetime
    updated_at: datetime


class PromptVersion(BaseModel):
    """An earlier text of a prompt."""

    prompt_id: UUID
    version: int
    description: str | None
    prompt_text: str
    is_active: bool
    target_categories: list[str] | None
    min_confidence: float
    changed_by: UUID | None
    changed_at: datetime


PromptText = Annotated[Text, StringConstraints(min_length=1, max_length=20_000)]
_Description = Annotated[Text | None, StringConstraints(max_length=2_000)]
_Categories = Annotated[
    list[Category] | None, Field(max_length=len(CATEGORIES), description="Only rules of these; none: of all.")
]
_Confidence = Annotated[
    float, Field(ge=0, le=1, strict=True, description="A model's rules below it are left out.")
]


class NewPrompt(Model):
    name: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    prompt_text: PromptText
    description: _Description = None
    is_active: Annotated[bool, Field(strict=True)] = True
    target_categories: _Categories = None
    min_confidence: _Confidence = 0.7


class PromptChange(Model):
    """What is to change; the rest stays as it is."""

    prompt_text: PromptText | None = None
    description: _Description = None
    is_active: Annotated[bool | None, Field(strict=True)] = None
    target_categories: _Categories = None
    min_confidence: _Confidence | None = None


@dataclass(frozen=True, slots=True)
class KnownRule:
    """What a tenant has already, as far as an extraction has to know it."""

    id: UUID
    rule_text: str
    status: Status
    quotes: Sequence[tuple[str, str]] = ()
    """Each with the id of its turn before it."""

    def rests_on(self, turn_id: str, words: str) -> bool:
        """On these words, or on more or less of them. Said somewhere else they are said again, but what was
        refused was refused wherever it is said."""
        return any(
            (turn == turn_id and (words in quote or quote in words))
            or (self.is_refused and words.casefold() == quote.casefold())
            for turn, quote in self.quotes
        )

    @property
    def is_refused(self) -> bool:
        return self.status in {"rejected", "archived"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A proposal, and which rules of the tenant it repeats or speaks against."""

    proposal: Proposal
    made_by: str
    repeats: UUID | None = None
    contradicts: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """Which rules are wanted; the rest of it is open."""

    workspace: UUID | None = None
    project: UUID | None = None
    status: Status | None = None
    category: str | None = None
    min_confidence: float | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "project": self.project,
            "status": self.status,
            "category": self.category,
            "min_confidence": self.min_confidence,
        }
