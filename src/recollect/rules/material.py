"""What an extraction goes by: the chats, what is new in them, and what the tenant has already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.engine.context import tokens_in
from recollect.errors import InvalidInput, NotAllowed
from recollect.rules import store
from recollect.rules.chats.models import Chat, Turn
from recollect.rules.histories.models import UnknownChat
from recollect.rules.histories.service import Histories
from recollect.rules.learning.clustering import Words
from recollect.rules.learning.known import TextsOf, no_texts
from recollect.rules.learning.models import Evidence
from recollect.rules.models import Finding, KnownRule, Origin, Prompt, UnknownPrompt
from recollect.rules.store import queries

NOT_AGREED = (
    "Nobody's chats are read for rules before they have agreed to it: PUT /api/chats/consent, or `recollect"
    " chats consent --yes`; for chats in a workspace, name that too."
)
Place = tuple[str, int]
"""A turn: the source of its chat, which is the row's id here, and its number."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an extraction is asked for."""

    user_id: UUID
    workspace: UUID | None = None
    chat_ids: Sequence[UUID] | None = None
    prompt_id: UUID | None = None
    origin: Origin = "request"
    texts_of: TextsOf = no_texts
    """Of a project: its rule files and configurations, whose rules need no proposal there."""
    everything: bool = False
    """Whether turns count as new that an earlier extraction has read."""


@dataclass(slots=True)
class Material:
    asked: Asked
    prompt: Prompt | None
    known: list[KnownRule]
    chats: list[Chat] = field(default_factory=list)
    """In the order of their rows; the source of each is its row's id, lest two files be taken for one."""
    turns: dict[Place, tuple[Turn, Turn | None]] = field(default_factory=dict)
    """Each with the one before it."""
    turn_ids: dict[Place, UUID] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    new: set[Place] = field(default_factory=set)
    read: list[UUID] = field(default_factory=list)

    @property
    def existing(self) -> dict[str, UUID]:
        return {rule.rule_text: rule.id for rule in reversed(self.known) if not rule.is_refused}

    @property
    def refused(self) -> list[str]:
        return [rule.rule_text for rule in self.known if rule.is_refused]

    @property
    def drawn(self) -> dict[Words, str]:
        """The words that rules rest on, each with its rule."""
        places = {str(turn_id): place for place, turn_id in self.turn_ids.items()}
        return {
            (*places[turn_id], quote): rule.rule_text
            for rule in self.known
            for turn_id, quote in rule.quotes
            if turn_id in places
        }

    @property
    def shown(self) -> list[KnownRule]:
        """The rules that a model is shown, what was agreed to before what was proposed."""
        return sorted(
            (rule for rule in self.known if not rule.is_refused), key=lambda rule: rule.status != "approved"
        )

    def leave(self, places: Collection[Place]) -> None:
        """Let these count as unread for the next extraction."""
        left = {self.turn_ids[place] for place in places}
        self.read = [turn_id for turn_id in self.read if turn_id not in left]

    def is_wanted(self, category: str) -> bool:
        """Whether the prompt in use asks for rules of this kind."""
        wanted = self.prompt.target_categories if self.prompt else None
        return not wanted or category in wanted

    def is_news(self, evidence: Iterable[Evidence]) -> bool:
        return any(place_of(each) in self.new for each in evidence)

    def tokens_whole(self) -> int:
        """Of the conversations in which something is new, were they sent as they are."""
        touched = {source for source, _ in self.new}
        return sum(
            tokens_in(turn.text) + tokens_in(turn.doing)
            for chat in self.chats
            if chat.source in touched
            for turn in chat.turns
        )

    def counted(self) -> dict[str, Any]:
        prompt = self.prompt
        return {
            "chats": len({source for source, _ in self.new}),
            "turns": len(self.new),
            "prompt_id": prompt and prompt.id,
            "prompt_version": prompt and prompt.version,
        }

    def row_of(self, finding: Finding, memory_id: UUID | None) -> dict[str, Any]:
        """A finding as ``private.note_rules`` takes it."""
        proposal = finding.proposal
        return {
            "id": finding.repeats and str(finding.repeats),
            "rule_text": proposal.rule_text,
            "category": proposal.category,
            "confidence": proposal.confidence,
            "kind": proposal.kind,
            "scope": {"reach": proposal.scope.reach, "project": proposal.scope.project},
            "evidence": [self.quote_of(each) for each in proposal.evidence],
            "contradicts": [str(each) for each in finding.contradicts],
            "mem0_memory_id": memory_id and str(memory_id),
            "made_by": finding.made_by,
        }

    def quote_of(self, evidence: Evidence) -> dict[str, Any]:
        return {
            "quote": evidence.quote,
            "source": self.sources[evidence.source],
            "session": evidence.session,
            "turn": evidence.turn,
            "author": evidence.author,
            "chat_id": evidence.source,
            "turn_id": str(self.turn_ids[place_of(evidence)]),
        }


def place_of(evidence: Evidence) -> Place:
    return evidence.source, evidence.turn


async def check(tx: Transaction, histories: Histories, asked: Asked) -> Prompt | None:
    """The prompt that it goes by; an error if it asks for what is not there or not agreed to."""
    if not await histories.may_analyse(tx, asked.user_id, asked.workspace):
        raise NotAllowed(NOT_AGREED)
    return await _prompt(tx, asked)


async def gather(tx: Transaction, histories: Histories, asked: Asked) -> Material:
    """All that an extraction has to know."""
    prompt = await check(tx, histories, asked)
    material = Material(asked, prompt, await store.known_rules(tx, asked.user_id, asked.workspace))
    async for stored in histories.read(tx, asked.user_id, asked.workspace, chat_ids=asked.chat_ids):
        source = str(stored.id)
        material.chats.append(replace(stored.chat, source=source))
        material.sources[source] = stored.chat.source
        for index, turn in enumerate(stored.chat.turns):
            place = source, turn.number
            material.turns[place] = turn, stored.chat.turns[index - 1] if index else None
            material.turn_ids[place] = stored.turn_ids[turn.number]
            is_new = turn.number in stored.new
            if is_new:
                material.read.append(stored.turn_ids[turn.number])
            # Who names chats wants to know what is in them.
            if is_new or asked.everything or asked.chat_ids is not None:
                material.new.add(place)
    return material


async def placed(tx: Transaction, asked: Asked) -> Asked:
    """Where chats are named, their workspace is meant; an error if one of them is not there."""
    if asked.chat_ids is None:
        return asked
    parameters = {"user_id": asked.user_id, "ids": list(asked.chat_ids)}
    places = {row["id"]: row["workspace_id"] for row in await tx.all(queries.places_of_chats, parameters)}
    if missing := set(asked.chat_ids) - places.keys():
        raise UnknownChat(f"There is no chat {min(missing)}, or it is somebody else's.")
    workspaces = {*places.values()} | ({asked.workspace} if asked.workspace else set())
    if len(workspaces) > 1:
        raise InvalidInput("These chats are not all in one workspace; name those of one at a time.")
    return replace(asked, workspace=workspaces.pop())


async def _prompt(tx: Transaction, asked: Asked) -> Prompt | None:
    if asked.prompt_id is None:
        return await store.prompt_in_use(tx, asked.workspace)
    found = await store.prompt(tx, asked.prompt_id)
    if found is None or found.workspace_id not in {None, asked.workspace}:
        raise UnknownPrompt
    return found
