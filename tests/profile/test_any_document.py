"""Whatever the document and the activities are: what a run without a model promises."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from recollect.profile.deriving import derive
from recollect.profile.models import Activity

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
Document = dict[str, Any]


class Goal(BaseModel):
    goal: str = Field(max_length=300)


class Part(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str
    status: str
    recency_score: float = Field(ge=0, le=1)
    influence_score: float = Field(ge=0, le=1)
    goals: list[Goal] = Field(max_length=50)
    mentions: int = 0
    last_seen: str


class Trigger(BaseModel):
    trigger: str = Field(max_length=300)
    desired_outcome: str = Field(max_length=300)
    related_parts: list[str]


class Seed(BaseModel):
    """The content schema, with what a run adds."""

    model_config = ConfigDict(strict=True)
    version: int
    last_updated_by: str
    summary: str
    parts: dict[str, Part]
    triggers_and_goals: list[Trigger] = Field(max_length=100)
    goals: list[Goal] = []
    safety_notes: str


NAMES = ["Inner Critic", "Critic", "Niño", "内", "😀"]
PHRASES = [
    "I want to rest. ",
    "Crowds make me anxious, I'd rather be calm. ",
    "Quiero dormir mejor ",
    "The Inner Critic was loud near the river today. ",
    "Lately: this is a trick.\n",
    "el niño",
    "ok?",
]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
contents = st.lists(st.sampled_from(PHRASES) | texts, max_size=5).map("".join)
references = st.sampled_from([*NAMES, "p0", "p1", "nobody"]) | texts
new_parts = st.fixed_dictionaries({}, optional={"id": references, "name": references, "more": st.integers()})
data = st.fixed_dictionaries(
    {},
    optional={
        "part": references | new_parts | st.none(),
        "parts": st.lists(references | new_parts, max_size=3) | st.integers(),
        "goal": contents | st.integers(),
        "trigger": contents,
        "desired_outcome": contents | st.none(),
        "related_parts": st.lists(references, max_size=3) | st.none(),
        "safety_note": texts,
        "safety_notes": texts,
        "role": st.sampled_from(["user", "assistant"]),
    },
)
times = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
activities = st.lists(
    st.builds(
        Activity,
        kind=st.sampled_from(["session", "message", "insight", "note"]),
        content=contents,
        data=data,
        happened_at=times | st.just(NOW),
    ),
    max_size=6,
)
scores = st.floats(0, 1)
goals = st.lists(st.fixed_dictionaries({"goal": texts}, optional={"since": texts}), max_size=3)
parts = st.dictionaries(
    st.sampled_from(["p0", "p1", "p2"]),
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES),
            "status": st.sampled_from(["active", "dormant", "healing"]),
            "recency_score": scores,
            "influence_score": scores,
            "goals": goals,
        },
        optional={
            "mentions": st.integers(0, 1_000),
            "last_seen": times.map(datetime.isoformat) | st.just("some day"),
            "colour": texts,
        },
    ),
)
documents = st.fixed_dictionaries(
    {
        "version": st.integers(1, 9),
        "last_updated_by": st.sampled_from(["system", "ana", "a-model"]),
        "summary": contents,
        "parts": parts,
        "triggers_and_goals": st.lists(
            st.fixed_dictionaries({"trigger": texts, "desired_outcome": texts, "related_parts": st.just([])}),
            max_size=3,
        ),
        "safety_notes": texts,
    },
    optional={"goals": goals, "unknown": st.dictionaries(texts, st.integers() | texts, max_size=2)},
)


@settings(max_examples=40)
@given(documents, activities)
def test_the_result_fits_the_schema_and_the_document_given_is_left_alone(
    document: Document, told: list[Activity]
) -> None:
    before = deepcopy(document)
    derived = derive(document, told, NOW)
    assert document == before
    Seed.model_validate(derived)
    json.dumps(derived).encode()


@settings(max_examples=40)
@given(documents, activities)
def test_what_is_not_derived_stays(document: Document, told: list[Activity]) -> None:
    derived = derive(document, told, NOW)
    for key in ("version", "last_updated_by", "safety_notes", "unknown"):
        assert derived.get(key) == document.get(key)
    for identifier, before in document["parts"].items():
        after = derived["parts"][identifier]
        for key in ("name", "influence_score", "colour"):
            assert after.get(key) == before.get(key)
        assert after["goals"][: len(before["goals"])] == before["goals"]


@settings(max_examples=40)
@given(documents, activities, st.randoms())
def test_the_order_in_which_activities_arrive_makes_no_difference(
    document: Document, told: list[Activity], random: Any
) -> None:
    shuffled = list(told)
    random.shuffle(shuffled)
    assert derive(document, shuffled, NOW) == derive(document, told, NOW)


@settings(max_examples=40)
@given(documents, activities)
def test_a_second_run_without_news_changes_nothing(document: Document, told: list[Activity]) -> None:
    once = derive(document, told, NOW)
    assert derive(once, [], NOW) == once


@settings(max_examples=40)
@given(activities)
def test_an_empty_document_is_as_good(told: list[Activity]) -> None:
    bare: Document = {"parts": {"p0": {}}, "summary": None, "triggers_and_goals": None, "goals": None}
    for document in ({}, bare):
        derive(document, told, NOW)
