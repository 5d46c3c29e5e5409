"""Facts: each stands once, the newer one wins, and nothing is lost silently."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from recollect.bootstrap import Services, build_services
from recollect.engine.models import Message
from recollect.engine.service import Engine
from recollect.engine.upkeep import Upkeep
from recollect.settings import Settings
from tests.conftest import make_settings
from tests.engine.conftest import Rememberer
from tests.engine.test_searching import with_embedder
from tests.engine.vectors import DrawnVectors
from tests.support.model_server import Fails, ModelServer, Says

pytestmark = pytest.mark.anyio


async def test_statements_about_the_user_become_facts_in_their_own_words(somebody: Rememberer) -> None:
    added = await somebody.add(
        Message(role="user", content="Hola, vivo en Madrid. ¿Qué tiempo hace hoy?"),
        Message(role="assistant", content="I live in the cloud."),
        infer=True,
    )
    assert [change.text for change in added.results] == ["vivo en Madrid."]
    assert added.made_by == "rules"
    [fact] = await somebody.all()
    assert (fact.kind, fact.made_by) == ("fact", "rules")


async def test_an_identical_fact_of_one_user_stands_once_also_when_told_at_once(somebody: Rememberer) -> None:
    said = ["I love hiking.", "i love HIKING", "I love hiking!"]
    await asyncio.gather(
        *(somebody.add(said[number % 3], infer=True, run=f"run {number}") for number in range(9))
    )
    assert len(await somebody.all()) == 1
    await somebody.add("I love hiking.", user="ben", infer=True)
    assert len(await somebody.all(None)) == 2


async def test_a_newer_fact_supersedes_the_one_it_contradicts(somebody: Rememberer) -> None:
    [old] = (await somebody.add("I live in Lima.", infer=True)).results
    added = await somebody.add("I live in Cusco now.", infer=True)
    assert next((change.event, change.text) for change in added.results) == ("SUPERSEDE", "I live in Lima.")
    [current] = await somebody.all()
    assert "Cusco" in current.text
    both = {memory.id: memory for memory in await somebody.all(superseded=True)}
    gone = both[old.id]
    assert gone.superseded_by == current.id
    assert gone.valid_until is not None
    assert gone.valid_from is not None
    assert gone.valid_from < gone.valid_until
    history = await somebody.do(lambda tx: somebody.services.engine.history(tx, old.id))
    assert [version.event for version in history] == ["ADD", "SUPERSEDE"]
    assert [memory.text for memory in await somebody.search("Where do I live?")] == [current.text]


async def test_where_only_a_run_is_named_its_facts_are_its_own(somebody: Rememberer) -> None:
    for run, name in (("r1", "Ana"), ("r2", "Bob")):
        await somebody.add(f"My name is {name}.", "I love hiking.", user=None, run=run, infer=True)
    facts = {(memory.run, memory.text) for memory in await somebody.all(None)}
    assert facts == {
        ("r1", "My name is Ana."),
        ("r1", "I love hiking."),
        ("r2", "My name is Bob."),
        ("r2", "I love hiking."),
    }


async def test_a_changed_fact_no_longer_answers_its_old_question(somebody: Rememberer) -> None:
    [home] = (await somebody.add("I live in Rome.", infer=True)).results
    engine = somebody.services.engine
    await somebody.do(lambda tx: engine.update(tx, home.id, text="I am allergic to peanuts."))
    await somebody.add("I live in Madrid.", infer=True)
    assert await somebody.texts() == ["I am allergic to peanuts.", "I live in Madrid."]


async def test_what_is_told_late_and_was_true_earlier_does_not_supersede(somebody: Rememberer) -> None:
    await somebody.add("I live in Madrid.", infer=True, occurred_at=datetime(2026, 1, 1, tzinfo=UTC))
    await somebody.add("I live in Rome.", infer=True, occurred_at=datetime(2019, 1, 1, tzinfo=UTC))
    assert await somebody.texts() == ["I live in Madrid."]
    rome = next(each for each in await somebody.all(superseded=True) if "Rome" in each.text)
    assert rome.valid_until == datetime(2026, 1, 1, tzinfo=UTC)
    assert rome.superseded_by is not None


@pytest.mark.parametrize("infer", [True, False])
async def test_what_has_expired_can_be_said_again(somebody: Rememberer, infer: bool) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    await somebody.add("I love hiking.", infer=infer, expires_at=past)
    [again] = (await somebody.add("I love hiking.", infer=infer)).results
    assert again.event == "ADD"
    assert await somebody.texts() == ["I love hiking."]


async def test_purging_what_superseded_a_fact_is_no_change_of_it(
    somebody: Rememberer, services: Services
) -> None:
    [rome] = (await somebody.add("I live in Rome.", infer=True)).results
    madrid = (await somebody.add("I live in Madrid.", infer=True)).results[-1]
    engine = somebody.services.engine
    await somebody.do(lambda tx: engine.delete(tx, madrid.id))
    at_once = Engine(DrawnVectors(), services.llm, meaning_weighs=0.5, keep_deleted_days=0)
    assert await at_once.purge(services.tenancy) == 1
    history = await somebody.do(lambda tx: engine.history(tx, rome.id))
    assert [version.event for version in history] == ["ADD", "SUPERSEDE"]


async def test_of_two_contradictions_told_at_once_one_is_current(somebody: Rememberer) -> None:
    cities = ["Lima", "Cusco", "Quito", "La Paz", "Bogota", "Caracas"]
    await asyncio.gather(*(somebody.add(f"I live in {city}.", infer=True) for city in cities))
    assert len(await somebody.all()) == 1
    assert len(await somebody.all(superseded=True)) == len(cities)


async def test_facts_that_say_nearly_the_same_are_linked(somebody: Rememberer) -> None:
    [one] = (await somebody.add("I have a dog called Rex.", infer=True)).results
    [two] = (await somebody.add("I have a dog named Rex.", infer=True)).results
    [link] = await somebody.do(lambda tx: somebody.services.engine.links(tx, one.id))
    assert link.memory_id == two.id
    assert link.similarity > 0.9


async def test_what_was_not_understood_is_reported(somebody: Rememberer) -> None:
    added = await somebody.add("The harvest of the valley failed in spring. Thanks!", infer=True)
    assert added.results == []
    assert added.not_understood == ["The harvest of the valley failed in spring."]


class TestWithAModel:
    @pytest.fixture
    async def model(self) -> ModelServer:
        return ModelServer()

    async def test_its_facts_are_stored_and_named_as_its_work(
        self,
        somebody: Rememberer,
        model: ModelServer,
        settings: Settings,
        services: Services,
        database_url: str,
    ) -> None:
        async with model.running():
            with_model = make_settings(settings.home, database_url, **model.as_openai())
            async with build_services(with_model, services.secret, services.database) as built:
                asking = Rememberer(built, somebody.id)
                model.will(Says({"facts": [{"text": "Vive en Madrid", "evidence": "vivo en Madrid"}]}))
                added = await asking.add("Hola, vivo en Madrid", infer=True)
                assert [change.text for change in added.results] == ["Vive en Madrid"]
                assert added.made_by not in {None, "rules"}
                model.will(*[Fails(400)] * 5)
                with pytest.raises(Exception, match="model"):
                    await asking.add("Ahora vivo en Sevilla", infer=True)
        assert await somebody.texts() == ["Vive en Madrid"]


async def test_another_model_takes_over_while_search_goes_on(
    somebody: Rememberer, services: Services
) -> None:
    old, new = DrawnVectors("old", 32), DrawnVectors("new", 48)
    await with_embedder(somebody, old).add("one", "two", "three")
    changed = with_embedder(somebody, new)
    assert [memory.text for memory in await changed.search("two")] == ["two", "one", "three"]
    upkeep = Upkeep(services.tenancy, services.database.admin, new)
    told: list[int] = []

    async def progress(placed: int) -> None:
        told.append(placed)

    assert await upkeep.reembed(progress) == 3
    assert await upkeep.reembed(progress) == 0
    assert told == [3]
    found = await changed.search("question", explain=True)
    assert all(memory.breakdown and memory.breakdown.meaning is not None for memory in found)
    assert await with_embedder(somebody, old).search("question") == []
