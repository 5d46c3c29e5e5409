"""Old checkpoints are thinned, and every version stays reachable."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.bootstrap import Services
from recollect.profile.canonical import canonical
from recollect.profile.compacting import KEPT_LATEST, Compactor
from recollect.settings import Settings
from tests.conftest import make_settings
from tests.profile.conftest import Person, Superuser

pytestmark = pytest.mark.anyio

EVERY = 2
VERSIONS = 50


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, profile_checkpoint_every=EVERY)


@pytest.fixture
def compactor(services: Services) -> Compactor:
    return Compactor(services.tenancy, services.profile, checkpoint_every=EVERY)


async def checkpoints(superuser: Superuser) -> list[int]:
    rows = await superuser(
        "select version from user_memory_snapshots where is_full_snapshot order by version"
    )
    return [row[0] for row in rows]


async def test_of_old_checkpoints_some_stay_and_all_versions_can_be_read(
    ana: Person, ben: Person, compactor: Compactor, superuser: Superuser
) -> None:
    await ben.say("Few versions.")
    written = [canonical((await ana.say(f"summary {number}")).document) for number in range(VERSIONS)]
    counts = await compactor.compact()
    assert (counts["profiles"], counts["damaged"]) == (1, 0)
    # The first, each tenth, and the latest few.
    assert await checkpoints(superuser) == [1, 1, 20, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50]
    for version, expected in enumerate(written, 1):
        assert canonical((await ana.read(version=version)).document) == expected
    assert (await compactor.compact())["checkpoints"] == 0
    assert len(await checkpoints(superuser)) >= KEPT_LATEST


async def test_a_damaged_history_is_not_thinned(
    ana: Person, compactor: Compactor, superuser: Superuser
) -> None:
    for number in range(VERSIONS):
        await ana.say(f"summary {number}")
    await superuser("update user_memory_snapshots set patch = '[]' where version = 7")
    before = await checkpoints(superuser)
    assert (await compactor.compact())["damaged"] == 1
    assert await checkpoints(superuser) == before


async def test_a_history_that_cannot_be_read_does_not_keep_others_from_being_thinned(
    ana: Person, ben: Person, compactor: Compactor, superuser: Superuser
) -> None:
    for each in (ana, ben):
        for number in range(VERSIONS):
            await each.say(f"summary {number}")
    # More than any number here, which whoever adds rows by hand can write.
    beyond = '[{"op": "add", "path": "/n", "value": 1e5000}]'
    for each in sorted((ana, ben), key=lambda each: each.id)[:1]:
        await superuser(
            "update user_memory_snapshots set patch = %s::jsonb || patch where user_id = %s and version = 7",
            beyond,
            each.id,
        )
    counts = await compactor.compact()
    assert (counts["profiles"], counts["damaged"]) == (1, 1)


async def test_the_checkpoint_of_a_large_change_stays(
    ana: Person, compactor: Compactor, superuser: Superuser
) -> None:
    await ana.say("one")
    await ana.say("two " * 10_000)
    for number in range(VERSIONS):
        await ana.say(f"summary {number}")
    await compactor.compact()
    assert 2 in await checkpoints(superuser)
