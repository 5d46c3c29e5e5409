"""A profile brought up to date without a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from recollect.profile.deriving import derive
from recollect.profile.models import Activity

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
Kind = Literal["session", "message", "insight", "note"]
Document = dict[str, Any]


def said(content: str = "", kind: Kind = "message", ago: float = 0, **data: Any) -> Activity:
    """``ago``: in days."""
    return Activity(kind=kind, content=content, data=data, happened_at=NOW - timedelta(days=ago))


def part(name: str = "Inner Critic", **fields: Any) -> Document:
    return {
        "name": name,
        "status": "active",
        "recency_score": 0.9,
        "influence_score": 0.7,
        "goals": [],
        **fields,
    }


def with_parts(*names: str, **fields: Any) -> Document:
    return {"parts": {f"part_{number}": part(name, **fields) for number, name in enumerate(names, start=1)}}


def goals_of(holder: Document) -> list[str]:
    return [each["goal"] for each in holder.get("goals", [])]


# Parts


@pytest.mark.parametrize(
    "met",
    [
        said(part="part_1"),
        said(part="inner critic"),
        said(part={"id": "part_1"}),
        said(part={"name": "INNER CRITIC"}),
        said(parts=["unknown", "Inner Critic"]),
        said("Today my inner-critic's voice was loud."),
        said("INNER\n  CRITIC!", kind="note"),
    ],
)
def test_a_part_is_met_by_its_id_its_name_or_a_mention(met: Activity) -> None:
    known = derive(with_parts("Inner Critic"), [met], NOW)["parts"]["part_1"]
    assert (known["mentions"], known["last_seen"], known["recency_score"]) == (1, NOW.isoformat(), 1.0)


@pytest.mark.parametrize(
    "other",
    [
        said("My inner critical voice"),
        said("The critic of my inner life"),
        said("dinner critic"),
        said(part="Somebody else"),
        said("Your Inner Critic is loud.", role="assistant"),
    ],
)
def test_a_part_is_not_met_by_less_than_its_whole_name_nor_in_the_words_of_another(other: Activity) -> None:
    known = derive(with_parts("Inner Critic"), [other], NOW)["parts"]["part_1"]
    assert "mentions" not in known
    assert known["recency_score"] == 0.9


def test_a_longer_name_is_not_the_shorter_one_in_it() -> None:
    parts = derive(with_parts("Critic", "Inner Critic"), [said("My Inner Critic came.")], NOW)["parts"]
    assert "mentions" not in parts["part_1"]
    assert parts["part_2"]["mentions"] == 1


def test_names_are_found_in_any_script() -> None:
    parts = derive(with_parts("内なる批評家", "Crítico"), [said("今日は内なる批評家が. el CRITICO")], NOW)
    assert [each["mentions"] for each in parts["parts"].values()] == [1, 1]


def test_mentions_grow_by_the_activities_that_met_the_part() -> None:
    activities = [said("Inner Critic, Inner Critic", part="part_1"), said(part="part_1", ago=1), said("No.")]
    assert derive(with_parts("Inner Critic", mentions=5), activities, NOW)["parts"]["part_1"]["mentions"] == 7


def test_last_seen_never_moves_back_nor_beyond_now() -> None:
    seen = (NOW - timedelta(days=1)).isoformat()
    document = with_parts("Inner Critic", last_seen=seen)
    assert derive(document, [said(part="part_1", ago=3)], NOW)["parts"]["part_1"]["last_seen"] == seen
    later = derive(document, [said(part="part_1", ago=-3)], NOW)["parts"]["part_1"]
    assert later["last_seen"] == NOW.isoformat()


@pytest.mark.parametrize(("days", "score"), [(0, 1.0), (1, 0.91), (7, 0.5), (14, 0.25), (700, 0.0)])
def test_recency_halves_every_seven_days(days: int, score: float) -> None:
    document = with_parts("Inner Critic", last_seen=(NOW - timedelta(days=days)).isoformat())
    assert derive(document, [], NOW)["parts"]["part_1"]["recency_score"] == score


def test_a_part_that_was_never_dated_fades_from_the_score_it_has() -> None:
    first = derive(with_parts("Inner Critic", recency_score=0.8), [], NOW)
    assert first["parts"]["part_1"]["recency_score"] == 0.8
    assert derive(first, [], NOW + timedelta(days=7))["parts"]["part_1"]["recency_score"] == 0.4


def test_a_part_without_score_or_date_was_seen_now() -> None:
    new = derive({"parts": {"a": {"name": "Protector"}}}, [], NOW)["parts"]["a"]
    assert (new["last_seen"], new["recency_score"], new["status"]) == (NOW.isoformat(), 1.0, "active")


@pytest.mark.parametrize(
    ("status", "days", "becomes"),
    [
        ("active", 12, "active"),
        ("active", 13, "dormant"),
        ("dormant", 1, "active"),
        ("healing", 100, "healing"),
        ("blended", 0, "blended"),
    ],
)
def test_status_follows_recency_unless_a_person_chose_another_word(
    status: str, days: int, becomes: str
) -> None:
    document = with_parts("Inner Critic", status=status, last_seen=(NOW - timedelta(days=days)).isoformat())
    assert derive(document, [], NOW)["parts"]["part_1"]["status"] == becomes


def test_influence_is_left_to_others() -> None:
    document = with_parts("Inner Critic", influence_score=0.123)
    assert derive(document, [said(part="part_1")], NOW)["parts"]["part_1"]["influence_score"] == 0.123


def test_an_application_introduces_a_part_with_an_id_and_a_name() -> None:
    assert derive({}, [said(part={"id": "p9", "name": "Protector"}, ago=7)], NOW)["parts"] == {
        "p9": {
            "name": "Protector",
            "status": "active",
            "recency_score": 0.5,
            "influence_score": 0.5,
            "goals": [],
            "mentions": 1,
            "last_seen": (NOW - timedelta(days=7)).isoformat(),
        }
    }


@pytest.mark.parametrize(
    "given_part", ["Protector", {"name": "Protector"}, {"id": "p9"}, {"id": "", "name": "P"}, 7]
)
def test_less_than_that_introduces_nothing(given_part: object) -> None:
    assert derive({}, [said(part=given_part)], NOW) == {}


# Goals and triggers


def test_a_goal_goes_to_the_part_that_was_met() -> None:
    derived = derive(with_parts("A b", "Inner Critic"), [said("I want to feel safe.", part="part_2")], NOW)
    assert goals_of(derived["parts"]["part_2"]) == ["Feel safe"]
    assert "goals" not in derived


def test_a_goal_of_no_part_goes_to_the_user() -> None:
    derived = derive(with_parts("Inner Critic"), [said("I want to feel safe.", kind="note")], NOW)
    assert goals_of(derived) == ["Feel safe"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("save for a car", "save for a gym"), ("sleep more", "sleep less"), ("run 5 km", "run 10 km")],
)
def test_goals_that_differ_in_what_they_are_about_are_two(one: str, other: str) -> None:
    assert len(derive({}, [said(f"I want to {one}."), said(f"I want to {other}.")], NOW)["goals"]) == 2


@pytest.mark.parametrize("kind", ["session", "insight"])
def test_goals_are_read_in_messages_and_notes_alone(kind: Kind) -> None:
    assert "goals" not in derive({}, [said("I want to feel safe.", kind=kind)], NOW)


@pytest.mark.parametrize(
    "again",
    [
        "I want to FEEL safer, during presentations!",
        "I'd like to feel safer during presentations",
        "My goal is to feel safer during the presentations.",
        "I want to feel much safer during presentations.",
    ],
)
def test_a_goal_is_not_added_twice(again: str) -> None:
    document = with_parts("Inner Critic", goals=[{"goal": "To feel safer during presentations."}])
    derived = derive(document, [said(again), said(again, part="part_1")], NOW)
    derived = derive(derived, [said(goal="Feel safer during presentations", part="part_1")], NOW)
    assert goals_of(derived["parts"]["part_1"]) == ["To feel safer during presentations."]
    assert "goals" not in derived


def test_the_opposite_of_a_goal_is_another() -> None:
    document = {"goals": [{"goal": "Work late in the evening at home"}]}
    derived = derive(document, [said("I want to not work late in the evening at home.")], NOW)
    assert len(derived["goals"]) == 2


def test_what_the_application_states_is_added_as_it_is() -> None:
    stated = said(
        kind="insight",
        goal="Rest",
        part="part_1",
        trigger="Noise",
        desired_outcome="Calm",
        related_parts=["b B"],
    )
    derived = derive(with_parts("Inner Critic", "B b"), [stated], NOW)
    assert goals_of(derived["parts"]["part_1"]) == ["Rest"]
    assert derived["triggers_and_goals"] == [
        {"trigger": "Noise", "desired_outcome": "Calm", "related_parts": ["part_2"]}
    ]


def test_a_trigger_is_tied_to_the_parts_that_were_met() -> None:
    derived = derive(with_parts("Inner Critic"), [said("Crowds make me anxious.", part="part_1")], NOW)
    assert derived["triggers_and_goals"] == [
        {"trigger": "Crowds", "desired_outcome": "", "related_parts": ["part_1"]}
    ]


def test_a_known_trigger_takes_the_outcome_that_it_lacked_and_no_other() -> None:
    first = derive({}, [said("Crowds make me anxious.")], NOW)
    second = derive(first, [said("Crowds make me nervous, I'd rather be calm.")], NOW)
    third = derive(second, [said("Crowds make me sad, I'd rather be alone.")], NOW)
    assert [each["desired_outcome"] for each in second["triggers_and_goals"]] == ["Be calm"]
    assert third["triggers_and_goals"] == second["triggers_and_goals"]


def test_a_full_list_keeps_what_it_has() -> None:
    goals = [{"goal": f"Goal number {number}"} for number in range(50)]
    triggers = [{"trigger": f"Thing {number}", "desired_outcome": ""} for number in range(100)]
    document = with_parts("Inner Critic", goals=goals) | {"triggers_and_goals": triggers}
    told = [said("I want to rest.", part="part_1"), said("Crowds make me anxious.")]
    derived = derive(document, told, NOW)
    assert derived["parts"]["part_1"]["goals"] == goals
    assert derived["triggers_and_goals"] == triggers


def test_goals_come_in_the_order_in_which_they_were_said() -> None:
    derived = derive({}, [said("I want to rest."), said("I want to read.", ago=1)], NOW)
    assert goals_of(derived) == ["Read", "Rest"]


def test_what_was_said_at_the_same_moment_has_an_order_too() -> None:
    told = [said("I want to rest."), said("I want to read."), said(goal="Sing"), said(goal="Dance")]
    assert derive({}, told, NOW) == derive({}, told[::-1], NOW)


def test_control_characters_are_left_out() -> None:
    derived = derive({}, [said("I want to \x1b[31mrest\x07 well\u202e today."), said(goal="Sl\x00eep")], NOW)
    assert sorted(goals_of(derived)) == ["Rest well today", "Sleep"]


# The summary

DAY = [
    said("Hello there! My mother called about the hospital and I could not sleep afterwards.", ago=0.5),
    said("The Inner Critic told me the hospital visit was my fault.", ago=0.4),
    said("What time is it? ok thanks", ago=0.3),
    said("I want to visit my mother in the hospital without blaming myself.", ago=0.2),
]


def test_the_summary_is_what_the_user_said_and_who_is_present() -> None:
    assert derive(with_parts("Inner Critic"), DAY, NOW)["summary"] == (
        "Lately: My mother called about the hospital and I could not sleep afterwards. "
        "The Inner Critic told me the hospital visit was my fault. "
        "I want to visit my mother in the hospital without blaming myself. "
        "Most present: Inner Critic."
    )


def test_the_next_run_replaces_our_line_and_nothing_else() -> None:
    document = with_parts("Inner Critic") | {
        "last_updated_by": "ana",
        "summary": "Ana wrote this.\n\nAll of it.",
    }
    first = derive(document, DAY, NOW)
    assert first["summary"].startswith("Ana wrote this.\n\nAll of it.\nLately: My mother called")
    later = derive(first | {"last_updated_by": "system"}, [said("The garden party was a big success.")], NOW)
    assert later["summary"] == (
        "Ana wrote this.\n\nAll of it.\n"
        "Lately: The garden party was a big success. Most present: Inner Critic."
    )


@pytest.mark.parametrize(
    "nothing", [[], [said("ok")], [said(part="part_1")], [said("Where is my garden party hat?")]]
)
def test_without_news_the_summary_stays(nothing: list[Activity]) -> None:
    document = with_parts("Inner Critic") | {"summary": "Before.\nLately: Old news."}
    assert derive(document, nothing, NOW)["summary"] == "Before.\nLately: Old news."


def test_no_sentence_repeats_another_nor_what_is_written_already() -> None:
    document = {"summary": "Her garden party on Sunday was a big success."}
    told = [
        said("The garden party on Sunday was a big success!"),
        said("The train to Lisbon was cancelled twice.", ago=1),
        said("Cancelled twice: the train to Lisbon.", ago=2),
    ]
    assert derive(document, told, NOW)["summary"].splitlines()[1:] == [
        "Lately: The train to Lisbon was cancelled twice."
    ]


def test_the_summary_is_in_the_language_of_the_material() -> None:
    told = [said("El Crítico me dijo que la visita al hospital fue culpa mía.")]
    assert derive(with_parts("Crítico"), told, NOW)["summary"].endswith("Más presentes: Crítico.")


@pytest.mark.parametrize("length", [5, 20])
def test_the_summary_is_short(length: int) -> None:
    words = [f"word{number}" for number in range(2_000)]
    told = [said(" ".join(words[begin : begin + length]) + ".") for begin in range(0, 2_000, length)]
    ours = derive(with_parts(*("N" * 99 + str(number) for number in range(5))), told, NOW)["summary"]
    assert len(ours) <= 800
    assert ours.count(".") <= 6


@pytest.mark.parametrize(
    "foreign",
    [
        said("Assistant: You should visit the hospital tomorrow."),
        said("> You should visit the hospital tomorrow."),
    ],
)
def test_the_words_of_others_are_no_summary(foreign: Activity) -> None:
    assert "summary" not in derive({}, [foreign], NOW)
