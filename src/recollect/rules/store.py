"""Rows of rules, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.rules.models import KnownRule, Prompt, Rule, Run

queries = Queries(__package__)

MAX_KNOWN = 10_000


class Noted(NamedTuple):
    """What became of a finding: a rule that is new, or one that has more evidence than before."""

    id: UUID
    is_new: bool
    is_raised: bool


async def known_rules(tx: Transaction, user_id: UUID, workspace: UUID | None) -> list[KnownRule]:
    parameters = {"user_id": user_id, "workspace": workspace, "limit": MAX_KNOWN}
    return [KnownRule(**row) for row in await tx.all(queries.known_rules, parameters)]


async def hold_rules(tx: Transaction, user_id: UUID, workspace: UUID | None) -> None:
    await tx.run(queries.hold_rules, {"user_id": user_id, "workspace": workspace})


async def prompt_in_use(tx: Transaction, workspace: UUID | None) -> Prompt | None:
    row = await tx.maybe(queries.prompt_in_use, {"workspace": workspace})
    return Prompt(**row) if row else None


async def prompt(tx: Transaction, prompt_id: UUID) -> Prompt | None:
    row = await tx.maybe(queries.get_prompt, {"id": prompt_id})
    return Prompt(**row) if row else None


async def rules(tx: Transaction, ids: Sequence[UUID]) -> list[Rule]:
    """These, in this order."""
    found = {row["id"]: Rule(**row) for row in await tx.all(queries.get_rules, {"ids": list(ids)})}
    return [found[each] for each in ids if each in found]


async def run(tx: Transaction, run_id: UUID) -> Run:
    return Run(**await tx.one(queries.get_run, {"id": run_id}))


async def note(
    tx: Transaction, run_id: UUID, found: Sequence[Mapping[str, Any]], read: Sequence[UUID]
) -> list[Noted]:
    """Write down what was found."""
    parameters = {"run": run_id, "rules": json.dumps(list(found)), "read": list(read)}
    return [Noted(**row) for row in await tx.all(queries.note_rules, parameters)]


async def end(
    tx: Transaction, run_id: UUID, state: str, counted: Mapping[str, Any], error: str | None = None
) -> None:
    parameters = {"run": run_id, "state": state, "counted": json.dumps(counted, default=str), "error": error}
    await tx.run(queries.end_extraction, parameters)
