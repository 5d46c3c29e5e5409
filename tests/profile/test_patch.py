"""Applying JSON patches: as RFC 6902 says, bounded, and without changing what was given."""

from __future__ import annotations

import copy
import tracemalloc
from random import Random
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.kit.text import InvalidJson, UnstorableText
from recollect.profile.canonical import MAX_BYTES, canonical
from recollect.profile.patch import (
    MAX_OPERATIONS,
    DocumentTooLarge,
    Draft,
    InvalidPatch,
    PatchFailed,
    apply,
    from_merge_patch,
    operations,
    replay,
)
from tests.profile.documents import documents, edits, patch_for


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def is_(path: str, value: Any) -> dict[str, Any]:
    return {"op": "test", "path": path, "value": value}


def move(source: str, path: str) -> dict[str, Any]:
    return {"op": "move", "from": source, "path": path}


def copied(source: str, path: str) -> dict[str, Any]:
    return {"op": "copy", "from": source, "path": path}


ODD_KEYS = {
    "": 0,
    "/": 1,
    "~": 2,
    "~1": 3,
    "m~n": 4,
    "a/b": 5,
    " ": 6,
    'k"l': 7,
    "i\\j": 8,
    "c%d": 9,
    "é": 10,
}


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        # Nothing, and the whole document.
        ({"n": 1}, [], {"n": 1}),
        ({"n": 1}, [add("", [])], []),
        ([], [replace("", {"n": 1})], {"n": 1}),
        ("text", [replace("", 5)], 5),
        ({"n": 1}, [is_("", {"n": 1})], {"n": 1}),
        ({"n": 1}, [move("", "")], {"n": 1}),
        ({"n": 1}, [copied("", "/m")], {"n": 1, "m": {"n": 1}}),
        # Members of objects.
        ({}, [add("/n", None)], {"n": None}),
        ({"n": None}, [add("/n", 1)], {"n": 1}),
        ({}, [add("/", 1)], {"": 1}),
        ({"o": {}}, [add("/o/", 1)], {"o": {"": 1}}),
        ({"o": {"p": 1}}, [add("/o/q", {"r": {}})], {"o": {"p": 1, "q": {"r": {}}}}),
        ({}, [add("/0", "x"), add("/-", "y"), add("/01", "z")], {"0": "x", "-": "y", "01": "z"}),
        ({"n": 1, "m": [1, 2]}, [remove("/m")], {"n": 1}),
        ({"n": None}, [remove("/n")], {}),
        ({"n": 1}, [add("/N", 2)], {"n": 1, "N": 2}),
        ({"n": "x"}, [replace("/n", None)], {"n": None}),
        # Elements of lists.
        ([], [add("/0", "x")], ["x"]),
        ([], [add("/-", "x")], ["x"]),
        (["x", "y"], [add("/1", ["z"])], ["x", ["z"], "y"]),
        (["x", "y"], [add("/2", "z")], ["x", "y", "z"]),
        ([1, [2, [3]]], [add("/1/1/-", 4)], [1, [2, [3, 4]]]),
        ([1, 2, 3, 4], [remove("/1"), remove("/2")], [1, 3]),
        (["x"], [replace("/0", ["y", "z"])], [["y", "z"]]),
        ({"l": [{"n": 1}]}, [remove("/l/0/n"), add("/l/0/m", 2)], {"l": [{"m": 2}]}),
        # Moves and copies.
        ({"n": 1}, [move("/n", "/n")], {"n": 1}),
        ({"n": None}, [move("/n", "/m")], {"m": None}),
        ({"n": None}, [copied("/n", "/m")], {"n": None, "m": None}),
        ({"o": {"n": 1}, "p": {}}, [move("/o/n", "/p/m")], {"o": {}, "p": {"m": 1}}),
        ({"l": [{"n": 1}]}, [move("/l/0/n", "/l/1")], {"l": [{}, 1]}),
        ([1, 2, 3, 4], [move("/1", "/3")], [1, 3, 4, 2]),
        ([1, 2, 3, 4], [move("/3", "/0")], [4, 1, 2, 3]),
        ([1, 2], [move("/0", "/-")], [2, 1]),
        ([[1], 2], [move("/0/0", "/0")], [1, [], 2]),
        ({"o": [1]}, [copied("/o", "/p"), add("/p/-", 2)], {"o": [1], "p": [1, 2]}),
        ({"o": [1]}, [copied("/o", "/p"), add("/o/-", 2)], {"o": [1, 2], "p": [1]}),
        ({"o": [1]}, [add("/o/-", 2), copied("/o", "/p"), add("/o/-", 3)], {"o": [1, 2, 3], "p": [1, 2]}),
        ({"ab": 1, "a": 2}, [move("/a", "/abc")], {"ab": 1, "abc": 2}),
        # Tests.
        ({"o": {"a": 1, "b": [2]}}, [is_("/o", {"b": [2], "a": 1})], {"o": {"a": 1, "b": [2]}}),
        ({"n": None}, [is_("/n", None)], {"n": None}),
        ({"n": 1.0}, [is_("/n", 1)], {"n": 1.0}),
        ({"1e0": "x"}, [is_("/1e0", "x")], {"1e0": "x"}),
        (
            ODD_KEYS,
            [
                *(
                    is_("/", 0),
                    is_("/~1", 1),
                    is_("/~0", 2),
                    is_("/~01", 3),
                    is_("/m~0n", 4),
                    is_("/a~1b", 5),
                ),
                *(is_("/ ", 6), is_('/k"l', 7), is_("/i\\j", 8), is_("/c%d", 9), is_("/é", 10)),
            ],
            ODD_KEYS,
        ),
        # What an operation does not know is passed over.
        ({"n": 1}, [{**is_("/n", 1), "value_": 2, "from": 5}], {"n": 1}),
    ],
)
def test_operations_do_what_the_rfc_says(before: Any, patch: list[Any], after: Any) -> None:
    assert canonical(apply(before, patch)) == canonical(after)
    assert canonical(replay(before, [patch])) == canonical(after)


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        ({"n": 1}, [is_("/n", 2)]),
        ({"n": 1}, [is_("/n", True)]),
        ({"n": True}, [is_("/n", 1)]),
        ({"n": 0}, [is_("/n", False)]),
        ({"n": 10}, [is_("/n", "10")]),
        ({"n": 1}, [is_("/m", None)]),
        ({"l": [1, 2]}, [is_("/l", [1])]),
        (["x", "y"], [is_("/00", "x")]),
        (["x", "y"], [is_("/01", "y")]),
        (["x", "y"], [is_("/1e0", "y")]),
        (["x", "y"], [is_("/-", "y")]),
        (["x", "y"], [is_("/\u0661", "y")]),
        ({"t": "xyz"}, [is_("/t/0", "x")]),
        ({"n": 1}, [remove("/m")]),
        ({"n": 1}, [remove("/m/o")]),
        ([1, 2], [remove("/2")]),
        ([1, 2], [remove("/-")]),
        ([1, 2], [remove("/-1")]),
        ([1, 2], [remove("/99999999999999999999")]),
        ({"n": 1}, [replace("/m", 1)]),
        ({"n": 1}, [replace("/m/o", 1)]),
        ([1], [replace("/-", 2)]),
        ([1], [replace("/1", 2)]),
        ([1], [replace("/1e0", 2)]),
        ({"n": 1}, [add("/m/o", 1)]),
        ({"n": 1}, [add("/n/o", 1)]),
        ([1, 2], [add("/3", 1)]),
        ([1, 2], [add("/-1", 1)]),
        ([1, 2], [add("/n", 1)]),
        ([1, 2], [add("/1e0", 1)]),
        ({"n": 1}, [move("/m", "/n")]),
        ({"n": 1}, [move("/m", "/m")]),
        ({"l": [1]}, [move("/l/1e0", "/n")]),
        ([1, 2], [move("/0", "/2")]),
        ({"n": 1}, [copied("/m", "/n")]),
        ({"l": [1]}, [copied("/l/-", "/n")]),
    ],
)
def test_a_patch_that_does_not_fit_the_document_fails(before: Any, patch: list[Any]) -> None:
    with pytest.raises(PatchFailed) as failure:
        apply(before, [is_("", before), *patch])

    assert failure.value.status == 409
    assert failure.value.code == "patch_failed"
    assert failure.value.extra == {"operation": 1, "path": patch[0]["path"]}
    assert f'Operation 1 ({patch[0]["op"]} "{patch[0]["path"]}")' in failure.value.detail


