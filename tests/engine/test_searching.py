"""A search finds what is there: by words, by meaning, of those it is asked about and nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import numpy as np
import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.engine.embedding.models import EmbeddingFailed, Vectors
from recollect.engine.embedding.remembering import RememberingEmbedder
from recollect.engine.models import Entities, Wanted, Where
from recollect.engine.service import Engine
from recollect.errors import InvalidInput, NotFound, NotSignedIn
from tests.conftest import until
from tests.engine.conftest import Rememberer
from tests.engine.vectors import DrawnVectors

pytestmark = pytest.mark.anyio

SCANS_OF_INDEX = """
select sum(idx_scan) from pg_stat_user_indexes where indexrelname like 'idx_memory_vectors_near%'
"""


def with_embedder(somebody: Rememberer, embedder: object, *, weighs: float = 0.5) -> Rememberer:
    engine = Engine(
        embedder,  # type: ignore[arg-type]
        somebody.services.llm,
        meaning_weighs=weighs,
        keep_deleted_days=30,
    )
    return replace(somebody, services=replace(somebody.services, engine=engine))


async def test_a_user_filter_finds_all_of_the_nearest_at_ten_thousand_memories(somebody: Rememberer) -> None:
    """Recall 1.0 against brute force, on the 200th execution of the same statement as on the first."""
    embedder = DrawnVectors()
    drawn = with_embedder(somebody, embedder)
    texts = {f"user {user}": [f"m{user}x{number}" for number in range(100)] for user in range(100)}
    for user, said in texts.items():
        await drawn.add(*said, user=user)
    for execution in range(1, 201):
        user = f"user {execution % 100}"
        [question] = await embedder.embed([f"question {execution}"])
        stored = await embedder.embed(texts[user])
        nearest = [texts[user][place] for place in np.argsort(-(stored @ question))[:10]]
        found = await drawn.search(f"question {execution}", user)
        assert [memory.text for memory in found] == nearest, f"execution {execution}"


async def test_the_best_fit_by_words_and_meaning_comes_first(somebody: Rememberer) -> None:
    await somebody.add(
        "My sister Clara lives in Lisbon", "I had pasta for lunch", "The meeting moved to Friday"
    )
    found = await somebody.search("Where does Clara live?")
    assert found[0].text == "My sister Clara lives in Lisbon"
    assert [memory.score for memory in found] == sorted((memory.score for memory in found), reverse=True)
    assert all(0 < memory.score <= 1 for memory in found)


async def test_explain_says_what_a_score_is_made_of(somebody: Rememberer) -> None:
    await somebody.add("The violin is old", "I play it daily", importance=0.8)
    found = await somebody.search("violin", explain=True, importance=0.5, recency=0.5)
    parts = {memory.text: memory.breakdown for memory in found}
    violin, daily = parts["The violin is old"], parts["I play it daily"]
    assert violin
    assert daily
    assert violin.turn
    assert violin.turn > 0
    assert daily.turn == 0
    assert daily.window_of_three
    assert violin.lexical == pytest.approx(
        (violin.turn + (violin.window_of_three or 0) + (violin.window_of_five or 0)) / 3, abs=1e-6
    )
    assert violin.recency == pytest.approx(1, abs=0.01)
    assert violin.importance == pytest.approx(0.8)
    assert all(memory.breakdown is None for memory in await somebody.search("violin"))


async def test_where_no_word_is_said_meaning_alone_decides(somebody: Rememberer) -> None:
    """Of those equally near, the newest first; all as if something of no weight were weighed beside it."""
    drawn = with_embedder(somebody, DrawnVectors())
    for run in "abcde":
        await drawn.add("green tea", f"only in {run}", run=run)
    meant = await drawn.search("penguin", limit=4, explain=True)
    assert [(memory.text, memory.run) for memory in meant] == [
        ("only in e", "e"),
        ("only in b", "b"),
        ("green tea", "e"),
        ("green tea", "d"),
    ]
    weighed = await drawn.search("penguin", limit=4, explain=True, importance=1e-9)
    assert [(memory.id, memory.breakdown) for memory in meant] == [
        (memory.id, memory.breakdown) for memory in weighed
    ]
    assert [memory.score for memory in meant] == pytest.approx([memory.score for memory in weighed])
    near = await drawn.search("penguin", threshold=meant[-1].score - 1e-6)
    assert len(near) == 2 + 5, "and not the one that is less near"


async def test_recency_and_importance_count_only_where_they_are_asked_for(somebody: Rememberer) -> None:
    await somebody.add("I like green tea", run="a", occurred_at=datetime.now(UTC) - timedelta(days=300))
    await somebody.add("I like green tea", run="b", occurred_at=datetime.now(UTC))
    await somebody.add(
        "I like green tea", run="c", occurred_at=datetime.now(UTC) - timedelta(days=299), importance=1
    )
    newest = await somebody.search("green tea", recency=1.0)
    weightiest = await somebody.search("green tea", importance=1.0)
    assert (newest[0].run, weightiest[0].run) == ("b", "c")
    plain = await somebody.search("green tea")
    assert len({round(memory.score, 6) for memory in plain}) == 1


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ({"AND": [{"user_id": "ana"}, {"run_id": "a"}]}, {"a"}),
        ({"OR": [{"run_id": "a"}, {"metadata": {"tone": "sour"}}]}, {"a", "b"}),
        ({"NOT": [{"run_id": "a"}]}, {"b", "c"}),
        ({"level": {"gte": 2}}, {"b", "c"}),
        ({"level": {"in": [1, 3]}}, {"a", "c"}),
        ({"tone": {"icontains": "SWE"}}, {"a"}),
        ({"categories": {"contains": "drinks"}}, {"c"}),
        ({"run_id": "*"}, {"a", "b", "c"}),
        ({"tone": {"ne": "sweet"}}, {"b", "c"}),
    ],
)
async def test_filters_choose_among_the_memories(
    somebody: Rememberer, filters: dict[str, object], runs: set[str]
) -> None:
    await somebody.add("tea", run="a", metadata={"level": 1, "tone": "sweet"})
    await somebody.add("tea", run="b", metadata={"level": 2, "tone": "sour"})
    await somebody.add("tea", run="c", metadata={"level": 3}, categories=["drinks"])
    where = Where(Entities(user="ana"), filters=filters)
    assert {memory.run for memory in await somebody.search("tea", where=where)} == runs
    assert {memory.run for memory in await somebody.all(filters=filters)} == runs


@pytest.mark.parametrize(
    "named",
    [
        Entities(user="ana"),
        Entities(agent="helper"),
        Entities(app="shop"),
        Entities(run="first"),
        Entities(user="ana", run="first"),
        Entities(),
    ],
    ids=str,
)
async def test_whoever_is_named_only_their_memories_are_searched(
    somebody: Rememberer, another: Rememberer, named: Entities
) -> None:
    theirs = {"agent": "helper", "app": "shop", "run": "first"}
    await somebody.add("green tea", **theirs)
    await another.add("green tea, a stranger's", **theirs)
    if named != Entities():
        await somebody.add("green tea, of others", user="ben", agent="other", app="other", run="other")
    assert [memory.text for memory in await somebody.search("tea", where=Where(named))] == ["green tea"]


async def test_a_selective_filter_is_no_sieve_behind_the_best(somebody: Rememberer) -> None:
    """The one that passes is found although a thousand that do not are nearer."""
    embedder = DrawnVectors()
    drawn = with_embedder(somebody, embedder)
    await drawn.add(*(f"tea tea number{number}" for number in range(900)), run="many")
    await drawn.add("unlike", run="one", metadata={"rare": True})
    where = Where(Entities(user="ana"), filters={"rare": True})
    assert [memory.text for memory in await drawn.search("question", where=where)] in (["unlike"], [])
    assert [memory.text for memory in await drawn.search("unlike", where=where)] == ["unlike"]


async def test_tenants_do_not_find_each_others_memories(somebody: Rememberer, another: Rememberer) -> None:
    await somebody.add("The code is 1234")
    await another.add("The code is 9999")
    assert [memory.text for memory in await somebody.search("code")] == ["The code is 1234"]
    assert [memory.text for memory in await another.search("code")] == ["The code is 9999"]
    workspace = uuid4()
    with pytest.raises(NotFound):
        await somebody.search("code", where=Where(Entities(user="ana"), workspace=workspace))


@pytest.mark.parametrize("kind", ["user", "agent", "app", "run"])
async def test_what_another_tenant_has_under_the_same_name_changes_no_score(
    somebody: Rememberer, another: Rememberer, kind: str
) -> None:
    named: dict[str, str | None] = {"user": None, kind: "shared"}
    where = Where(Entities(**named))
    await somebody.add("The code is 1234", "The door is green", **named)
    before = [(memory.text, memory.score) for memory in await somebody.search("code", where=where)]
    await another.add(
        *(f"The code of number {number} is long and changes daily" for number in range(20)), **named
    )

    assert [(memory.text, memory.score) for memory in await somebody.search("code", where=where)] == before


async def test_words_of_one_tenant_are_another_numbers_than_of_the_other(
    somebody: Rememberer, another: Rememberer, services: Services
) -> None:
    for each in (somebody, another):
        await each.add("violin")
    stored = []
    for each in (somebody, another):
        async with services.tenancy.acting_as(Caller.user(each.id)) as tx:
            from recollect.engine.store import queries  # noqa: PLC0415

            [memory] = await each.all()
            stored.append((await tx.one(queries.get_memory, {"id": memory.id}))["terms"])
    assert stored[0] != stored[1]


class Failing(DrawnVectors):
    async def embed(self, texts: Sequence[str]) -> Vectors:
        del texts
        raise EmbeddingFailed("The endpoint answered 429.")


async def test_words_find_it_while_the_embedder_fails_and_nothing_is_stored_by_half(
    somebody: Rememberer,
) -> None:
    await somebody.add("The violin is old")
    failing = with_embedder(somebody, Failing())
    assert [memory.text for memory in await failing.search("violin")] == ["The violin is old"]
    with pytest.raises(EmbeddingFailed):
        await failing.add("never stored")
    assert await somebody.texts() == ["The violin is old"]


class Asked(DrawnVectors):
    """Notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return await super().embed(texts)


