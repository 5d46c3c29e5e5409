"""Rows of profiles, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.profile import patch as patches
from recollect.profile.canonical import checksum, stored
from recollect.profile.models import (
    DamagedHistory,
    Document,
    NewActivity,
    Origin,
    Patch,
    Recorded,
    Snapshot,
)

queries = Queries(__package__)

LATEST = 2**31 - 1
Row = Mapping[str, Any]


async def chain(
    tx: Transaction,
    user_id: UUID,
    *,
    version: int | None = None,
    at: datetime | None = None,
    last: bool = False,
) -> list[dict[str, Any]]:
    """What a version is made of: a checkpoint, and the patches after it."""
    if at is not None:
        return await tx.all(queries.chain_at, {"user_id": user_id, "at": at}, last=last)
    parameters = {"user_id": user_id, "version": LATEST if version is None else version}
    return await tx.all(queries.chain, parameters, last=last)


def rebuilt(rows: Sequence[Row]) -> Snapshot:
    """The version that a chain ends with; an error that names the version where the chain is broken."""
    first, last = rows[0], rows[-1]
    if first["content"] is None:
        raise DamagedHistory(f"The checkpoint that version {last['version']} is built on is missing.")
    if last["version"] - first["version"] != len(rows) - 1:
        raise DamagedHistory(_where(rows))
    try:
        document: Document = patches.replay(first["content"], [row["patch"] for row in rows[1:]])
    except (patches.InvalidPatch, patches.PatchFailed) as error:
        raise DamagedHistory(_where(rows)) from error
    if checksum(document) != last["checksum"]:
        raise DamagedHistory(_where(rows))
    return Snapshot(last["version"], document, last["created_at"])


def following(document: Document, version: int, row: Row) -> Document:
    """A document with the next version's patch applied."""
    if row["version"] != version + 1:
        raise DamagedHistory(f"Version {version + 1} is missing.")
    try:
        made: Document = patches.replay(document, [row["patch"]])
    except (patches.InvalidPatch, patches.PatchFailed) as error:
        raise DamagedHistory(f"Version {row['version']}: its patch does not apply.") from error
    return made


def _where(rows: Sequence[Row]) -> str:
    """Which version of a chain is the first that is not what it was when it was stored."""
    document: Document = rows[0]["content"]
    if checksum(document) != rows[0]["checksum"]:
        return f"Version {rows[0]['version']}: its checkpoint is not what was stored."
    for before, row in pairwise(rows):
        document = following(document, before["version"], row)
        if checksum(document) != row["checksum"]:
            return f"Version {row['version']}: its patch is not what was stored."
    raise AssertionError("a chain is wrong at its end and right everywhere")


async def add_version(
    tx: Transaction,
    user_id: UUID,
    document: Document,
    patch: Patch,
    *,
    is_checkpoint: bool,
    origin: Origin,
    reason: str | None,
) -> Snapshot | None:
    """The new version, or None if somebody else was first. The commit goes along."""
    parameters = {
        "user_id": user_id,
        "version": document["version"],
        "patch": stored(patch),
        "content": stored(document) if is_checkpoint else None,
        "reason": reason,
        "checksum": checksum(document),
        "origin": origin,
    }
    row = await tx.maybe(queries.add_version, parameters, last=True)
    return Snapshot(row["version"], document, row["created_at"]) if row else None


async def record(tx: Transaction, user_id: UUID, activities: Sequence[NewActivity]) -> Recorded:
    parameters = {
        "user_id": user_id,
        "kinds": [each.kind for each in activities],
        "contents": [each.content for each in activities],
        "data": [json.dumps(each.data) for each in activities],
        "external_ids": [each.external_id for each in activities],
        "moments": [each.happened_at for each in activities],
    }
    recorded = await tx.run(queries.record_activities, parameters, last=True)
    return Recorded(recorded=recorded, known=len(activities) - recorded)
