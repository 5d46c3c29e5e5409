"""What in the chats is a rule: as a model says, or as it sounds where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from recollect.db.tenancy import Caller
from recollect.llm.models import Usage
from recollect.llm.service import Llm
from recollect.rules.asking import Asking
from recollect.rules.candidates import Net, cast
from recollect.rules.learning.pipeline import propose
from recollect.rules.material import Material, Place, place_of
from recollect.rules.models import BY_RULES, Estimate, Finding, NoActivePrompt, Prompt
from recollect.rules.questions import Question, questions
from recollect.rules.remembering import Remembering
from recollect.rules.settling import settle

# Of what the questions take, to refute the answers takes about so much more; of both, answers have so much.
_REFUTING_TAKES = 0.25
_ANSWERS_HAVE = 0.2

Progress = Callable[[int, int | None], Awaitable[None]]


@dataclass(slots=True)
class Steps:
    """How far an extraction is, for whoever watches, and what it counted so far."""

    progress: Progress | None = None
    counted: dict[str, Any] = field(default_factory=dict)
    done: int = 0
    total: int = 1

    async def expect(self, more: int) -> None:
        self.total += more
        await self._tell()

    async def tick(self, steps: int = 1) -> None:
        self.done += steps
        await self._tell()

    async def _tell(self) -> None:
        if self.progress is not None:
            await self.progress(self.done, self.total)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found, the memories of the turns that it rests on, and how to hold it against other rules."""

    findings: Sequence[Finding] = ()
    memories: dict[Place, UUID] = field(default_factory=dict)
    settle: Callable[[], Sequence[Finding]] = tuple

    def memory_of(self, finding: Finding) -> UUID | None:
        return self.memories.get(place_of(finding.proposal.evidence[0]))

    async def settled_again(self) -> Outcome:
        """The same beside the rules that the material knows by now."""
        return replace(self, findings=await asyncio.to_thread(self.settle))


class Finder:
    def __init__(self, remembering: Remembering, llm: Llm, *, run_tokens: int) -> None:
        self._remembering = remembering
        self._llm = llm
        self._run_tokens = run_tokens

    @property
    def asks_a_model(self) -> bool:
        return self._llm.configured

    @property
    def made_by(self) -> str:
        return self._llm.name or BY_RULES

    async def find(self, run: UUID, material: Material, steps: Steps) -> Outcome:
        """The rules that are new or have new evidence, the surest first."""
        steps.counted |= {**material.counted(), "made_by": self.made_by}
        if not material.new:
            return Outcome()
        steps.counted["tokens_whole"] = await asyncio.to_thread(material.tokens_whole)
        if self._llm.configured:
            return await self._ask(run, material, steps)
        settled = partial(_proposed, material)
        findings = await asyncio.to_thread(settled)
        resting_on = _evidence_of(findings)
        steps.counted["candidates"] = len(resting_on)
        return Outcome(findings, await self._keep(material, resting_on, steps), settled)

    async def estimate(self, material: Material) -> Estimate:
        """What finding them would take."""
        tokens, price = 0, self._llm.price
        if self._llm.configured:
            asked = await self._questions(material, await asyncio.to_thread(cast, material))
            candidates = sum(len(question.candidates) for question in asked)
            tokens = _tokens(asked)
        else:
            candidates = len(_evidence_of(await asyncio.to_thread(_proposed, material)))
        counted = material.counted()
        return Estimate(
            chats=counted["chats"],
            turns=counted["turns"],
            candidates=candidates,
            tokens_whole=await asyncio.to_thread(material.tokens_whole),
            tokens_sent=tokens,
            cost_usd=float(price.of(Usage(tokens, round(tokens * _ANSWERS_HAVE)))) if price else None,
            made_by=self.made_by,
        )

    async def _ask(self, run: UUID, material: Material, steps: Steps) -> Outcome:
        prompt = _prompt(material)
        net = await asyncio.to_thread(cast, material)
        asked = await self._questions(material, net)
        places = _places_in(asked)
        steps.counted["candidates"] = len(places)
        await steps.expect(len(places))
        memories = await self._keep(material, places, steps)
        asking = Asking(
            self._llm,
            Caller.user(material.asked.user_id),
            material.asked.workspace,
            run,
            material.shown,
            prompt.min_confidence,
            self._run_tokens,
        )
        try:
            rules = await asking.ask(asked, steps.tick)
        finally:
            steps.counted |= {"tokens_sent": asking.tokens_sent, "refused": asking.refused}
        # What this run had no tokens for is for the next one.
        caught = {(each.chat.source, each.turn.number) for each in net.candidates}
        material.leave(caught - set(_places_in(asking.answered)))
        settled = partial(settle, rules, material, net, self.made_by)
        return Outcome(await asyncio.to_thread(settled), memories, settled)

    async def _questions(self, material: Material, net: Net) -> list[Question]:
        """As many as the budget of a run allows, but at least one, of at least one candidate."""
        similar = await self._remembering.similar(material.asked.user_id, material.asked.workspace)
        asked: list[Question] = []
        for whole in questions(_prompt(material), net.candidates, material.shown, similar):
            question = whole if asked else self._affordable(whole)
            if asked and self._run_tokens and _tokens([*asked, question]) > self._run_tokens:
                break
            asked.append(question)
            if question is not whole:
                break
        return asked

    def _affordable(self, question: Question) -> Question:
        while self._run_tokens and len(question.candidates) > 1 and _tokens([question]) > self._run_tokens:
            question, _ = question.halves()
        return question

    async def _keep(self, material: Material, places: Sequence[Place], steps: Steps) -> dict[Place, UUID]:
        if material.asked.origin == "trial":
            return {}
        await steps.expect(len(places))
        return await self._remembering.keep(material, places, steps.tick)


def _proposed(material: Material) -> list[Finding]:
    existing = material.existing
    proposals = propose(
        material.chats,
        texts_of=material.asked.texts_of,
        rejected=material.refused,
        existing=list(existing),
        drawn=material.drawn,
    )
    return [
        Finding(each, BY_RULES, repeats=existing[each.repeats] if each.repeats else None)
        for each in proposals
        if material.is_news(each.evidence) and material.is_wanted(each.category)
    ]


def _evidence_of(findings: Iterable[Finding]) -> list[Place]:
    return list(dict.fromkeys(place_of(each) for found in findings for each in found.proposal.evidence))


def _places_in(asked: Iterable[Question]) -> list[Place]:
    return [(each.chat.source, each.turn.number) for question in asked for each in question.candidates]


def _prompt(material: Material) -> Prompt:
    if material.prompt is None:
        raise NoActivePrompt
    return material.prompt


def _tokens(asked: Sequence[Question]) -> int:
    return round(sum(question.tokens for question in asked) * (1 + _REFUTING_TAKES))