async def test_nothing_is_embedded_for_a_stranger(somebody: Rememberer) -> None:
    embedder = Asked()
    stranger = replace(with_embedder(somebody, embedder), id=uuid4())
    with pytest.raises(NotSignedIn):
        await stranger.search("tea")
    with pytest.raises(NotSignedIn):
        await stranger.add("I drink tea")
    assert embedder.asked == []


async def test_a_stranger_finds_nothing_by_what_is_remembered_either(somebody: Rememberer) -> None:
    embedder = RememberingEmbedder(Asked())
    drawn = with_embedder(somebody, embedder)
    await drawn.add("I drink tea")
    assert embedder.remembered(["I drink tea"]) is not None
    with pytest.raises(NotSignedIn):
        await replace(drawn, id=uuid4()).search("I drink tea")


async def test_a_search_for_what_is_remembered_finds_the_same_again(somebody: Rememberer) -> None:
    asked = Asked()
    drawn = with_embedder(somebody, RememberingEmbedder(asked))
    await drawn.add("I drink tea", "I drink coffee")
    first = await drawn.search("what do I drink")
    assert await drawn.search("what do I drink") == first
    assert asked.asked == ["I drink tea", "I drink coffee", "what do I drink"]


async def test_vectors_of_another_model_are_never_compared(somebody: Rememberer) -> None:
    one = with_embedder(somebody, DrawnVectors("one", 32))
    other = with_embedder(somebody, DrawnVectors("other", 48))
    await one.add("alpha")
    assert [memory.text for memory in await one.search("question nearest")] in (["alpha"], [])
    [found] = await other.search("alpha", explain=True)
    assert found.breakdown
    assert found.breakdown.meaning is None
    assert found.breakdown.lexical > 0


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("   "),
        Wanted("x" * 10_001),
        Wanted("tea", limit=0),
        Wanted("tea", limit=1_001),
        Wanted("tea", Where(filters={"level": {"about": 3}})),
        Wanted("tea", Where(Entities(user="ana"), filters={"user_id": "ben"})),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(somebody: Rememberer, wanted: Wanted) -> None:
    with pytest.raises(InvalidInput):
        await somebody.do(lambda tx: somebody.services.engine.search(tx, wanted))


