"""One fact at a time: said, and taken back, whichever engine keeps the memories."""

from __future__ import annotations

import pytest

from recollect.access.identifiers import Identifiers
from recollect.brain.models import ChangedSince, NotSaved, UnknownFact
from recollect.brain.native import NativeMirror
from recollect.brain.service import Brain
from recollect.engine.service import Engine
from recollect.errors import InvalidInput
from tests.brain.conftest import Knower
from tests.support.engines import ENGINES


@pytest.fixture(params=ENGINES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


async def test_each_kind_of_change_is_taken_back_in_row_and_engine(acme: Knower) -> None:
    brain, owner = acme.services.brain, acme.owner
    await acme.save({"slug": "motto", "content": "Onward", "category": "brand"})
    await acme.save(motto="Backward")

    updated = await acme.do(lambda tx: brain.undo(tx, owner, "motto"))
    assert (updated.before, updated.after, await acme.remembered()) == (
        "Backward",
        "Onward",
        {"motto": "Onward"},
    )
    assert (await acme.get("motto")).category == "brand"

    await acme.delete("motto")
    deleted = await acme.do(lambda tx: brain.undo(tx, owner, "motto", reason="too early"))
    assert (deleted.event, deleted.reason, await acme.remembered()) == (
        "ADD",
        "too early",
        {"motto": "Onward"},
    )

    added = await acme.do(lambda tx: brain.undo(tx, owner, "motto"))
    assert (added.event, await acme.remembered()) == ("DELETE", {})
    assert await acme.is_in_step()


async def test_what_is_not_there_or_not_theirs_or_not_the_last_is_not_undone(
    ana: Knower, ben: Knower
) -> None:
    brain = ana.services.brain
    await ana.save(pet="A dog")
    [first] = await ana.history("pet")
    await ana.save(pet="A cat")

    with pytest.raises(ChangedSince):
        await ana.do(lambda tx: brain.undo(tx, ana.owner, "pet", change=first.id))
    with pytest.raises(UnknownFact):
        await ana.do(lambda tx: brain.undo(tx, ana.owner, "nothing"))
    with pytest.raises(UnknownFact):
        await ben.do(lambda tx: brain.undo(tx, ana.owner, "pet"))
    assert await ana.remembered() == {"pet": "A cat"}


async def test_one_that_cannot_be_kept_is_an_error(ana: Knower) -> None:
    services = ana.services
    with pytest.raises(InvalidInput, match="slug"):
        await ana.do(lambda tx: services.brain.put(tx, ana.owner, {"slug": "NO", "content": "x"}))
    if not isinstance(services.engine, Engine):
        return
    identifiers = Identifiers("uuid")
    mirror = NativeMirror(services.engine, services.tenancy, identifiers)
    without_mem0 = Brain(services.engine, mirror, identifiers, is_configured=False)
    with pytest.raises(NotSaved, match="mem0 is not configured"):
        await ana.do(lambda tx: without_mem0.put(tx, ana.owner, {"slug": "pet", "content": "x"}))