@pytest.mark.parametrize(
    "patch",
    [
        None,
        {},
        "text",
        ["text"],
        [None],
        [{}],
        [{"path": "/n", "value": 1}],
        [{"op": "spam", "path": "/n", "value": 1}],
        [{"op": ["add"], "path": "/n", "value": 1}],
        [{"op": "add", "value": 1}],
        [{"op": "add", "path": None, "value": 1}],
        [{"op": "add", "path": ["n"], "value": 1}],
        [{"op": "add", "path": "/n"}],
        [{"op": "replace", "path": "/n"}],
        [{"op": "test", "path": "/n"}],
        [{"op": "copy", "path": "/n"}],
        [{"op": "move", "path": "/n"}],
        [{"op": "move", "path": "/n", "from": 1}],
        [add("n", 1)],
        [add("/~", 1)],
        [add("/~2", 1)],
        [copied("n", "/m")],
        [remove("")],
        [move("/n", "/n/m")],
        [move("", "/m")],
        [add("/n" * 65, 1)],
    ],
)
def test_what_is_no_patch_is_refused_before_anything_is_done(patch: Any) -> None:
    broken = [is_("/missing", 1), *patch] if isinstance(patch, list) else patch

    with pytest.raises(InvalidPatch) as refusal:
        apply({"n": {}}, broken)

    assert refusal.value.status == 422


