"""Patches as people read them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.profile.patch import PatchFailed, diff
from recollect.profile.readable import Change, changes, readable
from tests.profile.documents import documents, edits, patch_for
from tests.profile.test_patch import add, copied, is_, move, remove, replace

BEFORE = {"summary": "a", "parts": {}, "goals": [1, 2, 3], "a b": {"0": 1}}


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        (replace("/summary", "b"), 'summary: "a" -> "b"'),
        (add("/summary", 1.0), 'summary: "a" -> 1.0'),
        (add("/parts/critic", {"name": "x"}), '+ parts.critic: {"name":"x"}'),
        (remove("/goals/2"), "- goals[2]: 3"),
        (add("/goals/0", 5), "+ goals[0]: 5"),
        (add("/goals/-", 5), "+ goals[3]: 5"),
        (replace("/goals/0", 5), "goals[0]: 1 -> 5"),
        (move("/goals/2", "/goals/0"), "goals[2] => goals[0]"),
        (move("/goals/0", "/goals/-"), "goals[0] => goals[2]"),
        (copied("/goals/0", "/first"), "+ first: 1"),
        (remove("/a b/0"), '- ["a b"]["0"]: 1'),
        (
            replace("", []),
            '(the whole document): {"a b":{"0":1},"goals":[1,2,3],"parts":{},"summary":"a"} -> []',
        ),
    ],
)
def test_a_change_is_a_line(operation: dict[str, Any], line: str) -> None:
    assert readable([operation], BEFORE) == [line]


def test_tests_change_nothing_and_each_line_follows_from_those_before() -> None:
    patch = [is_("/summary", "a"), remove("/goals/0"), replace("/goals/0", 9), add("/goals/0", 8)]

    assert readable(patch, BEFORE) == ["- goals[0]: 1", "goals[0]: 2 -> 9", "+ goals[0]: 8"]


def test_changes_have_their_values_whole() -> None:
    long = "x" * 500

    assert changes([replace("/summary", long), move("/goals/1", "/goals/0")], BEFORE) == [
        Change("changed", "summary", "a", long),
        Change("moved", "goals[0]", origin="goals[1]"),
    ]


def test_a_long_value_is_cut_and_of_long_texts_the_difference_is_seen() -> None:
    same = "the same for a long time " * 10

    (line,) = readable([replace("/summary", same + "new")], {"summary": same + "old"})
    assert line == 'summary: "…ame for a long time old" -> "…ame for a long time new"'
    assert len(readable([add("/n", "x" * 1_000)], {})[0]) < 100


def test_nothing_in_a_line_can_steer_a_terminal() -> None:
    (line,) = readable([add("/\x1b[2J", "\x1b[2J\x9b2J\u202e\n")], {})

    assert line == '+ ["\\u001b[2J"]: "\\u001b[2J\\u009b2J\\u202e\\n"'


def test_a_patch_for_another_document_fails() -> None:
    with pytest.raises(PatchFailed):
        readable([remove("/goals/7")], BEFORE)


@given(edits())
def test_every_change_has_its_line(pair: tuple[Any, Any]) -> None:
    patch = diff(*pair)

    assert len(readable(patch, pair[0])) == len(patch)


@given(documents, st.randoms(use_true_random=False), documents)
def test_every_patch_can_be_read(document: Any, chance: Any, new: Any) -> None:
    patch = patch_for(document, chance, new)

    assert len(readable(patch, document)) == sum(operation["op"] != "test" for operation in patch)
