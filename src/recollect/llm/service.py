"""What can be done with a model; the only door to it."""

from __future__ import annotations

import asyncio
import random
import re
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel, RootModel

from recollect.db.tenancy import Caller, Transaction
from recollect.kit.text import storable
from recollect.llm.answers import Unfit, read
from recollect.llm.endpoint import Endpoint, Setback
from recollect.llm.failures import (
    AnswerTooLong,
    InvalidAnswer,
    ModelAway,
    ModelFailed,
    ModelRefused,
    ModelTimedOut,
    NoModel,
    PromptTooLong,
)
from recollect.llm.ledger import Entry, Ledger
from recollect.llm.models import (
    DEFAULT_MAX_TOKENS,
    MAX_INPUT_BYTES,
    Call,
    ModelStatus,
    Outcome,
    Question,
    Reply,
)
from recollect.llm.prices import Price
from recollect.llm.schema import as_text, schema_of

T = TypeVar("T", bound=BaseModel)

PAGE = 100
MAX_TRIES = 4
FIRST_WAIT_SECONDS = 0.5
# A server that wants to be left alone for longer is for the next time.
LONGEST_WAIT_SECONDS = 30.0

_PURPOSE = re.compile(r"[a-z][a-z_]*(\.[a-z][a-z_]*)*")


class Llm:
    """Without an endpoint there is no model: then ``configured`` is False, and whoever would ask does
    without one, or says so."""

    def __init__(
        self, ledger: Ledger, endpoint: Endpoint | None, *, seconds: float, price: Price | None = None
    ) -> None:
        self._ledger = ledger
        self._endpoint = endpoint
        self._seconds = seconds
        self._price = price

    @property
    def configured(self) -> bool:
        return self._endpoint is not None

    @property
    def name(self) -> str | None:
        """Where it runs and what it is called, for whatever was made with it."""
        if self._endpoint is None:
            return None
        return f"{self._endpoint.dialect.provider}/{self._endpoint.dialect.model}"

    @property
    def price(self) -> Price | None:
        """What its tokens cost, where that is known."""
        return self._price

    async def ask(
        self,
        caller: Caller,
        *,
        purpose: str,
        system: str,
        prompt: str,
        answer: type[T],
        workspace: UUID | None = None,
        part_of: UUID | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> T:
        """Have the model fill in ``answer``. Never inside a transaction: this takes seconds.

        What comes back fits ``answer``; otherwise a ``ModelFailed`` says why not. ``purpose`` is a stable
        word for the ledger, such as "memory.extract". Tokens count for the caller and for the workspace, and
        for the piece of work that the call is part of, if that keeps account.
        """
        if self._endpoint is None:
            raise NoModel
        if not _PURPOSE.fullmatch(purpose):
            raise ValueError(f"{purpose!r} is no purpose; it has to look like memory.extract")
        if issubclass(answer, RootModel) or max_tokens < 1:
            raise ValueError("an answer is an object with fields, and takes at least a token")
        size = len(storable(system).encode()) + len(storable(prompt).encode())
        if size > MAX_INPUT_BYTES:
            raise PromptTooLong(
                f"{size:,} bytes are more than the {MAX_INPUT_BYTES:,} that a model is sent at once."
            )
        question = Question(system, prompt, answer, as_text(schema_of(answer)), max_tokens)
        whose = await self._ledger.whose(caller, workspace)
        dialect = self._endpoint.dialect
        async with self._ledger.recorded(
            whose, purpose, dialect.provider, dialect.model, question.most_tokens, part_of
        ) as entry:
            asking = _Asking(self._ledger, self._endpoint, self._price, entry)
            try:
                async with asyncio.timeout(self._seconds) as limit:
                    return await asking.answer(question, answer, limit.when())
            except TimeoutError:
                raise ModelTimedOut(f"The model did not answer within {self._seconds:g} seconds.") from None

    async def status(self, tx: Transaction) -> ModelStatus:
        """Whether there is a model, and what the caller (the service: everybody) has used of it today."""
        return ModelStatus(
            configured=self.configured,
            name=self.name,
            daily_tokens=self._ledger.daily_tokens,
            today=await self._ledger.today(tx),
        )

    async def calls(
        self,
        tx: Transaction,
        *,
        purpose: str | None = None,
        outcome: Outcome | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = PAGE,
    ) -> list[Call]:
        """The calls that the caller may see, the newest first."""
        return await self._ledger.calls(tx, purpose=purpose, outcome=outcome, before=before, limit=limit)

    async def purge(self) -> int:
        """Forget calls past their time."""
        return await self._ledger.purge()


class _Asking:
    """One question on its way to its answer."""

    def __init__(self, ledger: Ledger, endpoint: Endpoint, price: Price | None, entry: Entry) -> None:
        self._ledger = ledger
        self._endpoint = endpoint
        self._price = price
        self._entry = entry

    async def answer(self, question: Question, kind: type[T], deadline: float | None) -> T:
        text = await self._text(question, deadline)
        try:
            return read(text, kind)
        except Unfit as unfit:
            # Shown what is wrong, a model mends it more often than not; a second time it rarely does.
            text = await self._text(question.again(text, unfit.complaint), deadline)
        try:
            return read(text, kind)
        except Unfit as unfit:
            raise InvalidAnswer(
                f"The model's answer does not fit, not at the second try either: {unfit.where}"
            ) from None

    async def _text(self, question: Question, deadline: float | None) -> str:
        reply = await self._exchange(question, deadline)
        if reply.ended == "refused":
            raise ModelRefused
        if reply.ended == "cut off":
            raise AnswerTooLong(f"The model's answer was cut off after {question.max_tokens:,} tokens.")
        return reply.text

    async def _exchange(self, question: Question, deadline: float | None) -> Reply:
        """Ask, and again after whatever passes by itself."""
        tries = 0
        while True:
            tries += 1
            await self._ledger.make_room(self._entry, question.most_tokens)
            self._entry.sent(question.most_tokens)
            try:
                reply = await self._endpoint.send(question)
            except Setback as setback:
                self._entry.failed(may_have_cost=setback.may_have_cost)
                await asyncio.sleep(_pause(setback, tries, deadline))
            else:
                self._entry.answered(reply, question.most_input_tokens, self._price)
                return reply


def _pause(setback: Setback, tries: int, deadline: float | None) -> float:
    """For how long to wait before the next try; an error if there is none."""
    if not setback.may_pass:
        raise ModelFailed(setback.reason) from None
    pause = setback.wait
    if pause is None:
        # Not all at once: others were sent away at the same moment.
        pause = FIRST_WAIT_SECONDS * 2 ** (tries - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    is_in_time = deadline is None or asyncio.get_running_loop().time() + pause < deadline
    if tries == MAX_TRIES or pause > LONGEST_WAIT_SECONDS or not is_in_time:
        raise ModelAway(setback.reason, headers={"Retry-After": str(max(1, round(pause)))}) from None
    return pause
