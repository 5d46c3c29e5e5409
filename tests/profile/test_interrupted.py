"""Updates that are interrupted are taken up again, and hold up nobody else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.errors import Unavailable
from recollect.profile.bounds import Bounds
from recollect.profile.models import Snapshot
from recollect.profile.service import Profile
from recollect.profile.updating import Updater
from tests.profile.conftest import Person
from tests.profile.test_updating import NOTE

pytestmark = pytest.mark.anyio


class Busy(Profile):
    """One whose database has no time for one user at first."""

    busy_for: UUID | None = None

    async def reconstruct_memory(self, tx: Transaction, user_id: UUID, **which: Any) -> Snapshot:
        if user_id == self.busy_for:
            self.busy_for = None
            raise Unavailable
        return await super().reconstruct_memory(tx, user_id, **which)


async def test_who_was_interrupted_is_updated_when_the_job_is_tried_again(
    services: Services, ana: Person, ben: Person
) -> None:
    for each in (ana, ben):
        await each.record(NOTE)
    profile = Busy(services.profile.schema, checkpoint_every=50)
    profile.busy_for = ana.id
    updater = Updater(
        services.tenancy, profile, services.llm, Bounds(0.5, False), {}, model_seconds=1, keep_days=1
    )
    period = datetime.now(UTC)
    with pytest.raises(Unavailable):
        await updater.update_some([ana.id, ben.id], period)
    assert (await ben.read()).version == 1
    counts = await updater.update_some([ana.id, ben.id], period)
    assert (counts["updated"], counts["skipped"]) == (1, 1)
    assert (await ana.read()).version == 1