@pytest.mark.parametrize("value", ["\x00", "\ud800", {"\x00": 1}])
def test_text_that_cannot_be_stored_is_refused_in_values_and_in_pointers(value: Any) -> None:
    with pytest.raises(UnstorableText):
        apply({}, [add("/n", value)])
    with pytest.raises(UnstorableText):
        apply({}, [add("/\x00", 1)])


@pytest.mark.parametrize("value", [2**63, float("nan"), float("inf"), {1: 2}, {1, 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidJson):
        apply({}, [add("/n", value)])


@given(documents, st.randoms(use_true_random=False), documents)
def test_neither_document_nor_patch_is_changed_nor_is_an_earlier_result(
    document: Any, chance: Random, new: Any
) -> None:
    patch = patch_for(document, chance, new)
    given_document, given_patch = copy.deepcopy((document, patch))

    result = apply(document, patch)
    text = canonical(result)
    apply(result, patch_for(result, chance, new))

    assert canonical([document, patch]) == canonical([given_document, given_patch])
    assert canonical(result) == text


@given(documents, st.randoms(use_true_random=False), documents)
def test_another_implementation_comes_to_the_same_result(document: Any, chance: Random, new: Any) -> None:
    patch = patch_for(document, chance, new)

    assert canonical(apply(document, patch)) == canonical(jsonpatch.apply_patch(document, patch))


@given(documents, st.randoms(use_true_random=False), documents)
def test_the_size_is_known_at_every_step(document: Any, chance: Random, new: Any) -> None:
    draft = Draft(document, watched=True)

    for operation in operations(patch_for(document, chance, new)):
        draft.perform(operation)
        assert draft.size == len(canonical(draft.document))


def test_what_is_moved_to_be_the_whole_document_is_all_that_is_weighed() -> None:
    draft = Draft({"a": {"b": [1, None]}, "c": "gone"}, watched=True)

    draft.perform(operations([{"op": "move", "from": "/a/b", "path": ""}])[0])

    assert (draft.document, draft.size) == ([1, None], len("[1,null]"))


def test_too_many_operations_are_refused_unread() -> None:
    with pytest.raises(InvalidPatch, match="at most 10000 operations, not 100000"):
        apply({}, [None] * 100_000)
    assert apply(0, [replace("", 1)] * MAX_OPERATIONS) == 1


@pytest.mark.parametrize(
    "bomb",
    [
        [copied("", f"/{n}") for n in range(64)],
        [copied("", "/all")] * 64,
        [copied("/l", "/l/-")] * 64,
        [copied("/l", "/m"), copied("/m", "/l/-")] * 32,
    ],
)
def test_a_bomb_of_copies_stops_early_and_takes_little_memory(bomb: list[Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((DocumentTooLarge, InvalidPatch)) as refusal:
            apply({"l": ["x" * 50_000]}, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert refusal.value.status == 422
    assert peak < 10 * MAX_BYTES


@pytest.mark.parametrize(
    "patch",
    [
        [copied("/l", "/m")] * 5_000,
        [copied("/l/0", "/m"), replace("/l/0", 2)] * 5_000,
        [add("/l/0", 2), remove("/l/0")] * 5_000,
        [move("/l", "/m"), move("/m", "/l")] * 5_000,
    ],
)
def test_a_patch_that_is_small_but_costly_is_refused(patch: list[Any]) -> None:
    with pytest.raises(InvalidPatch, match="copies or moves too much"):
        apply({"l": [1] * 200_000}, patch)


def test_a_document_may_be_as_large_as_the_limit_and_a_larger_one_may_shrink() -> None:
    fits = "x" * (MAX_BYTES - 2)

    assert apply("", [replace("", fits)]) == fits
    with pytest.raises(DocumentTooLarge):
        apply("", [replace("", fits + "x")])
    assert apply([fits, 1], [remove("/1")]) == [fits]


def test_a_document_is_nested_no_deeper_than_may_be_sent() -> None:
    steps = [add("/n" * depth, {}) for depth in range(1, 65)]
    deepest = apply({}, steps)

    for deeper in (
        [replace("/n" * 64, {"n": 1})],
        [move("/n/n", "/m"), add("/n", {"n": {}}), move("/m", "/n/n/n")],
        [copied("/n", "/m"), add("/l", [{}]), copied("/m", "/l/0/n")],
    ):
        with pytest.raises(DocumentTooLarge, match="nested more than 64 levels"):
            apply(deepest, deeper)


@given(edits())
def test_a_history_is_replayed_in_one_go(pair: tuple[Any, Any]) -> None:
    before, after = pair
    there, back = [replace("", after)], [replace("", before)]

    assert canonical(replay(before, [there, back, there])) == canonical(after)
    assert replay(before, []) is before


def test_a_broken_history_is_named() -> None:
    with pytest.raises(PatchFailed, match='remove "/n"'):
        replay({}, [[add("/n", 1), remove("/n"), remove("/n")]])


@pytest.mark.parametrize(
    ("before", "merge_patch", "after"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": 1}, {"a": None, "c": None}, {"b": 1}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c", "d": 1}}, {"a": {"b": "e", "d": None}}, {"a": {"b": "e"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        (["a", "b"], {"a": "b", "c": None}, {"a": "b"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {"a": [None]}, {"a": [None]}),
    ],
)
def test_a_merge_patch_becomes_a_patch(before: Any, merge_patch: Any, after: Any) -> None:
    assert canonical(apply(before, from_merge_patch(before, merge_patch))) == canonical(after)


def test_a_merge_patch_touches_only_what_it_changes() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": [1, 2, 3]}

    assert from_merge_patch(before, {"a": {"b": 5}, "d": [1, 2, 3]}) == [replace("/a/b", 5)]
