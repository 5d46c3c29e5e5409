"""Chats brought in from files: read in a thread, while what was read before is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from uuid import UUID

from recollect.db.tenancy import Caller, Tenancy
from recollect.rules.chats.finding import Progress, read_chats
from recollect.rules.chats.models import Chat, Skipped
from recollect.rules.histories.models import Imported
from recollect.rules.histories.service import BATCH_SIZE, BATCH_TURNS, Histories


@dataclass
class Outcome:
    """What came of an import."""

    formats: dict[str, Imported] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def whole(self) -> Imported:
        whole = Imported()
        for each in self.formats.values():
            whole.add(each)
        return whole


class Import:
    """One run over files, as one user. Each batch of chats is a transaction: what was brought in stays."""

    def __init__(
        self,
        histories: Histories,
        tenancy: Tenancy,
        user_id: UUID,
        *,
        workspace: UUID | None = None,
        project: UUID | None = None,
        dry_run: bool = False,
    ) -> None:
        self._histories = histories
        self._tenancy = tenancy
        self._user_id = user_id
        self._workspace = workspace
        self._project = project
        # What would have been added, where nothing is.
        self._met: set[bytes] | None = set() if dry_run else None
        self.outcome = Outcome()

    async def run(self, paths: Sequence[str | Path], progress: Progress) -> Outcome:
        batches = _batches(read_chats(paths, report=self.outcome.skipped.append, progress=progress))
        reading = asyncio.create_task(asyncio.to_thread(next, batches, ()))
        try:
            while batch := await reading:
                reading = asyncio.create_task(asyncio.to_thread(next, batches, ()))
                for name, chats in groupby(batch, key=lambda chat: chat.format):
                    self.outcome.formats.setdefault(name, Imported()).add(await self._bring([*chats]))
        finally:
            # A thread cannot be stopped, and must not outlive what it reads for.
            await asyncio.wait([reading])
        return self.outcome

    async def _bring(self, chats: Sequence[Chat]) -> Imported:
        place = {"workspace": self._workspace}
        async with self._tenancy.acting_as(Caller.user(self._user_id)) as tx:
            if self._met is not None:
                return await self._histories.plan(tx, self._user_id, chats, **place, met=self._met)
            return await self._histories.add(tx, self._user_id, chats, **place, project=self._project)


def _batches(chats: Iterator[Chat]) -> Iterator[Sequence[Chat]]:
    batch: list[Chat] = []
    turns = size = 0
    for chat in chats:
        batch.append(chat)
        turns += len(chat.turns)
        size += sum(len(turn.text) for turn in chat.turns)
        if turns >= BATCH_TURNS or size >= BATCH_SIZE:
            yield batch
            batch, turns, size = [], 0, 0
    if batch:
        yield batch
