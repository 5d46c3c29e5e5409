"""What holds for the brain whichever engine keeps the memories."""

from __future__ import annotations

import asyncio

import pytest

from recollect.access.membership_models import ProfileChange
from recollect.brain.models import UnknownFact, UnknownOwner
from recollect.engine.models import Update
from tests.brain.conftest import Knower, company_of
from tests.support.engines import ENGINES


@pytest.fixture(params=ENGINES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


REGIME = {
    "slug": "company_tax_regime",
    "category": "company_tax",
    "content": "Régimen tributario: ProPyme General",
}


async def test_facts_are_saved_with_slug_and_category_in_the_engine(acme: Knower) -> None:
    activity = {"slug": "company_activity", "category": "company_tax", "content": "Actividad: Comercio"}
    saved = await acme.save(REGIME, activity)

    assert saved.model_dump() == {"success": True, "saved_count": 2, "failed_count": 0, "errors": []}
    assert await acme.known() == {
        "company_activity": "Actividad: Comercio",
        "company_tax_regime": "Régimen tributario: ProPyme General",
    }
    [memory] = [each for each in await acme.memories() if each.metadata["slug"] == "company_tax_regime"]
    fact = await acme.get("company_tax_regime")
    assert (memory.text, memory.metadata["category"]) == (fact.content, fact.category)
    assert (str(memory.id), memory.user, memory.app) == (fact.memory_id, "760864285", "company_brain")
    assert await acme.is_in_step()


async def test_a_slug_that_is_known_is_updated_and_not_doubled(ana: Knower) -> None:
    await ana.save(user_full_name="Nombre: Ana")
    before = await ana.get("user_full_name")

    saved = await ana.save(user_full_name="Nombre: Ana María")

    after = await ana.get("user_full_name")
    assert (saved.saved_count, saved.created) == (1, 0)
    assert (after.id, after.memory_id) == (before.id, before.memory_id)
    assert await ana.remembered() == {"user_full_name": "Nombre: Ana María"}
    assert await ana.is_in_step()


async def test_what_has_not_changed_is_saved_and_leaves_no_trace(ana: Knower) -> None:
    await ana.save(city="Lives in Lima")
    before = await ana.get("city")

    assert (await ana.save(city="Lives in Lima")).model_dump()["saved_count"] == 1

    assert (await ana.get("city")).updated_at == before.updated_at
    assert len(await ana.history("city")) == 1


async def test_those_that_cannot_be_saved_are_named_and_the_others_stay(acme: Knower) -> None:
    saved = await acme.save(
        REGIME,
        {"slug": "Not A Slug", "content": "x"},
        {"slug": "empty", "content": "   "},
        {"slug": "long", "content": "x" * 1_048_576},
        {"content": "nameless"},
        "not even a memory",
        {"slug": "x" * 256, "content": "x"},
    )

    assert (saved.success, saved.saved_count, saved.failed_count) == (False, 1, 6), saved.errors
    assert saved.errors[0].startswith("Error with company memory Not A Slug: slug: ")
    assert all(error.startswith("Error with company memory ") for error in saved.errors)
    assert list(await acme.known()) == ["company_tax_regime"]
    assert await acme.is_in_step()


async def test_of_one_slug_said_twice_in_a_call_the_last_counts(ana: Knower) -> None:
    saved = await ana.save({"slug": "pet", "content": "A dog"}, {"slug": "pet", "content": "A cat"})

    assert (saved.saved_count, saved.created) == (2, 1)
    assert await ana.remembered() == {"pet": "A cat"}


async def test_a_memory_deleted_in_the_engine_is_made_again_by_the_next_save(ana: Knower) -> None:
    await ana.save(pet="A dog")
    [memory] = await ana.memories()
    await ana.do(lambda tx: ana.services.engine.delete(tx, memory.id))

    saved = await ana.save(pet="A dog named Rex")

    assert saved.success
    assert await ana.remembered() == {"pet": "A dog named Rex"}
    assert await ana.is_in_step()


async def test_two_who_save_one_slug_at_once_leave_one_row_and_one_memory(ana: Knower, acme: Knower) -> None:
    results = await asyncio.gather(*(acme.save(motto=f"Motto {number}") for number in range(6)))

    assert all(result.success for result in results)
    assert len(await acme.memories()) == 1
    assert await acme.is_in_step()


async def test_a_search_finds_facts_by_their_words_in_one_owner_alone(ana: Knower, acme: Knower) -> None:
    await ana.save(pet="Has a dog named Rex", city="Lives in Lima")
    await acme.save(REGIME)

    found = await ana.search("dog")

    assert found[0].slug == "pet"
    assert found[0].score > 0
    assert "company_tax_regime" not in [fact.slug for fact in found]
    assert [fact.slug for fact in await acme.search("tributario")] == ["company_tax_regime"]


async def test_a_search_can_be_held_to_a_category(acme: Knower) -> None:
    await acme.save(REGIME, {"slug": "motto", "category": "brand", "content": "Régimen of joy"})

    assert [fact.slug for fact in await acme.search("régimen", category="brand")] == ["motto"]


async def test_what_is_deleted_is_gone_from_row_and_engine_and_stays_in_history(ana: Knower) -> None:
    await ana.save(pet="A dog", city="Lima")

    assert await ana.delete("pet", "nothing") == ["pet"]

    assert await ana.known() == {"city": "Lima"}
    assert await ana.remembered() == {"city": "Lima"}
    assert [(change.event, change.before, change.after) for change in await ana.history("pet")] == [
        ("DELETE", "A dog", None),
        ("ADD", None, "A dog"),
    ]
    assert (await ana.save(pet="A cat")).success
    assert await ana.is_in_step()


async def test_history_tells_who_what_and_why(ana: Knower) -> None:
    brain = ana.services.brain
    await ana.save(pet="A dog")
    await ana.do(
        lambda tx: brain.save(tx, ana.owner, [{"slug": "pet", "content": "A cat"}], reason="the dog ran away")
    )

    change, first = await ana.history("pet")

    assert (change.before, change.after, change.reason) == ("A dog", "A cat", "the dog ran away")
    assert (change.actor, first.actor) == (ana.owner.id, ana.owner.id)


async def test_nobody_else_sees_or_changes_it(ana: Knower, ben: Knower, acme: Knower) -> None:
    await ana.save(pet="A dog")
    await acme.save(REGIME)

    for about in (ana.owner, acme.owner):
        stranger = ben.about(about)
        with pytest.raises(UnknownOwner):
            await stranger.save(pet="A cat")
        with pytest.raises(UnknownOwner):
            await stranger.known()
        with pytest.raises(UnknownOwner):
            await stranger.search("dog")
        with pytest.raises(UnknownFact):
            await stranger.history("pet")
        assert "A dog" not in (await ben.known()).values()
    assert await ana.known() == {"pet": "A dog"}


async def test_a_sole_trader_and_their_company_with_one_rut_are_kept_apart(ana: Knower) -> None:
    rut = "76.086.428-5"
    await ana.do(lambda tx: ana.services.membership.change_profile(tx, ProfileChange(rut=rut)))
    company = await company_of(ana, rut=rut)
    await ana.save(motto="Mine")
    await company.save(motto="Ours")

    assert {memory.user for memory in [*await ana.memories(), *await company.memories()]} == {"760864285"}
    assert (await ana.remembered(), await company.remembered()) == ({"motto": "Mine"}, {"motto": "Ours"})


async def test_ten_thousand_in_one_call_are_saved(ana: Knower) -> None:
    if ana.services.settings.mem0_mode != "self-hosted":
        pytest.skip("one call to mem0 each takes minutes; the native engine shows the counting")
    many = [{"slug": f"fact_{number}", "content": f"Fact number {number % 50}"} for number in range(10_000)]
    many[5]["slug"] = "NOT VALID"

    saved = await ana.save(*many)

    assert (saved.saved_count, saved.failed_count) == (9_999, 1)


async def test_a_change_in_the_engine_reaches_the_row_by_reconciling_at_the_latest(ana: Knower) -> None:
    await ana.save(pet="A dog", city="Lima")
    pet, city = sorted(await ana.memories(), key=lambda memory: memory.text)
    engine = ana.services.engine
    await ana.do(lambda tx: engine.update_many(tx, [Update(pet.id, text="A cat")]))
    await ana.do(lambda tx: engine.delete(tx, city.id))

    await ana.services.brain.reconcile()

    assert (await ana.known())["pet"] == "A cat"
    assert await ana.is_in_step()
    mended = await ana.services.brain.reconcile()
    assert {**mended.counts, "checked": 0} == dict.fromkeys(mended.counts, 0)