async def test_a_search_among_nothing_finds_nothing(somebody: Rememberer) -> None:
    assert await somebody.search("anything") == []


class TestLargeScopes:
    """Beyond a size the indexes are asked; what they bring is the same."""

    @pytest.fixture
    def small_limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("recollect.engine.searching.FEW", 20)
        monkeypatch.setattr("recollect.engine.searching.EXACT", 100)
        monkeypatch.setattr("recollect.engine.upkeep.EXACT", 100)

    async def _fill(self, drawn: Rememberer) -> list[str]:
        texts = [f"memory of item{number % 50} and place{number % 7} number{number}" for number in range(400)]
        for begin in range(0, 400, 100):
            await drawn.add(*texts[begin : begin + 100], run=f"run {begin}")
        return texts

    @pytest.mark.usefixtures("small_limits")
    async def test_the_index_of_words_finds_what_reading_one_by_one_does(
        self, somebody: Rememberer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn = with_embedder(somebody, DrawnVectors(), weighs=0.0)
        await self._fill(drawn)
        by_index = await drawn.search("item7 place3 number57", limit=20)
        monkeypatch.setattr("recollect.engine.searching.FEW", 2_000)
        one_by_one = await with_embedder(drawn, DrawnVectors(), weighs=0.0).search(
            "item7 place3 number57", limit=20
        )
        assert [memory.text for memory in by_index][:5] == [memory.text for memory in one_by_one][:5]
        assert by_index[0].score == pytest.approx(one_by_one[0].score, rel=0.1)

    @pytest.mark.usefixtures("small_limits")
    async def test_scores_are_explained_and_thresholds_hold_there_too(self, somebody: Rememberer) -> None:
        drawn = with_embedder(somebody, DrawnVectors(), weighs=0.0)
        await self._fill(drawn)
        best = (await drawn.search("number57", explain=True))[0]
        assert best.breakdown
        assert best.breakdown.lexical == pytest.approx(best.score)
        assert (await drawn.search("number57"))[0].breakdown is None
        assert await drawn.search("number57", threshold=0.99) == []

    @pytest.mark.usefixtures("small_limits")
    async def test_a_large_tenant_gets_an_index_of_its_own_and_finds_the_nearest(
        self, somebody: Rememberer, services: Services
    ) -> None:
        from recollect.engine.upkeep import Upkeep  # noqa: PLC0415

        embedder = DrawnVectors()
        drawn = with_embedder(somebody, embedder)
        texts = await self._fill(drawn)
        upkeep = Upkeep(services.tenancy, services.database.admin, embedder)
        assert (await upkeep.index(), await upkeep.index()) == (1, 0)
        stored = await embedder.embed(texts)
        for number in range(20):
            [question] = await embedder.embed([f"question {number}"])
            nearest = {texts[place] for place in np.argsort(-(stored @ question))[:10]}
            found = {memory.text for memory in await drawn.search(f"question {number}")}
            assert len(nearest & found) >= 9

        async def index_was_used() -> bool:
            # Counted by the session that searches, and told by it from time to time while it works.
            await drawn.search("question")
            async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
                cursor = await connection.execute(SCANS_OF_INDEX)
                row = await cursor.fetchone()
            return row is not None and row[0] > 0

        await until(index_was_used)
        few = Where(Entities(user="ana"), filters={"run_id": {"in": ["run 0"]}})
        [question] = await embedder.embed(["question"])
        nearest = {texts[:100][place] for place in np.argsort(-(stored[:100] @ question))[:10]}
        assert {memory.text for memory in await drawn.search("question", where=few)} == nearest
