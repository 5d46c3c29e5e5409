"""Rows of the brain, read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from recollect.brain.models import Fact, Known, NewMemory, Owner
from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction

queries = Queries(__package__)
F = TypeVar("F", bound=Fact)


def fact_from(row: Mapping[str, Any], kind: type[F], **more: Any) -> F:
    metadata = dict(row["extra_metadata"])
    fields = {**row, "category": metadata.get("category"), "extra_metadata": metadata, **more}
    return kind.model_validate(fields)


def known_from(rows: Sequence[Mapping[str, Any]]) -> dict[str, Known]:
    return {
        row["slug"]: Known(row["memory_id"], row["content"], row["extra_metadata"])
        for row in rows
        if row["memory_id"] is not None
    }


@dataclass(frozen=True)
class OwnerFacts:
    """Somebody, by the number that they are known by outside, and what is known about them."""

    identifier: str | None
    known: dict[str, Known]


async def known_of(tx: Transaction, owners: Sequence[Owner], slugs: Sequence[str]) -> dict[Owner, OwnerFacts]:
    """Those of these owners that there are, with what is known about them under these slugs."""
    parameters = {
        "kinds": [owner.kind for owner in owners],
        "owners": [owner.id for owner in owners],
        "slugs": list(dict.fromkeys(slugs)),
    }
    found: dict[Owner, OwnerFacts] = {}
    for row in await tx.all(queries.known, parameters, last=True):
        facts = found.setdefault(Owner(row["kind"], row["owner"]), OwnerFacts(row["rut"], {}))
        facts.known.update(known_from([row]))
    return found


def memory_in(row: Mapping[str, Any]) -> NewMemory:
    """What a row says, as something to be saved."""
    metadata = row["extra_metadata"]
    # It was checked when it came.
    return NewMemory.model_construct(
        slug=row["slug"],
        content=row["content"],
        category=metadata.get("category"),
        extra_metadata=dict(metadata),
    )


def uuid_in(memory_id: str | None) -> UUID | None:
    try:
        return UUID(memory_id) if memory_id else None
    except ValueError:
        return None
