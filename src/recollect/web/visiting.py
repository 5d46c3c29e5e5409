"""What pages share that are made of several questions: who looks, what they typed, and what has changed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from recollect.access.models import Me
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller, Transaction
from recollect.engine.models import Reason
from recollect.errors import InvalidInput
from recollect.http.callers import caller_of, services
from recollect.kit.diff import Part, differences

T = TypeVar("T")

_reason: TypeAdapter[str] = TypeAdapter(Reason)


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page. Each question is a transaction of its own: the engine may end the one it gets."""

    recollect: Services
    caller: Caller
    me: Me

    async def ask(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async with self.recollect.tenancy.acting_as(self.caller, for_one_call=True) as tx:
            return await work(tx)


async def visitor_of(request: Request, needs: str) -> Visitor:
    recollect = services(request)
    caller = (await caller_of(request)).needing(needs)
    async with recollect.tenancy.acting_as(caller) as tx:
        return Visitor(recollect, caller, await recollect.access.me(tx))


def reason_in(typed: str) -> str | None:
    try:
        return _reason.validate_python(typed) or None
    except ValidationError as error:
        raise InvalidInput(f"reason: {error.errors()[0]['msg']}.") from error


def changed(before: str, after: str) -> Sequence[Part]:
    """What did not change has no parts."""
    return differences(before, after) if before != after else ()


def written(metadata: Mapping[str, Any]) -> str:
    # Not Jinja's, which writes it for scripts: "don\u0027t".
    return json.dumps(metadata, ensure_ascii=False, indent=2, sort_keys=True) if metadata else ""
