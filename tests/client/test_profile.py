"""Profiles through the Python client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from recollect.bootstrap import Services
from recollect.client import Recollect, StaleVersion
from recollect.errors import InvalidInput, NotFound
from tests.conftest import Person, working

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory(address: str, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(address, key=ana.key) as client:
        yield client


def summary(text: str) -> dict[str, Any]:
    return {"op": "replace", "path": "/summary", "value": text}


async def test_a_profile_is_read_changed_and_followed(memory: Recollect, ana: Person) -> None:
    profile = memory.profile
    assert (await profile.get(ana.id))["version"] == 0

    first = await profile.patch(ana.id, [summary("one")], reason="said so")
    second = await profile.merge(ana.id, {"mood": "calm", "extra": {"kept": None}})
    third = await profile.put(str(ana.id), {**second, "summary": "three"})

    assert (first["version"], second["version"], third["summary"]) == (1, 2, "three")
    versions = [each async for each in profile.history(ana.id)]
    assert [each.version for each in versions] == [3, 2, 1]
    assert versions[-1].source_description == "said so"
    assert await profile.get(ana.id, version=1) == first
    assert await profile.get(ana.id, at=versions[1].created_at) == second
    assert (await profile.since(ana.id, 2)).text == ['summary: "one" -> "three"']
    assert (await profile.diff(ana.id, 3, 1)).to_version == 1
    assert (await profile.blame(ana.id, "/mood")).version == 2
    assert (await profile.undo(ana.id))["summary"] == "one"
    assert (await profile.undo(ana.id, version=2, reason="no")).get("mood") is None
    assert (await profile.restore(ana.id, version=3))["summary"] == "three"
    assert (await profile.restore(ana.id, at=versions[-1].created_at))["summary"] == "one"
    assert (await profile.verify(ana.id)).damage == []


async def test_who_was_late_is_told_so_or_merged(memory: Recollect, ana: Person) -> None:
    profile = memory.profile
    await profile.merge(ana.id, {"summary": "one"})
    await profile.merge(ana.id, {"summary": "two"})

    with pytest.raises(StaleVersion) as strict:
        await profile.merge(ana.id, {"mood": "calm"}, base=1, strict=True)
    with pytest.raises(StaleVersion) as clash:
        await profile.patch(ana.id, [summary("mine")], base=1)
    merged = await profile.merge(ana.id, {"mood": "calm"}, base=1)

    assert (strict.value.status, strict.value.extra["current_version"]) == (412, 2)
    assert (clash.value.status, clash.value.extra["paths"]) == (409, ["/summary"])
    assert (merged["summary"], merged["mood"]) == ("two", "calm")


async def test_what_is_recorded_brings_it_up_to_date(
    memory: Recollect, ana: Person, services: Services
) -> None:
    profile = memory.profile
    note = {"kind": "note", "content": "My goal is to feel calm at work.", "external_id": "1"}
    session = {"kind": "session", "happened_at": datetime.fromisoformat("2026-01-02T03:04:05Z")}
    assert (await profile.record(ana.id, note, session)).recorded == 2
    assert (await profile.record(ana.id, note)).known == 1
    [kept] = [each async for each in profile.activities(ana.id, kind="session")]
    await profile.delete_activity(ana.id, kept.id)

    job = await profile.update(ana.id)
    async with working(services):
        ended = await memory.wait_for_job(job.id)

    assert ended.result == {"state": "updated", "version": 1, "error": None}
    [run] = [each async for each in profile.updates(ana.id)]
    assert (run.made_by, run.activities) == ("rules", 1)


async def test_refusals_are_the_servers_own(memory: Recollect, ben: Person, ana: Person) -> None:
    with pytest.raises(NotFound):
        await memory.profile.get(ben.id)
    with pytest.raises(NotFound) as unknown:
        await memory.profile.get(ana.id, version=7)
    with pytest.raises(InvalidInput):
        await memory.profile.put(ana.id, {"summary": 7})
    with pytest.raises(InvalidInput):
        await memory.profile.get("ana")
    assert unknown.value.code == "unknown_version"
