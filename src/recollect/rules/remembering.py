"""The memory engine's part: it keeps the turns that rules rest on, and finds what is like them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from recollect.db.tenancy import Caller, Tenancy
from recollect.engine.models import MAX_TEXT, Addition, Entities, MemoryEngine, Message, Wanted, Where
from recollect.rules.candidates import voice_of
from recollect.rules.masking import mask
from recollect.rules.material import Material, Place
from recollect.rules.store import queries

SIMILAR = "coding conventions and repeated corrections"
SIMILAR_SHOWN = 10
FROM_CHAT = "chat"
_GAP = re.compile(r"\s{2,}")


class Remembering:
    """What somebody said stays theirs, in a workspace too: the memories are the user's own."""

    def __init__(self, tenancy: Tenancy, engine: MemoryEngine) -> None:
        self._tenancy = tenancy
        self._engine = engine

    async def keep(
        self, material: Material, places: Iterable[Place], tick: Callable[[], Awaitable[None]]
    ) -> dict[Place, UUID]:
        """Add these turns, each under its chat; what is there already is found. Their memories."""
        user_id = material.asked.user_id
        kept: dict[Place, UUID] = {}
        for place in dict.fromkeys(places):
            turn, before = material.turns[place]
            said = _GAP.sub(" ", voice_of(turn, before)).strip() or turn.text
            addition = Addition(
                # One turn at a time: the same request is known again, the same turn among others is not.
                messages=[Message(role="user", content=said[:MAX_TEXT], occurred_at=turn.at)],
                entities=Entities(user=str(user_id), run=place[0]),
                metadata=_from(material.asked.workspace),
                infer=False,
            )
            async with self._tenancy.acting_as(Caller.user(user_id)) as tx:
                # What is forgotten meanwhile is not remembered.
                if (await tx.one(queries.hold_chat, {"id": UUID(place[0])}))["is_there"]:
                    kept[place] = (await self._engine.add(tx, addition)).results[0].id
            await tick()
        return kept

    async def similar(self, user_id: UUID, workspace: UUID | None) -> list[str]:
        """What the user has said before that is like a convention or a correction, with secrets masked. In
        chats of the same place: what else is remembered of them is none of their colleagues' concern."""
        where = Where(Entities(user=str(user_id)), filters={"metadata": _from(workspace)})
        wanted = Wanted(SIMILAR, where, limit=SIMILAR_SHOWN)
        async with self._tenancy.acting_as(Caller.user(user_id), for_one_call=True) as tx:
            return [mask(found.text).text for found in await self._engine.search(tx, wanted)]


def _from(workspace: UUID | None) -> dict[str, str]:
    return {"source": FROM_CHAT, "workspace": str(workspace or "")}
