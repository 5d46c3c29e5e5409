"""A backend that keeps its users' state with Recollect calls three functions by name."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.profile.models import NewActivity
from tests.adapters.conftest import Site

pytestmark = pytest.mark.anyio

EXAMPLE = """
import asyncio, json
from recollect.adapters.backend import generate_memory_update, reconstruct_memory, save_new_snapshot
from recollect.errors import RecollectError

async def daily(user_id):
    before = await reconstruct_memory(user_id)
    patch = await generate_memory_update(user_id)
    version = await save_new_snapshot(user_id, patch, base=before["version"])
    after = await reconstruct_memory(user_id, version=version)
    return before["version"], len(patch) > 0, version, after

async def wrong():
    try:
        await reconstruct_memory("somebody")
    except RecollectError as error:
        return error.detail

print(json.dumps(asyncio.run(daily("USER"))))
print(json.dumps(asyncio.run(wrong())))
"""


async def test_the_state_is_read_brought_up_to_date_and_stored(services: Services, site: Site) -> None:
    user: UUID = (await services.access.create_user(NewUser(email="ana@example.com"))).id
    note = NewActivity(kind="note", content="My goal is to feel safer during presentations.")
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await services.profile.record(tx, user, [note])

    daily, wrong = map(json.loads, (await site.run(EXAMPLE.replace("USER", str(user)))).splitlines())

    before, is_new, version, after = daily
    assert (before, is_new, version, after["version"]) == (0, True, 1, 1)
    assert after["last_updated_by"] == "service"
    assert "presentations" in json.dumps(after)
    assert wrong == "user_id: that is not a UUID."
