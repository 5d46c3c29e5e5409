"""What can be done with a profile; the only door to it.

A profile is a chain of patches. A version is made from the one before it and never changed: what was
restored or undone is a new version too. Nothing that has been there before is at version 0, where every
profile begins with the schema's empty document.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from recollect.db.tenancy import SERVICE, Transaction
from recollect.errors import InvalidInput
from recollect.kit.text import check_json
from recollect.profile import patch as patches
from recollect.profile import store
from recollect.profile.blaming import Blamed
from recollect.profile.canonical import canonical, checksum, same
from recollect.profile.merging import clashes, rebase
from recollect.profile.models import (
    ActivityKind,
    AnotherVersion,
    Blame,
    DamagedHistory,
    Difference,
    Document,
    NewActivity,
    NotAnObject,
    Origin,
    Patch,
    Recorded,
    RecordedActivity,
    Snapshot,
    StaleVersion,
    UnknownActivity,
    UnknownVersion,
    Update,
    Verified,
    Version,
)
from recollect.profile.readable import Change as Told
from recollect.profile.readable import changes
from recollect.profile.schemas import Schema
from recollect.profile.store import queries

PAGE = 100
# A version can be as large as a request: so many at once are what fits into memory in the worst case.
STRETCH = 20
# A patch of this size is worth a checkpoint, so that no chain is long and heavy.
LARGE_PATCH = 20_000
TRIES = 10
MAX_DAMAGE_TOLD = 100
# What the service itself writes into each version: no news to whoever asks what has changed.
KEPT_BY_US = ("version", "last_updated_by")

Change = Callable[[Transaction, Snapshot], Awaitable[Document]]
Precondition = Callable[[int], bool]
"""Of the version that a profile is at."""


class Profile:
    def __init__(self, schema: Schema, *, checkpoint_every: int) -> None:
        self.schema = schema
        self._checkpoint_every = checkpoint_every

    async def reconstruct_memory(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        version: int | None = None,
        at: datetime | None = None,
    ) -> Snapshot:
        """A user's state: the latest, that of a version, or as it was at a moment."""
        return await self._read(tx, user_id, version=version, at=at, last=True)

    def _empty(self) -> Document:
        return {**self.schema.empty, "version": 0}

    async def save_new_snapshot(
        self,
        tx: Transaction,
        user_id: UUID,
        patch: Patch,
        *,
        base: int | None = None,
        only_if: Precondition | None = None,
        reason: str | None = None,
        origin: Origin = "edit",
        by: str | None = None,
    ) -> Snapshot:
        """Add a version. A patch that was made from an earlier version (``base``) is brought onto the latest
        where the two do not touch the same paths; otherwise ``StaleVersion`` tells what does. With
        ``only_if``, nothing is done unless that holds of the latest version."""

        async def change(reading: Transaction, head: Snapshot) -> Document:
            if base is None or base == head.version:
                made: Document = patches.apply(head.document, patch)
                return made
            start = await self._earlier(reading, user_id, base, head)
            return merged(start, patches.apply(start.document, patch), head)

        return await self._write(tx, user_id, change, reason=reason, origin=origin, by=by, only_if=only_if)

    async def replace(
        self,
        tx: Transaction,
        user_id: UUID,
        document: Document,
        *,
        base: Snapshot | int | None = None,
        only_if: Precondition | None = None,
        reason: str | None = None,
        origin: Origin = "edit",
        by: str | None = None,
    ) -> Snapshot:
        """Store a whole document as what it changes. Who has read the version that it was made from hands
        it in, and it need not be read again."""

        async def change(reading: Transaction, head: Snapshot) -> Document:
            start = head if base is None else base
            if isinstance(start, int):
                start = await self._earlier(reading, user_id, start, head)
            return merged(start, document, head)

        known = base if isinstance(base, Snapshot) else None
        return await self._write(
            tx, user_id, change, reason=reason, origin=origin, by=by, known=known, only_if=only_if
        )

    async def merge_patch(
        self,
        tx: Transaction,
        user_id: UUID,
        wanted: Any,
        *,
        base: int | None = None,
        only_if: Precondition | None = None,
        reason: str | None = None,
    ) -> Snapshot:
        """Add a version by a JSON Merge Patch (RFC 7396)."""

        async def change(reading: Transaction, head: Snapshot) -> Document:
            start = head if base is None else await self._earlier(reading, user_id, base, head)
            made = patches.apply(start.document, patches.from_merge_patch(start.document, wanted))
            return merged(start, made, head)

        return await self._write(tx, user_id, change, reason=reason, only_if=only_if)

    async def restore(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        version: int | None = None,
        at: datetime | None = None,
        reason: str | None = None,
    ) -> Snapshot:
        """Make the profile what it was, as a new version."""
        if version is None and at is None:
            raise InvalidInput("Say to which version, or to which moment.")

        async def change(reading: Transaction, head: Snapshot) -> Document:
            del head
            return (await self._read(reading, user_id, version=version, at=at)).document

        told = reason or (f"Back to version {version}." if at is None else f"Back to {at.isoformat()}.")
        return await self._write(tx, user_id, change, reason=told, origin="restore")

    async def undo(
        self, tx: Transaction, user_id: UUID, *, version: int | None = None, reason: str | None = None
    ) -> Snapshot:
        """Take back what one version changed (the latest, if none is named), and nothing that came after it;
        ``StaleVersion`` tells what has been changed again since."""

        async def change(reading: Transaction, head: Snapshot) -> Document:
            undone = head.version if version is None else version
            if undone == 0:
                raise UnknownVersion("There is nothing to undo.")
            at = await self._earlier(reading, user_id, undone, head)
            before = await self._earlier(reading, user_id, undone - 1, head)
            return merged(at, before.document, head)

        told = reason or ("The latest version undone." if version is None else f"Version {version} undone.")
        return await self._write(tx, user_id, change, reason=told, origin="undo")

    async def migrate(self, tx: Transaction, user_id: UUID) -> Snapshot:
        """Bring a document into the schema's present form."""

        async def change(reading: Transaction, head: Snapshot) -> Document:
            del reading
            return head.document

        return await self._write(tx, user_id, change, reason=None)

    async def history(
        self, tx: Transaction, user_id: UUID, *, before: int | None = None, limit: int = PAGE
    ) -> list[Version]:
        """A profile's versions, the latest first."""
        parameters = {"user_id": user_id, "before": before or store.LATEST, "limit": limit}
        return [Version(**row) for row in await tx.all(queries.list_versions, parameters, last=True)]

    async def diff(
        self, tx: Transaction, user_id: UUID, from_version: int, to_version: int | None = None
    ) -> Difference:
        """What lies between two versions, in either direction; without a second one, up to the latest."""
        before = await self._read(tx, user_id, version=from_version)
        after = await self._read(tx, user_id, version=to_version)
        made = patches.diff(before.document, after.document)
        told = [str(change) for change in news(made, before.document)]
        return Difference(from_version=before.version, to_version=after.version, patch=made, text=told)

    async def blame(self, tx: Transaction, user_id: UUID, path: str) -> Blame:
        """Which version last changed what a JSON Pointer leads to."""
        blamed, document, known = Blamed(), dict[str, Any](), checksum({})
        written: dict[int, dict[str, Any]] = {}
        async for row in self._stretches(tx, user_id):
            document, known = store.following(document, len(written), row), row["checksum"]
            blamed.apply(row["version"], row["patch"])
            written[row["version"]] = {
                name: row[name] for name in ("created_at", "actor", "origin", "source_description")
            }
        if checksum(document) != known:
            raise DamagedHistory("A patch in this history is not what was stored; verify it to see which.")
        version = blamed.last_changed(path)
        if version == 0:
            raise UnknownVersion("Nothing has been stored in this profile yet.")
        return Blame(path=path, version=version, **written[version])

    async def verify(self, tx: Transaction, user_id: UUID) -> Verified:
        """Check a whole history: each patch, each checksum, each checkpoint."""
        damage: list[str] = []
        document, at, checkpoints = dict[str, Any](), 0, 0
        async for row in self._stretches(tx, user_id):
            try:
                document = store.following(document, at, row)
            except DamagedHistory as error:
                damage.append(error.detail)
                document = row["content"] if row["content"] is not None else document
            if row["content"] is not None:
                checkpoints += 1
                if not same(row["content"], document):
                    damage.append(f"Version {row['version']}: its checkpoint is not what its patches make.")
                    document = row["content"]
            if checksum(document) != row["checksum"]:
                damage.append(f"Version {row['version']}: its checksum is another.")
            at = row["version"]
        return Verified(versions=at, checkpoints=checkpoints, damage=damage[:MAX_DAMAGE_TOLD])

    async def record(self, tx: Transaction, user_id: UUID, activities: Sequence[NewActivity]) -> Recorded:
        """Record what a user did, said or noted."""
        for each in activities:
            check_json(each.data)
        return await store.record(tx, user_id, activities)

    async def activities(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        kind: ActivityKind | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = PAGE,
    ) -> list[RecordedActivity]:
        """What has been recorded, the latest first."""
        parameters = {"user_id": user_id, "kind": kind, **_before(before), "limit": limit}
        rows = await tx.all(queries.list_activities, parameters, last=True)
        return [RecordedActivity(**row) for row in rows]

    async def forget_activity(self, tx: Transaction, user_id: UUID, activity: UUID) -> None:
        """Delete a record. What the profile has made of it stays."""
        if not await tx.run(queries.delete_activity, {"user_id": user_id, "id": activity}, last=True):
            raise UnknownActivity

    async def updates(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        before: tuple[datetime, UUID] | None = None,
        limit: int = PAGE,
    ) -> list[Update]:
        """The runs that brought a profile up to date, the latest first."""
        parameters = {"user_id": user_id, **_before(before), "limit": limit}
        return [Update(**row) for row in await tx.all(queries.list_updates, parameters, last=True)]

    async def _read(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        version: int | None = None,
        at: datetime | None = None,
        last: bool = False,
    ) -> Snapshot:
        if version is not None and at is not None:
            raise InvalidInput("Ask for a version or for a moment, not for both.")
        chain = await store.chain(tx, user_id, version=version, at=at, last=last)
        found = store.rebuilt(chain) if chain else Snapshot(0, self._empty(), None)
        if version is not None and found.version != version:
            raise UnknownVersion(f"The profile has no version {version}; its latest is {found.version}.")
        return found

    async def _earlier(self, tx: Transaction, user_id: UUID, version: int, head: Snapshot) -> Snapshot:
        if version == head.version:
            return head
        return await self._read(tx, user_id, version=version)

    async def _stretches(self, tx: Transaction, user_id: UUID) -> AsyncIterator[dict[str, Any]]:
        """All versions from the first, a bounded number at a time."""
        after = 0
        while True:
            parameters = {"user_id": user_id, "after": after, "limit": STRETCH}
            rows = await tx.all(queries.stretch, parameters)
            for row in rows:
                yield row
            if len(rows) < STRETCH:
                return
            after = rows[-1]["version"]

    async def _write(
        self,
        tx: Transaction,
        user_id: UUID,
        change: Change,
        *,
        reason: str | None,
        origin: Origin = "edit",
        by: str | None = None,
        known: Snapshot | None = None,
        only_if: Precondition | None = None,
    ) -> Snapshot:
        """Add what ``change`` makes of the latest version, which may be known; again, if somebody else was
        first."""
        migrated: Snapshot | None = None
        for _ in range(TRIES):
            async with tx.going_on() as writing:
                head, known = known or await self._read(writing, user_id), None
                # What we have made of the version that was meant is meant too.
                is_ours = migrated is not None and migrated.version == head.version
                if only_if is not None and not (is_ours or only_if(head.version)):
                    raise AnotherVersion(
                        f"The profile is at version {head.version} now; read it again and make the change "
                        "anew.",
                        current_version=head.version,
                    )
                if self.schema.is_behind(head.document):
                    document = self.schema.migrated(head.document)
                    migrated = await self._add(writing, user_id, head, document, origin="migration")
                    continue
                document = self._in_present_form(await change(writing, head), head, origin)
                added = await self._add(writing, user_id, head, document, origin=origin, reason=reason, by=by)
                if added is not None:
                    return added
        raise StaleVersion("Too many write to this profile at once; try again in a moment.")

    def _in_present_form(self, document: Any, head: Snapshot, origin: Origin) -> Document:
        """What comes back from an earlier form is migrated; no other change says which form it is of."""
        if not isinstance(document, dict):
            raise NotAnObject
        if origin in {"restore", "undo"}:
            signed = {"last_updated_by": head.document.get("last_updated_by")}
            return {**self.schema.migrated(document), **signed}
        form = self.schema.version_of(head.document)
        return document if self.schema.version_of(document) == form else {**document, "schema_version": form}

    async def _add(
        self,
        tx: Transaction,
        user_id: UUID,
        head: Snapshot,
        document: Document,
        *,
        origin: Origin,
        reason: str | None = None,
        by: str | None = None,
    ) -> Snapshot | None:
        """The version after ``head``, or ``head`` if nothing is new; None if it is no longer the latest."""
        check_json(document)
        document = {**document, "version": head.version}
        if same(document, head.document):
            return head
        signed = document.get("last_updated_by")
        if by is not None or signed == head.document.get("last_updated_by"):
            document["last_updated_by"] = by or _writer(tx)
        document["version"] = head.version + 1
        self.schema.check(document)
        if len(canonical(document)) > patches.MAX_BYTES:
            raise patches.DocumentTooLarge
        made = patches.diff(head.document if head.version else {}, document)
        is_due = head.version == 0 or document["version"] % self._checkpoint_every == 0
        is_checkpoint = is_due or len(canonical(made)) > LARGE_PATCH
        return await store.add_version(
            tx, user_id, document, made, is_checkpoint=is_checkpoint, origin=origin, reason=reason
        )


