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
CHECKSUM_BYTES = 32
Row = Mapping[str, Any]


async def chain(
    tx: Transaction,
    user_id: UUID,
    *,
    version: int | None = None,
    at: datetime | None = None,
    last: bool = False,
) -> dict[str, Any] | None:
    """What a version is made of: a checkpoint, and the patches after it."""
    parameters = {"user_id": user_id, "version": LATEST if version is None else version, "at": at}
    return await tx.maybe(queries.chain, parameters, last=last)


def rebuilt(found: Row) -> Snapshot:
    """The version that a chain ends with; an error that names the version where the chain is broken."""
    versions = found["versions"]
    if found["content"] is None:
        raise DamagedHistory(f"The checkpoint that version {versions[-1]} is built on is missing.")
    if versions[-1] - versions[0] != len(versions) - 1:
        raise DamagedHistory(_where(found))
    try:
        document: Document = patches.replay(found["content"], found["patches"][1:])
    except (patches.InvalidPatch, patches.PatchFailed) as error:
        raise DamagedHistory(_where(found)) from error
    if checksum(document) != found["checksums"][-CHECKSUM_BYTES:]:
        raise DamagedHistory(_where(found))
    return Snapshot(versions[-1], document, found["created_at"])


def following(document: Document, version: int, row: Row) -> Document:
    """A document with the next version's patch applied."""
    if row["version"] != version + 1:
        raise DamagedHistory(f"Version {version + 1} is missing.")
    try:
        made: Document = patches.replay(document, [row["patch"]])
    except (patches.InvalidPatch, patches.PatchFailed) as error:
        raise DamagedHistory(f"Version {row['version']}: its patch does not apply.") from error
    return made


def _where(found: Row) -> str:
    """Which version of a chain is the first that is not what it was when it was stored."""
    known = [
        found["checksums"][at : at + CHECKSUM_BYTES]
        for at in range(0, len(found["checksums"]), CHECKSUM_BYTES)
    ]
    rows = [
        {"version": version, "patch": patch, "checksum": each}
        for version, patch, each in zip(found["versions"], found["patches"], known, strict=True)
    ]
    document: Document = found["content"]
    if checksum(document) != known[0]:
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
