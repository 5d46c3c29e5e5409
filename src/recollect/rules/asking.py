"""Rules by a model: it proposes; what it cannot prove by a quote is dropped, and what it then refutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from recollect.db.tenancy import Caller
from recollect.engine.context import tokens_in
from recollect.engine.extraction.tongue import likely_languages
from recollect.engine.language import terms_of
from recollect.errors import RecollectError
from recollect.kit.text import one_line
from recollect.llm.failures import AnswerTooLong, InvalidAnswer, ModelBudgetSpent, ModelRefused
from recollect.llm.service import Llm
from recollect.rules.learning.clustering import Statement
from recollect.rules.learning.wording import LONGEST_RULE, category_of
from recollect.rules.models import CATEGORIES, KnownRule
from recollect.rules.questions import REFUTE, Answer, ModelsRule, Question, Verdicts, refuting

PURPOSE = "rules.extract"
PURPOSE_REFUTE = "rules.refute"
MAX_RULES = 40
# Fewer letters prove nothing.
SHORTEST_QUOTE = 4
# A rule of which less was said, and that says less than half of that, is about something else.
LEAST_SHARED = 0.15
# Of rules that a model is asked to refute at once.
REFUTED_AT_ONCE = 20

# A question can be halved fewer times: a model that has answered none by then is at odds with all of them.
FAILURES_AT_FIRST = 10
MOST_FAILURES = 30

Tick = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Checked:
    """A model's rule whose quotes are exact."""

    rule_text: str
    category: str
    confidence: float
    quotes: Sequence[tuple[Statement, str]]
    contradicts: tuple[UUID, ...]


@dataclass(slots=True)
class Asking:
    """One extraction's questions to a model. Never inside a transaction."""

    llm: Llm
    caller: Caller
    workspace: UUID | None
    run: UUID
    known: Sequence[KnownRule]
    min_confidence: float
    run_tokens: int = 0
    """What may be sent in all; no limit if 0."""
    refused: int = 0
    tokens_sent: int = 0
    answered: list[Question] = field(default_factory=list)

    async def ask(self, questions: Sequence[Question], tick: Tick) -> list[Checked]:
        """What the model makes of the candidates, and does not refute. If the day's budget ends midway, of
        the questions until then: else they would be asked, and paid for, again every day. A question that the
        model has no usable answer to, as somebody's words may bring about, is asked in halves until these
        words are found: they are set aside, and spoil none of the others."""
        standing: list[Checked] = []
        failures: list[RecollectError] = []
        waiting = deque(questions)
        alone: list[Question] = []
        while waiting and len(failures) < (MOST_FAILURES if self.answered else FAILURES_AT_FIRST):
            question = waiting.popleft()
            if self.run_tokens and self.tokens_sent and self.tokens_sent + question.tokens > self.run_tokens:
                # By halving and by refuting it has become more than was planned.
                break
            try:
                standing += await self._unrefuted(await self._proposed(question))
            except ModelBudgetSpent as spent:
                failures.append(spent)
                break
            except (AnswerTooLong, InvalidAnswer, ModelRefused) as error:
                failures.append(error)
                if len(question.candidates) > 1:
                    waiting.extendleft(reversed(question.halves()))
                else:
                    alone.append(question)
                continue
            self.answered.append(question)
            await tick(len(question.candidates))
        is_refusal = not waiting and all(isinstance(each, ModelRefused) for each in failures)
        if failures and not self.answered and not is_refusal:
            raise failures[-1]
        self.refused += len(alone)
        self.answered += alone
        return standing

    async def _proposed(self, question: Question) -> list[Checked]:
        self.tokens_sent += question.tokens
        answer = await self.llm.ask(
            self.caller,
            purpose=PURPOSE,
            system=question.system,
            prompt=question.prompt,
            answer=Answer,
            workspace=self.workspace,
            part_of=self.run,
        )
        return self._checked(answer, question)

    def _checked(self, answer: Answer, question: Question) -> list[Checked]:
        found = [self._check(rule, question) for rule in answer.rules[:MAX_RULES]]
        good = [each for each in found if each is not None]
        self.refused += len(answer.rules) - len(good)
        return [each for each in good if each.confidence >= self.min_confidence]

    def _check(self, rule: ModelsRule, question: Question) -> Checked | None:
        text, candidates = one_line(rule.rule_text), question.candidates
        quotes: list[tuple[Statement, str]] = []
        for words in rule.quotes:
            candidate = candidates[words.candidate - 1] if 1 <= words.candidate <= len(candidates) else None
            quote = candidate.quoted(words.text) if candidate else None
            if candidate is None or quote is None or sum(map(str.isalpha, quote)) < SHORTEST_QUOTE:
                return None
            quotes.append((candidate.statement(quote), quote))
        is_sane = 0 < len(text) <= LONGEST_RULE and 0 <= rule.confidence <= 1
        if not quotes or not is_sane or not _is_supported(text, " ".join(quote for _, quote in quotes)):
            return None
        return Checked(
            text,
            rule.category if rule.category in CATEGORIES else category_of(text),
            rule.confidence,
            quotes,
            self._contradicted(rule.contradicts, shown=len(question.rules)),
        )

    def _contradicted(self, numbers: Sequence[int], *, shown: int) -> tuple[UUID, ...]:
        """Of the rules that it was shown."""
        named = [self.known[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= shown]
        return tuple(rule.id for rule in named if rule.status == "approved")

    async def _unrefuted(self, proposed: Sequence[Checked]) -> list[Checked]:
        standing: list[Checked] = []
        for begin in range(0, len(proposed), REFUTED_AT_ONCE):
            part = proposed[begin : begin + REFUTED_AT_ONCE]
            prompt = refuting([(rule.rule_text, [quote for _, quote in rule.quotes]) for rule in part])
            self.tokens_sent += tokens_in(REFUTE) + tokens_in(prompt)
            answer = await self.llm.ask(
                self.caller,
                purpose=PURPOSE_REFUTE,
                system=REFUTE,
                prompt=prompt,
                answer=Verdicts,
                workspace=self.workspace,
                part_of=self.run,
            )
            # What it says nothing of, or both, does not stand.
            fallen = {verdict.number for verdict in answer.verdicts if not verdict.stands}
            stand = {verdict.number for verdict in answer.verdicts} - fallen
            standing += [rule for number, rule in enumerate(part, 1) if number in stand]
        self.refused += len(proposed) - len(standing)
        return standing


def _is_supported(text: str, quotes: str) -> bool:
    """Whether a rule is about what was said; where it was put into another language, words cannot tell."""
    if likely_languages(text).keys().isdisjoint(likely_languages(quotes)):
        return True
    terms, said = set(terms_of(text)), set(terms_of(quotes))
    shared = len(terms & said)
    return shared >= len(terms) * LEAST_SHARED or shared >= len(said) / 2 > 0