def merged(base: Snapshot, ours: Document, head: Snapshot) -> Document:
    """What was made of an earlier version, brought onto the latest; an error where both changed the same."""
    if base.version == head.version:
        return ours
    if not isinstance(ours, dict):
        raise NotAnObject
    theirs = patches.diff(_bare(base.document), _bare(head.document))
    mine = patches.diff(_bare(base.document), _bare(ours))
    if clashing := clashes(mine, theirs, _bare(base.document)):
        raise StaleVersion(
            f"The profile is at version {head.version} now, and {', '.join(clashing[:5])} has changed since "
            f"version {base.version}; read it again and make the change anew.",
            current_version=head.version,
            paths=list(clashing[:100]),
        )
    made: Document = patches.apply(_bare(head.document), rebase(mine, theirs, _bare(base.document)))
    return {**made, **{name: head.document[name] for name in KEPT_BY_US if name in head.document}}


def news(patch: Patch, before: Document) -> list[Told]:
    """What a patch changes in the document it was made for, apart from what the service itself writes."""
    kept = {f"/{name}" for name in KEPT_BY_US}
    return changes([each for each in patch if each["path"] not in kept], before)


def _bare(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in KEPT_BY_US}


def _writer(tx: Transaction) -> str:
    if tx.caller is SERVICE:
        return "service"
    return "admin" if tx.caller.subject and tx.principal.actor_id else "user"


def _before(position: tuple[datetime, UUID] | None) -> dict[str, Any]:
    moment, last = position or (None, None)
    return {"before_time": moment, "before_id": last}
