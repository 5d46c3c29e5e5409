"""Room saved where nobody looks often: of old checkpoints, only every tenth stays whole.

Every version stays reachable, from an earlier checkpoint by more patches. Nothing is thinned in a history
that is not proved whole first.
"""

from __future__ import annotations

from uuid import UUID

from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import Unavailable
from recollect.kit.logs import logger
from recollect.profile.service import LARGE_PATCH, Profile
from recollect.profile.store import queries

log = logger("profile")

KEPT_LATEST = 10
KEPT_EVERY = 10
PAGE = 100
_LOWEST = UUID(int=0)


class Compactor:
    def __init__(self, tenancy: Tenancy, profile: Profile, *, checkpoint_every: int) -> None:
        self._tenancy = tenancy
        self._profile = profile
        self._kept = {
            "kept_every": checkpoint_every * KEPT_EVERY,
            "kept_latest": KEPT_LATEST,
            "large": LARGE_PATCH,
        }

    async def compact(self) -> dict[str, int]:
        """Thin what can be thinned; says how much, and in how many histories damage was found instead."""
        counts = {"profiles": 0, "checkpoints": 0, "damaged": 0}
        after = _LOWEST
        while True:
            async with self._tenancy.acting_as(SERVICE) as tx:
                rows = await tx.all(queries.crowded_profiles, {**self._kept, "after": after, "limit": PAGE})
            for row in rows:
                thinned = await self._thin_unless_damaged(row["user_id"])
                counts["profiles"] += thinned is not None
                counts["checkpoints"] += thinned or 0
                counts["damaged"] += thinned is None
            if len(rows) < PAGE:
                return counts
            after = rows[-1]["user_id"]

    async def _thin_unless_damaged(self, user_id: UUID) -> int | None:
        try:
            return await self._thin(user_id)
        except Unavailable:
            raise
        except Exception:
            # Whatever stands in one user's rows must not keep those of all others from being thinned.
            log.exception("a history cannot be read and stays as it is", user=str(user_id))
            return None

    async def _thin(self, user_id: UUID) -> int | None:
        async with self._tenancy.acting_as(SERVICE) as tx:
            verified = await self._profile.verify(tx, user_id)
            if verified.damage:
                log.error("a damaged history stays as it is", user=str(user_id), first=verified.damage[0])
                return None
            spare = await tx.all(queries.spare_checkpoints, {**self._kept, "user_id": user_id})
            parameters = {"user_id": user_id, "versions": [row["version"] for row in spare]}
            return await tx.run(queries.thin_checkpoints, parameters)
