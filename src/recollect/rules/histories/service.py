"""What can be done with chat histories; the only door to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from recollect.access.roles import role_decides
from recollect.access.store import queries as access_queries
from recollect.db.tenancy import Transaction
from recollect.engine.models import Entities, MemoryEngine, Where
from recollect.errors import NotFound
from recollect.kit.secret import ServerSecret
from recollect.rules.chats.models import Chat, Turn
from recollect.rules.histories import store
from recollect.rules.histories.digests import Digests
from recollect.rules.histories.models import (
    Consent,
    Decides,
    History,
    HistoryTurn,
    Imported,
    RuleSettings,
    Stored,
    UnknownChat,
)
from recollect.rules.histories.preparing import Ready, ready, without_secrets
from recollect.rules.histories.store import Owner, queries

PAGE = 1_000
# What goes to the database at once: so many turns, or so many characters.
BATCH_TURNS = 500
BATCH_SIZE = 1_000_000

After = tuple[datetime | str, UUID | str] | None
# A turn with the number of its chat in the list, and its digest.
Told = tuple[int, Turn, bytes]


class Histories:
    def __init__(self, secret: ServerSecret, engine: MemoryEngine) -> None:
        self._digests = Digests(secret)
        self._engine = engine

    async def author(self, tx: Transaction) -> UUID:
        """Whose chats the caller means: the caller's own."""
        await tx.run(queries.author)
        return tx.principal.user_id

    async def add(
        self,
        tx: Transaction,
        user_id: UUID,
        chats: Sequence[Chat],
        *,
        workspace: UUID | None = None,
        project: UUID | None = None,
    ) -> Imported:
        """Keep what is new in these chats, with secrets masked. The same again adds nothing."""
        owner = Owner(user_id, workspace, project)
        # Off the event loop: masking a megabyte takes a while.
        masked = await asyncio.to_thread(lambda: [self._masked(chat) for chat in chats])
        await self._check_place(tx, workspace, project)
        await tx.run(queries.hold_imports, {"user_id": user_id})
        outcome = Imported()
        keys = [store.key_of(chat) for chat in masked]
        for batch in _batches(self._told(chats, workspace), keys):
            new = await self._new(tx, owner, batch)
            turns = await asyncio.to_thread(_prepared, new)
            of = [masked[nth] for nth, _, _ in new]
            if new:
                with role_decides():
                    ids = await store.put_chats(tx, owner, {store.key_of(chat): chat for chat in of}.values())
                    placed = [(ids[store.key_of(chat)], turn) for chat, turn in zip(of, turns, strict=True)]
                    await store.add_turns(tx, owner, placed)
            outcome.add(_counted(batch, of, turns))
        outcome.ids = await store.sessions(tx, owner, masked)
        return outcome

    async def plan(
        self,
        tx: Transaction,
        user_id: UUID,
        chats: Sequence[Chat],
        *,
        workspace: UUID | None = None,
        met: set[bytes],
    ) -> Imported:
        """What adding these would do, without doing it. ``met``: what earlier calls would have added."""
        owner = Owner(user_id, workspace)
        await self._check_place(tx, workspace)
        outcome = Imported()
        keys = [store.key_of(chat) for chat in chats]
        for batch in _batches(self._told(chats, workspace), keys):
            new = [told for told in await self._new(tx, owner, batch) if told[2] not in met]
            met.update(digest for _, _, digest in new)
            turns = await asyncio.to_thread(_prepared, new)
            outcome.add(_counted(batch, [chats[nth] for nth, _, _ in new], turns))
        return outcome

    def _told(self, chats: Sequence[Chat], workspace: UUID | None) -> Iterator[Told]:
        for nth, chat in enumerate(chats):
            for turn, digest in zip(chat.turns, self._digests.of(chat, workspace), strict=True):
                yield nth, turn, digest

    def _masked(self, chat: Chat) -> Chat:
        return without_secrets(chat, self._digests.session(chat))

    async def _new(self, tx: Transaction, owner: Owner, batch: Sequence[Told]) -> Sequence[Told]:
        """Those that are not here, each once."""
        known = await store.known(tx, owner, [digest for _, _, digest in batch])
        new: dict[bytes, Told] = {}
        for told in batch:
            if told[2] not in known:
                new.setdefault(told[2], told)
        return [*new.values()]

    async def _check_place(
        self, tx: Transaction, workspace: UUID | None, project: UUID | None = None
    ) -> None:
        if workspace is not None:
            await tx.one(access_queries.get_workspace, {"id": workspace})
        elif project is not None:
            raise NotFound("There is no such project outside of a workspace: name both.")
        if project is not None:
            await tx.one(queries.project_in, {"project": project, "workspace": workspace})

    async def list(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        workspace: UUID | None = None,
        after: After = None,
        limit: int = PAGE,
    ) -> Sequence[History]:
        """A user's chats, or those in a workspace; what got turns last comes first."""
        time, chat_id = after or (None, None)
        parameters = {"user_id": user_id, "workspace": workspace, "limit": limit}
        rows = await tx.all(
            queries.list_chats, {**parameters, "after_time": time, "after_id": chat_id}, last=True
        )
        return [History.model_construct(**row) for row in rows]

    async def get(self, tx: Transaction, user_id: UUID, chat_id: UUID) -> History:
        row = await tx.maybe(queries.get_chat, {"user_id": user_id, "id": chat_id})
        if row is None:
            raise UnknownChat
        return History.model_construct(**row)

    async def turns(
        self, tx: Transaction, user_id: UUID, chat_id: UUID, *, after: int = -1, limit: int = PAGE
    ) -> Sequence[HistoryTurn]:
        """What was said in a chat, from after that number on."""
        parameters = {"user_id": user_id, "id": chat_id, "after": after, "limit": limit}
        rows = await tx.all(queries.list_turns, parameters, last=True)
        return [HistoryTurn.model_construct(**row) for row in rows]

    async def delete(self, tx: Transaction, user_id: UUID, chat_id: UUID) -> None:
        """Forget a chat and all that was said in it, also where it was remembered or quoted."""
        if not await tx.run(queries.delete_chat, {"user_id": user_id, "id": chat_id}):
            raise UnknownChat
        await self._engine.delete_all(tx, Where(Entities(user=str(user_id), run=str(chat_id))))

    def read(
        self,
        tx: Transaction,
        user_id: UUID,
        workspace: UUID | None = None,
        *,
        chat_ids: Sequence[UUID] | None = None,
    ) -> AsyncIterator[Stored]:
        """A user's own chats, or those in a workspace, whole: all or those named. One that is very long comes
        in parts."""
        return store.read(tx, user_id, workspace, chat_ids)

    async def consent(
        self,
        tx: Transaction,
        user_id: UUID,
        granted: bool,
        workspace: UUID | None = None,
        *,
        how: str,
    ) -> Consent:
        """Note that rules may be learnt from a user's chats, or no longer."""
        await self._check_place(tx, workspace)
        said = {"user_id": user_id, "workspace": workspace, "granted": granted, "how": how}
        await tx.run(queries.say_consent, said)
        return next(each for each in await self.consents(tx, user_id) if each.workspace_id == workspace)

    async def consents(self, tx: Transaction, user_id: UUID) -> Sequence[Consent]:
        """What a user has last said, for their own chats and for each workspace."""
        rows = await tx.all(queries.list_consents, {"user_id": user_id}, last=True)
        return [Consent.model_construct(**row) for row in rows]

    async def may_analyse(self, tx: Transaction, user_id: UUID, workspace: UUID | None = None) -> bool:
        """Whether rules may be learnt from a user's own chats, or from theirs in a workspace."""
        row = await tx.one(queries.may_analyse, {"user_id": user_id, "workspace": workspace})
        return bool(row["allowed"])

    async def settings(self, tx: Transaction, workspace: UUID) -> RuleSettings:
        """Whose agreement a workspace takes for enough."""
        await self._check_place(tx, workspace)
        row = await tx.maybe(queries.get_settings, {"workspace": workspace}, last=True)
        return RuleSettings(**row) if row else RuleSettings()

    async def change_settings(self, tx: Transaction, workspace: UUID, consent: Decides) -> RuleSettings:
        """Say whose agreement is enough; for owners and admins of the workspace."""
        await self._check_place(tx, workspace)
        with role_decides():
            row = await tx.one(queries.put_settings, {"workspace": workspace, "consent": consent}, last=True)
        return RuleSettings(**row)


def _batches(turns: Iterator[Told], keys: Sequence[store.Key]) -> Iterator[list[Told]]:
    """The turns in parts. What goes by the key of an earlier chat waits for it, to be numbered behind it."""
    batch: list[Told] = []
    size = 0
    held: dict[store.Key, int] = {}
    for told in turns:
        nth = told[0]
        if batch and held.setdefault(keys[nth], nth) != nth:
            yield batch
            batch, size, held = [], 0, {keys[nth]: nth}
        batch.append(told)
        size += len(told[1].text) + len(told[1].doing)
        if len(batch) >= BATCH_TURNS or size >= BATCH_SIZE:
            yield batch
            batch, size, held = [], 0, {}
    if batch:
        yield batch


def _prepared(turns: Sequence[Told]) -> Sequence[Ready]:
    return [ready(turn, digest) for _, turn, digest in turns]


def _counted(batch: Sequence[Told], chats: Sequence[Chat], turns: Sequence[Ready]) -> Imported:
    """What a batch brought: these turns, each of this chat."""
    return Imported(
        turns=len(turns),
        known_turns=len(batch) - len(turns),
        masked=dict(Counter(kind for turn in turns for kind in turn.masked)),
        grown={store.key_of(chat) for chat in chats},
    )
