"""Forms of documents: a deployment's own, and the way from one version of a form to the next."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.errors import Misconfigured
from recollect.profile.models import AnotherVersion, Snapshot
from recollect.profile.schemas import STATE, DoesNotFit, Schema
from recollect.profile.service import Profile
from recollect.settings import Settings
from tests.conftest import make_settings
from tests.profile.conftest import Person, person
from tests.profile.test_updating import NOTE, opened

pytestmark = pytest.mark.anyio


class Pet(BaseModel):
    model_config = ConfigDict(extra="allow")

    version: int
    name: str = ""


def with_rooms(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "parts": {key: {**part, "room": "any"} for key, part in document["parts"].items()}}


SECOND = replace(STATE, version=2, migrations={1: [{"op": "add", "path": "/mood", "value": "unknown"}]})
THIRD = replace(SECOND, version=3, migrations={**SECOND.migrations, 2: with_rooms})


def under(schema: Schema) -> Profile:
    """The same profiles, in another form."""
    return Profile(schema, checkpoint_every=50)


async def test_an_older_document_is_migrated_by_a_version_of_its_own_before_it_is_changed(
    ana: Person,
) -> None:
    await ana.edit({"op": "add", "path": "/parts/critic", "value": {"name": "Critic"}})
    patch = [{"op": "replace", "path": "/summary", "value": "x"}]
    saved = await ana.do(lambda tx: under(SECOND).save_new_snapshot(tx, ana.id, patch))
    assert (saved.version, saved.document["schema_version"], saved.document["mood"]) == (3, 2, "unknown")
    history = await ana.do(lambda tx: ana.services.profile.history(tx, ana.id))
    assert [each.origin for each in history] == ["edit", "migration", "edit"]
    assert {operation["path"] for operation in history[1].patch} >= {"/mood", "/schema_version"}
    assert "mood" not in (await ana.read(version=1)).document


async def test_what_is_meant_for_a_version_is_done_although_that_is_migrated_first(ana: Person) -> None:
    await ana.say("one")
    patch = [{"op": "replace", "path": "/summary", "value": "x"}]

    async def write(tx: Transaction) -> Snapshot:
        # As where the answer is kept with it: all of it is one transaction.
        tx.hold()
        return await under(SECOND).save_new_snapshot(tx, ana.id, patch, only_if=lambda version: version == 1)

    assert (await ana.do(write)).version == 3
    with pytest.raises(AnotherVersion) as refused:
        await ana.do(write)
    assert refused.value.extra == {"current_version": 3}


async def test_migrations_follow_each_other_and_may_depend_on_the_document(ana: Person) -> None:
    await ana.edit({"op": "add", "path": "/parts/critic", "value": {"name": "Critic"}})
    migrated = await ana.do(lambda tx: under(THIRD).migrate(tx, ana.id))
    assert migrated.document["schema_version"] == 3
    assert migrated.document["parts"]["critic"]["room"] == "any"
    again = await ana.do(lambda tx: under(THIRD).migrate(tx, ana.id))
    assert again.version == migrated.version


async def test_what_comes_back_from_an_earlier_form_is_migrated(ana: Person) -> None:
    moved = replace(STATE, version=2, migrations={1: [{"op": "move", "from": "/likes", "path": "/tastes"}]})
    profile = under(moved)
    await ana.edit({"op": "add", "path": "/likes", "value": ["tea"]})
    await ana.do(lambda tx: profile.save_new_snapshot(tx, ana.id, [{"op": "remove", "path": "/tastes/0"}]))
    restored = await ana.do(lambda tx: profile.restore(tx, ana.id, version=1))
    assert (restored.document["schema_version"], restored.document["tastes"]) == (2, ["tea"])
    assert "likes" not in restored.document


@pytest.mark.parametrize("said", [{"schema_version": 1}, {"schema_version": 99}, {}])
async def test_a_change_does_not_say_of_which_form_it_is(ana: Person, said: dict[str, int]) -> None:
    profile = under(SECOND)
    await ana.say("one")
    saved = await ana.do(lambda tx: profile.migrate(tx, ana.id))
    whole = {name: value for name, value in saved.document.items() if name != "schema_version"}
    put = {**whole, **said, "mood": "calm"}
    saved = await ana.do(lambda tx: profile.replace(tx, ana.id, put))
    assert (saved.document["schema_version"], saved.document["mood"]) == (2, "calm")


async def test_a_missing_migration_is_said_and_changes_nothing(ana: Person) -> None:
    await ana.say("one")
    gap = replace(STATE, version=3, migrations={2: with_rooms})
    with pytest.raises(Misconfigured, match="from version 1 to 2"):
        await ana.do(lambda tx: under(gap).migrate(tx, ana.id))
    assert (await ana.read()).version == 1


@pytest.fixture
async def with_pets(
    home: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Services]:
    module = ModuleType("an_applications_forms")
    module.PET = Schema(model=Pet, version=1, empty={"name": ""})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    async with opened(make_settings(home, database_url, profile_schema=f"{module.__name__}:PET")) as services:
        yield services


async def test_a_deployment_has_a_form_of_its_own(with_pets: Services) -> None:
    ana = await person(with_pets, "ana")
    saved = await ana.edit({"op": "add", "path": "/name", "value": "Rex"})
    assert set(saved.document) == {"version", "name", "last_updated_by"}
    with pytest.raises(DoesNotFit, match="/name"):
        await ana.edit({"op": "replace", "path": "/name", "value": 5})
    await ana.record(NOTE)
    done = await ana.update()
    assert (done.state, done.activities) == ("unchanged", 1)


@pytest.mark.parametrize(
    "named", ["no.such.module:X", "recollect.profile.schemas:NONE", "recollect.errors:NotFound"]
)
async def test_a_form_that_is_not_there_is_said_at_the_start(
    home: Path, database_url: str, named: str
) -> None:
    settings: Settings = make_settings(home, database_url, profile_schema=named)
    with pytest.raises(Misconfigured, match="RECOLLECT_PROFILE_SCHEMA"):
        async with opened(settings):
            raise AssertionError("it was opened")
