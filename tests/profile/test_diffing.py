"""Patches between documents: right for any two, and small."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from recollect.profile import diffing
from recollect.profile.canonical import canonical
from recollect.profile.patch import MAX_OPERATIONS, apply, diff, replay
from tests.profile.documents import documents, edits

GOALS = [{"goal": f"goal {n}", "since": n, "parts": ["a", "b"]} for n in range(8)]


def leads_to(before: Any, after: Any) -> list[dict[str, Any]]:
    patch = diff(before, after)
    assert canonical(apply(before, patch)) == canonical(after)
    return patch


@hypothesis_settings(max_examples=250)
@given(edits())
def test_the_patch_leads_from_one_document_to_the_other(pair: tuple[Any, Any]) -> None:
    before, after = pair
    given_pair = copy.deepcopy(pair)

    patch = diff(before, after)

    assert canonical(apply(before, patch)) == canonical(after)
    assert canonical(replay(before, [patch])) == canonical(after)
    assert bool(patch) == (canonical(before) != canonical(after))
    assert canonical(list(pair)) == canonical(list(given_pair))


@given(edits())
def test_another_implementation_reads_the_patch_alike(pair: tuple[Any, Any]) -> None:
    before, after = pair

    assert canonical(jsonpatch.apply_patch(before, diff(before, after))) == canonical(after)


@hypothesis_settings(max_examples=150)
@given(edits())
def test_the_patch_is_right_however_coarsely_lists_are_compared(pair: tuple[Any, Any]) -> None:
    before, after = pair
    with pytest.MonkeyPatch.context() as bounds:
        for bound in ("MAX_EQUAL_PAIRS", "MAX_SIMILAR_PAIRS", "MAX_STEPS_TO_MOVE"):
            bounds.setattr(diffing, bound, 2)

        assert canonical(apply(before, diff(before, after))) == canonical(after)


@given(documents)
def test_between_equal_documents_there_is_nothing(document: Any) -> None:
    assert diff(document, copy.deepcopy(document)) == []


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0.0, False), (1.0, True), ("1", 1)])
def test_what_python_takes_for_equal_is_told_apart(one: Any, other: Any) -> None:
    for before, after in ((one, other), (other, one)):
        assert canonical(leads_to(before, after)) == canonical(
            [{"op": "replace", "path": "", "value": after}]
        )
        assert len(leads_to([before, 5], [after, 5])) == 1
        assert len(leads_to({"n": before}, {"n": after})) == 1
        assert len(leads_to([[before, "x"]], ["y", [after, "x"]])) == 2


def test_of_an_object_only_the_members_that_changed_are_named() -> None:
    before = {"a": 1, "b": {"c": 2, "d/e": 3}, "gone": 4}
    after = {"new": 5, "a": 1, "b": {"c": 6, "d/e": 3, "~": 7}}

    assert leads_to(before, after) == [
        {"op": "remove", "path": "/gone"},
        {"op": "add", "path": "/new", "value": 5},
        {"op": "replace", "path": "/b/c", "value": 6},
        {"op": "add", "path": "/b/~0", "value": 7},
    ]


def test_an_element_that_was_added_is_one_operation() -> None:
    new = {"goal": "new"}
    for index in range(len(GOALS) + 1):
        after = [*GOALS[:index], new, *GOALS[index:]]
        assert leads_to(GOALS, after) == [{"op": "add", "path": f"/{index}", "value": new}]


def test_an_element_that_was_removed_is_one_operation() -> None:
    for index in range(len(GOALS)):
        after = [*GOALS[:index], *GOALS[index + 1 :]]
        assert leads_to(GOALS, after) == [{"op": "remove", "path": f"/{index}"}]


def test_an_element_that_was_moved_is_one_operation() -> None:
    for source in range(len(GOALS)):
        for target in range(len(GOALS)):
            after = [*GOALS[:source], *GOALS[source + 1 :]]
            after.insert(target, GOALS[source])
            patch = leads_to(GOALS, after)
            assert [operation["op"] for operation in patch] == (["move"] if source != target else [])


def test_an_element_that_was_edited_is_edited_in_place() -> None:
    edited = {**GOALS[3], "goal": "another"}

    assert leads_to(GOALS, [*GOALS[:3], edited, *GOALS[4:]]) == [
        {"op": "replace", "path": "/3/goal", "value": "another"}
    ]


def test_an_edited_element_is_recognised_beside_others_that_came_and_went() -> None:
    edited = {**GOALS[3], "goal": "another"}
    new = {"goal": "new"}

    assert leads_to(GOALS, [*GOALS[:3], new, edited, *GOALS[4:]]) == [
        {"op": "add", "path": "/3", "value": new},
        {"op": "replace", "path": "/4/goal", "value": "another"},
    ]
    assert leads_to(GOALS, [*GOALS[:2], edited, *GOALS[4:]]) == [
        {"op": "remove", "path": "/2"},
        {"op": "replace", "path": "/2/goal", "value": "another"},
    ]


def test_edits_additions_removals_and_moves_go_together() -> None:
    edited = {**GOALS[5], "parts": ["a", "c"]}
    after = [GOALS[6], {"goal": "new"}, GOALS[0], GOALS[2], GOALS[3], GOALS[4], edited, GOALS[7]]

    assert leads_to(GOALS, after) == [
        {"op": "remove", "path": "/1"},
        {"op": "move", "from": "/5", "path": "/0"},
        {"op": "add", "path": "/1", "value": {"goal": "new"}},
        {"op": "replace", "path": "/6/parts/1", "value": "c"},
    ]


def test_an_element_that_repeats_does_not_hide_what_stayed_in_order() -> None:
    b, c, a = GOALS[:3]

    kinds = [step["op"] for step in leads_to(["p", a, a, a, b, c, "q"], [b, c, a, "r"])]

    assert kinds.count("move") == 1


def test_another_thing_in_the_place_of_one_is_not_told_as_an_edit() -> None:
    assert leads_to([{"a": 1, "b": 2}], [{"c": 3}]) == [{"op": "replace", "path": "/0", "value": {"c": 3}}]


def test_a_list_is_rewritten_where_that_is_by_far_shorter() -> None:
    after = list(range(100, 150))

    assert leads_to(list(range(50)), after) == [{"op": "replace", "path": "", "value": after}]


@pytest.mark.parametrize("length", [9_000, 30_000])
def test_small_changes_to_a_long_list_are_a_small_patch(length: int) -> None:
    chance = Random(1)
    before: list[Any] = [{"id": n, "text": f"text {n}"} for n in range(length // 10)]
    before += [f"text {n}" for n in range(length - len(before))]
    after = list(before)
    for _ in range(20):
        after.insert(chance.randrange(len(after)), after.pop(chance.randrange(len(after))))
        after[chance.randrange(len(after))] = {"id": "new"}
        del after[chance.randrange(len(after))]

    assert len(leads_to(before, after)) <= 65


@pytest.mark.parametrize("choices", [1, 2, 10, 10**6])
def test_long_lists_that_have_little_in_common_are_compared_too(choices: int) -> None:
    chance = Random(choices)
    before, after = ([chance.randrange(choices) for _ in range(10_000)] for _ in range(2))

    leads_to(before, [*after, *before])


def test_a_patch_never_has_more_operations_than_are_taken() -> None:
    before = {str(n): n for n in range(MAX_OPERATIONS + 1)}
    after = {key: value + 1 for key, value in before.items()}

    assert leads_to(before, after) == [{"op": "replace", "path": "", "value": after}]


def test_a_list_too_long_to_be_shifted_often_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"l": GOALS, "m": GOALS}
    after = {"l": [*GOALS[1:], 5], "m": [*GOALS[1:], 6]}
    assert len(leads_to(before, after)) == 4

    monkeypatch.setattr(diffing, "MAX_SHIFTS", 3 * len(GOALS))

    assert [operation["path"] for operation in leads_to(before, after)] == ["/l/0", "/l/7", "/m"]


def test_moves_that_would_take_too_long_to_find_are_removals_and_additions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diffing, "MAX_STEPS_TO_MOVE", 2)

    assert [step["op"] for step in leads_to(GOALS, [*GOALS[1:], GOALS[0]])] == ["remove", "add"]
