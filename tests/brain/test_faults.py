"""Whatever fails, and wherever: no row without its memory, and no memory without its row, survives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
import pytest

from recollect.brain import remote
from recollect.brain.remote import Remote
from recollect.db.tenancy import Transaction
from recollect.engine.mem0.models import Mem0Away
from recollect.engine.service import Engine
from recollect.errors import Unavailable
from tests.brain.conftest import Knower

# What an engine does out there, one call each.
STEPS = ("_known", "_fetch", "_put", "_change", "_forget")
MANY = 30


class Killed(BaseException):
    """What nothing catches."""


@dataclass
class Fault:
    """The call that fails: before it has done anything, after it has, or with the whole process."""

    at: int
    how: Literal["before", "after", "killed"]
    seen: int = 0
    happened: bool = False
    is_over: bool = field(default=False)

    async def around(self, call: Callable[..., Awaitable[Any]], *given: Any, **named: Any) -> Any:
        self.seen += 1
        if self.happened or self.is_over or self.seen != self.at:
            return await call(*given, **named)
        self.happened = True
        if self.how == "before":
            raise Mem0Away
        result = await call(*given, **named)
        if self.how == "killed":
            raise Killed
        del result
        raise Mem0Away


@contextmanager
def failing(knower: Knower, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    engine = knower.services.engine
    with monkeypatch.context() as patched:
        for name in STEPS:
            real = getattr(engine, name)
            patched.setattr(
                engine, name, lambda *given, _real=real, **named: fault.around(_real, *given, **named)
            )
        if fault.how == "killed":

            async def never(*_: Any) -> None:
                raise Killed

            # Who is dead cleans nothing up, and has nothing else under way.
            patched.setattr(Remote, "give_up", never)
            patched.setattr(remote, "AT_ONCE", 1)
        try:
            yield
        except* Killed:
            pass


async def pretend_time_has_passed(knower: Knower) -> None:
    async with await psycopg.AsyncConnection.connect(knower.services.database.admin) as connection:
        await connection.execute("update brain_intents set made_at = made_at - interval '1 hour'")


VERBS: dict[str, Callable[[Knower], Awaitable[object]]] = {
    "add": lambda ana: ana.save(pet="A dog", city="Lima"),
    "update": lambda ana: ana.save(known="Otherwise", other="Otherwise too"),
    "delete": lambda ana: ana.delete("known", "other"),
    "all at once": lambda ana: ana.save(known="Otherwise", pet="A dog"),
}


@pytest.mark.parametrize("mode", ["oss", "platform"])
@pytest.mark.parametrize("how", ["before", "after", "killed"])
async def test_a_pair_is_in_step_after_a_fault_at_any_call_to_mem0(
    ana: Knower, how: Literal["before", "after", "killed"], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb, work in VERBS.items():
        for at in range(1, MANY):
            await ana.save(known="Something", other="Something else")
            await ana.delete("pet", "city")
            fault = Fault(at, how)
            with failing(ana, fault, monkeypatch), suppress(Mem0Away):
                await work(ana)
            if not fault.happened:
                break
            await pretend_time_has_passed(ana)

            mended = await ana.services.brain.settle()

            assert await ana.is_in_step(), f"{verb}, call {at}"
            assert mended.failed == 0
        else:
            pytest.fail(f"{verb} calls mem0 more than {MANY} times")


@pytest.mark.parametrize("mode", ["oss", "platform"])
async def test_what_failed_can_be_saved_again_at_once(ana: Knower, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(1, MANY):
        fault = Fault(at, "after")
        with failing(ana, fault, monkeypatch):
            saved = await ana.save(pet=f"A dog of {at}")
        if not fault.happened:
            break
        assert saved.errors == ["Error with user memory pet: mem0 does not answer; try again in a moment."]

        assert (await ana.save(pet=f"A cat of {at}")).success
        assert await ana.remembered() == {"pet": f"A cat of {at}"}
        assert await ana.is_in_step()


@pytest.mark.parametrize("mode", ["oss"])
async def test_what_is_being_saved_is_not_mended_meanwhile(
    ana: Knower, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ana.services.engine
    real = engine._put  # type: ignore[attr-defined]  # where a call leaves this process

    async def slow(*given: Any) -> Any:
        stored = await real(*given)
        mended = await ana.services.brain.reconcile()
        assert (mended.removed, mended.adopted) == (0, 0)
        return stored

    monkeypatch.setattr(engine, "_put", slow)

    assert (await ana.save(pet="A dog")).success
    assert await ana.is_in_step()


async def test_a_pair_is_in_step_after_a_fault_at_any_statement(
    ana: Knower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With our own engine there is nothing to mend: both stand, or neither."""
    real = Transaction._execute  # every statement passes here
    for verb, work in VERBS.items():
        for at in range(1, MANY):
            await ana.save(known="Something", other="Something else")
            await ana.delete("pet", "city")
            count = 0

            async def execute(self: Transaction, *given: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                cursor = await real(self, *given, **named)
                if count == at:  # noqa: B023 - awaited within the turn
                    raise Unavailable
                return cursor

            with monkeypatch.context() as patched:
                patched.setattr(Transaction, "_execute", execute)
                with suppress(Unavailable):
                    await work(ana)
            if count < at:
                break
            assert await ana.is_in_step(), f"{verb}, statement {at}"
        else:
            pytest.fail(f"{verb} takes more than {MANY} statements")


async def test_a_failed_embedding_changes_nothing(ana: Knower, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(self: Engine, texts: object) -> Any:
        raise Unavailable

    await ana.save(known="Something")
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "prepare", fails)
        saved = await ana.save(known="Otherwise", pet="A dog")

    assert (saved.success, saved.saved_count, saved.failed_count) == (False, 0, 2)
    assert await ana.known() == {"known": "Something"}
    assert await ana.is_in_step()
