"""A profile: versions, time travel, restoring, and what happens when two write at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from recollect.db.tenancy import SERVICE
from recollect.errors import InvalidInput, NotAllowed, NotFound
from recollect.profile.blaming import UnknownPath
from recollect.profile.canonical import canonical
from recollect.profile.models import DamagedHistory, StaleVersion, UnknownVersion
from recollect.profile.patch import PatchFailed
from recollect.profile.schemas import DoesNotFit
from tests.conftest import until
from tests.profile.conftest import Person, Superuser

pytestmark = pytest.mark.anyio

CRITIC = {
    "name": "Inner Critic",
    "status": "active",
    "recency_score": 0.9,
    "influence_score": 0.7,
    "goals": [],
}


def put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


# Versions -------------------------------------------------------------------------------------------


async def test_a_profile_begins_empty_at_version_0(ana: Person) -> None:
    found = await ana.read()
    assert (found.version, found.document["version"], found.document["parts"]) == (0, 0, {})


async def test_each_change_is_a_version_that_the_document_knows(ana: Person) -> None:
    await ana.say("one")
    saved = await ana.edit(put("/parts/critic", CRITIC))
    assert saved.version == saved.document["version"] == 2
    assert (await ana.read()) == saved
    assert saved.document["last_updated_by"] == "user"


async def test_what_changes_nothing_is_no_version(ana: Person) -> None:
    await ana.say("one")
    assert (await ana.say("one")).version == 1


async def test_a_writer_may_say_by_which_name_it_writes(ana: Person) -> None:
    saved = await ana.edit(put("/summary", "x"), put("/last_updated_by", "coach"))
    assert saved.document["last_updated_by"] == "coach"


async def test_unknown_fields_are_kept(ana: Person) -> None:
    await ana.edit(put("/parts/critic", {**CRITIC, "colour": "grey"}), put("/mood", {"now": 1.0}))
    document = (await ana.read()).document
    assert document["parts"]["critic"]["colour"] == "grey"
    assert canonical(document["mood"]) == b'{"now":1.0}'


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/summary", 5),
        ("/parts", []),
        ("/parts/critic", {**CRITIC, "recency_score": 1.5}),
        ("/triggers_and_goals", [{"desired_outcome": "calm"}]),
        ("/safety_notes", None),
    ],
)
async def test_what_does_not_fit_the_schema_is_refused(ana: Person, path: str, value: object) -> None:
    await ana.say("one")
    with pytest.raises(DoesNotFit, match=path.split("/")[1]):
        await ana.edit(put(path, value))
    assert (await ana.read()).version == 1


async def test_a_document_stays_an_object(ana: Person) -> None:
    with pytest.raises(InvalidInput):
        await ana.edit({"op": "replace", "path": "", "value": ["x"]})


@pytest.mark.parametrize("value", [[], "x", None])
async def test_nor_does_a_change_of_an_earlier_version_make_it_something_else(
    ana: Person, value: object
) -> None:
    await ana.say("one")
    await ana.say("two")
    with pytest.raises(InvalidInput, match="JSON object"):
        await ana.edit({"op": "replace", "path": "", "value": value}, base=1)
    with pytest.raises(InvalidInput, match="JSON object"):
        await ana.do(lambda tx: ana.services.profile.merge_patch(tx, ana.id, value, base=1))


async def test_a_patch_that_fails_changes_nothing(ana: Person) -> None:
    await ana.say("one")
    with pytest.raises(PatchFailed):
        await ana.edit(put("/summary", "two"), {"op": "test", "path": "/summary", "value": "three"})
    assert (await ana.read()).document["summary"] == "one"


async def test_every_50th_version_is_stored_whole_and_the_others_are_not(
    ana: Person, superuser: Superuser
) -> None:
    for number in range(101):
        await ana.say(f"summary {number}")
    rows = await superuser(
        "select version from user_memory_snapshots where is_full_snapshot order by version"
    )
    assert [row[0] for row in rows] == [1, 50, 100]


async def test_a_large_change_is_stored_whole_so_that_no_chain_gets_heavy(
    ana: Person, superuser: Superuser
) -> None:
    for number in range(3):
        await ana.say(f"{number} " * 20_000)
        await ana.edit(put("/mood", number))
    rows = await superuser(
        "select version from user_memory_snapshots where is_full_snapshot order by version"
    )
    assert [row[0] for row in rows] == [1, 3, 5]
    assert (await ana.read(version=4)).document["mood"] == 1


# Time travel ----------------------------------------------------------------------------------------


async def test_an_earlier_version_can_be_read(ana: Person) -> None:
    for number in range(1, 61):
        await ana.say(f"summary {number}")
    for number in (1, 2, 49, 50, 51, 60):
        assert (await ana.read(version=number)).document["summary"] == f"summary {number}"
    assert (await ana.read(version=0)).document["summary"] == ""
    with pytest.raises(UnknownVersion, match="its latest is 60"):
        await ana.read(version=61)


async def test_a_moment_has_the_version_of_that_moment(ana: Person) -> None:
    before = datetime.now(UTC)
    saved = [await ana.say(f"summary {number}") for number in range(3)]
    assert (await ana.read(at=before - timedelta(seconds=1))).version == 0
    for each in saved:
        assert each.created_at is not None
        assert (await ana.read(at=each.created_at)).version == each.version
        assert (await ana.read(at=each.created_at - timedelta(microseconds=1))).version == each.version - 1
    with pytest.raises(InvalidInput):
        await ana.read(version=1, at=before)


async def test_versions_of_one_transaction_are_moments_of_their_own(ana: Person) -> None:
    async with ana.services.tenancy.acting_as(ana.caller) as tx:
        saved = [
            await ana.services.profile.save_new_snapshot(tx, ana.id, [put("/summary", f"summary {number}")])
            for number in range(3)
        ]
    for each in saved:
        assert (await ana.read(at=each.created_at)).version == each.version


async def test_a_difference_between_two_versions_leads_from_one_to_the_other(ana: Person) -> None:
    await ana.edit(put("/parts/critic", CRITIC))
    await ana.edit(put("/parts/critic/recency_score", 0.4), put("/parts/child", {"name": "Child"}))
    forth, back = await ana.diff(1, 2), await ana.diff(2, 1)
    assert {operation["path"] for operation in forth.patch} == {
        "/version",
        "/parts/child",
        "/parts/critic/recency_score",
    }
    assert len(back.text) == 2
    assert not any("version" in line for line in forth.text)
    assert (await ana.diff(1)).to_version == 2


async def test_restoring_is_a_new_version(ana: Person) -> None:
    await ana.say("one")
    await ana.say("two")
    restored = await ana.do(lambda tx: ana.services.profile.restore(tx, ana.id, version=1, reason="Mistake."))
    assert (restored.version, restored.document["summary"]) == (3, "one")
    history = await ana.do(lambda tx: ana.services.profile.history(tx, ana.id))
    assert [each.version for each in history] == [3, 2, 1]
    assert (history[0].origin, history[0].source_description, history[0].actor) == (
        "restore",
        "Mistake.",
        ana.id,
    )


async def test_the_latest_version_can_be_undone_and_so_can_that(ana: Person) -> None:
    await ana.say("one")
    await ana.say("two")
    for expected in ("one", "two"):
        undone = await ana.do(lambda tx: ana.services.profile.undo(tx, ana.id))
        assert undone.document["summary"] == expected


async def test_an_earlier_version_is_undone_without_what_came_after_it(ana: Person) -> None:
    await ana.edit(put("/parts/critic", CRITIC))
    await ana.say("two")
    await ana.edit(put("/safety_notes", "three"))
    undone = await ana.do(lambda tx: ana.services.profile.undo(tx, ana.id, version=2))
    assert undone.document["summary"] == ""
    assert undone.document["safety_notes"] == "three"
    with pytest.raises(StaleVersion, match="/summary"):
        await ana.do(lambda tx: ana.services.profile.undo(tx, ana.id, version=2))


async def test_who_goes_back_signs_the_version_and_not_who_wrote_it_then(ana: Person) -> None:
    profile = ana.services.profile
    await ana.edit(put("/summary", "one"), by="assistant")
    await ana.edit(put("/summary", "two"), by="other")
    undone = await ana.do(lambda tx: profile.undo(tx, ana.id))
    assert (undone.document["summary"], undone.document["last_updated_by"]) == ("one", "user")
    restored = await ana.do(lambda tx: profile.restore(tx, ana.id, version=2))
    assert (restored.document["summary"], restored.document["last_updated_by"]) == ("two", "user")


async def test_there_is_nothing_to_undo_in_an_empty_profile(ana: Person) -> None:
    with pytest.raises(UnknownVersion):
        await ana.do(lambda tx: ana.services.profile.undo(tx, ana.id))


async def test_blame_names_the_version_that_last_changed_a_path(ana: Person) -> None:
    await ana.edit(put("/parts/critic", {**CRITIC, "goals": [{"goal": "a"}, {"goal": "b"}]}))
    await ana.edit(put("/parts/critic/goals/1/goal", "c"), reason="Heard today.")
    await ana.edit({"op": "remove", "path": "/parts/critic/goals/0"})
    await ana.say("four")

    async def blamed(path: str) -> int:
        return (await ana.do(lambda tx: ana.services.profile.blame(tx, ana.id, path))).version

    assert await blamed("/parts/critic/name") == 1
    assert await blamed("/parts/critic/goals/0/goal") == 2
    assert await blamed("/parts/critic/goals") == 3
    assert await blamed("/parts") == 3
    assert await blamed("/summary") == 4
    with pytest.raises(UnknownPath):
        await blamed("/parts/critic/goals/1")
    found = await ana.do(lambda tx: ana.services.profile.blame(tx, ana.id, "/parts/critic/goals/0"))
    assert found.source_description == "Heard today."


# Two at once ----------------------------------------------------------------------------------------


async def test_changes_that_do_not_touch_each_other_are_merged(ana: Person) -> None:
    await ana.edit(put("/parts/critic", CRITIC))
    await ana.edit(put("/parts/child", {"name": "Child"}))
    saved = await ana.say("merged", base=1)
    assert saved.version == 3
    assert {"critic", "child"} == set(saved.document["parts"])
    assert saved.document["summary"] == "merged"


async def test_changes_of_the_same_conflict_and_say_what_and_with_which_version(ana: Person) -> None:
    await ana.say("one")
    await ana.say("two")
    with pytest.raises(StaleVersion, match="/summary") as caught:
        await ana.say("mine", base=1)
    assert caught.value.extra["current_version"] == 2
    assert (await ana.read()).document["summary"] == "two"


async def test_of_many_who_write_at_once_nobody_is_lost(ana: Person) -> None:
    await asyncio.gather(*(ana.edit(put(f"/parts/p{number}", {"name": "x"})) for number in range(8)))
    found = await ana.read()
    assert found.version == 8
    assert set(found.document["parts"]) == {f"p{number}" for number in range(8)}


async def test_who_comes_second_waits_and_adds_to_what_the_first_has_written(
    ana: Person, superuser: Superuser
) -> None:
    async with ana.services.tenancy.acting_as(ana.caller) as tx:
        await ana.services.profile.save_new_snapshot(tx, ana.id, [put("/summary", "first")])
        second = asyncio.create_task(ana.edit(put("/safety_notes", "second")))
        waiting = (
            "select 1 from pg_locks join pg_stat_activity using (pid)"
            " where not granted and datname = current_database()"
        )
        await until(lambda: superuser(waiting))
    saved = await second
    assert (saved.version, saved.document["summary"]) == (2, "first")


async def test_of_two_with_the_same_base_one_comes_second(ana: Person) -> None:
    await ana.say("one")
    outcomes = await asyncio.gather(
        *(ana.say(f"mine {number}", base=1) for number in range(6)), return_exceptions=True
    )
    assert sum(isinstance(each, StaleVersion) for each in outcomes) == 5
    assert (await ana.read()).version == 2


# The chain ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", [2, 60])
async def test_a_damaged_patch_is_found_and_named(ana: Person, superuser: Superuser, damaged: int) -> None:
    for number in range(1, 71):
        await ana.say(f"summary {number}")
    await superuser(
        "update user_memory_snapshots set patch = %s where version = %s",
        '[{"op": "replace", "path": "/safety_notes", "value": "none"}]',
        damaged,
    )
    with pytest.raises(DamagedHistory, match=f"Version {damaged}:"):
        await ana.read(version=damaged + 3)
    verified = await ana.do(lambda tx: ana.services.profile.verify(tx, ana.id))
    assert verified.damage[0].startswith(f"Version {damaged}:")


async def test_a_missing_version_is_found_and_named(ana: Person, superuser: Superuser) -> None:
    for number in range(1, 10):
        await ana.say(f"summary {number}")
    await superuser("delete from user_memory_snapshots where version = 5")
    assert (await ana.read(version=4)).version == 4
    with pytest.raises(DamagedHistory, match="Version 5 is missing"):
        await ana.read()


async def test_a_damaged_or_missing_checkpoint_is_found(ana: Person, superuser: Superuser) -> None:
    for number in range(1, 53):
        await ana.say(f"summary {number}")
    await superuser("update user_memory_snapshots set full_snapshot_content = '{}' where version = 50")
    with pytest.raises(DamagedHistory, match="Version 50: its checkpoint"):
        await ana.read()
    await superuser("delete from user_memory_snapshots where version <= 50")
    with pytest.raises(DamagedHistory, match="missing"):
        await ana.read()


async def test_nothing_is_added_to_a_damaged_history(ana: Person, superuser: Superuser) -> None:
    await ana.say("one")
    await ana.say("two")
    await superuser("update user_memory_snapshots set patch = '[]' where version = 2")
    with pytest.raises(DamagedHistory):
        await ana.say("three")


async def test_a_sound_history_is_verified(ana: Person) -> None:
    for number in range(1, 120):
        await ana.say(f"summary {number}")
    verified = await ana.do(lambda tx: ana.services.profile.verify(tx, ana.id))
    assert (verified.versions, verified.checkpoints, verified.damage) == (119, 3, [])


# Whose it is ----------------------------------------------------------------------------------------


async def test_a_history_that_began_with_less_than_the_empty_document_is_sound(ana: Person) -> None:
    document = {"last_updated_by": "app", "summary": "one"}
    await ana.do(lambda tx: ana.services.profile.replace(tx, ana.id, document))
    verified = await ana.do(lambda tx: ana.services.profile.verify(tx, ana.id))
    assert (verified.versions, verified.damage) == (1, [])


@pytest.mark.parametrize(
    "damage",
    [
        "delete from user_memory_snapshots where version = 2",
        'update user_memory_snapshots set patch = \'[{"op": "remove", "path": "/none"}]\' where version = 2',
        "update user_memory_snapshots set patch = '[]' where version = 2",
    ],
)
async def test_nobody_is_blamed_by_a_damaged_history(ana: Person, superuser: Superuser, damage: str) -> None:
    await ana.say("one")
    await ana.edit(put("/mood", "calm"))
    await ana.say("three")
    await superuser(damage)
    with pytest.raises(DamagedHistory):
        await ana.do(lambda tx: ana.services.profile.blame(tx, ana.id, "/summary"))


async def test_nobody_sees_or_writes_anothers_profile(ana: Person, ben: Person) -> None:
    await ana.say("mine")
    others = Person(ben.services, ana.id, ben.caller)
    assert (await others.read()).version == 0
    with pytest.raises(NotAllowed):
        await others.say("yours")
    assert (await ana.read()).document["summary"] == "mine"


@pytest.mark.parametrize("version", [1, 3])
async def test_a_version_is_never_written_again_nor_out_of_turn(
    ana: Person, superuser: Superuser, version: int
) -> None:
    await ana.say("one")
    statement = (
        "insert into user_memory_snapshots (user_id, version, patch, is_full_snapshot, full_snapshot_content,"
        " checksum) values (%s, %s, '[]', true, '{}', sha256(''))"
    )
    with pytest.raises(Exception, match="moved on"):
        await superuser(statement, ana.id, version)


async def test_nobody_passes_a_change_of_their_own_off_as_an_update(ana: Person) -> None:
    with pytest.raises(NotAllowed, match="No update"):
        await ana.say("one", origin="update")
    assert (await ana.read()).version == 0


async def test_the_service_writes_for_a_user_and_is_named(ana: Person) -> None:
    async with ana.services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
        saved = await ana.services.profile.save_new_snapshot(tx, ana.id, [put("/summary", "x")])
    assert saved.document["last_updated_by"] == "service"
    assert (await ana.read()).version == 1


async def test_a_profile_of_nobody_cannot_be_written(ana: Person) -> None:
    with pytest.raises(NotFound):
        async with ana.services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await ana.services.profile.save_new_snapshot(tx, uuid4(), [put("/summary", "x")])
