"""Two patches made from the same document: they clash, or both can stand in either order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from recollect.profile.canonical import canonical
from recollect.profile.merging import PatchesClash, clashes, rebase, touched
from recollect.profile.patch import apply, diff
from tests.profile.documents import documents, edited, patch_for
from tests.profile.test_patch import add, copied, is_, move, remove, replace

BASE = {"s": "text", "o": {"a": 1, "b": {"c": 2}}, "l": [{"g": 0}, {"g": 1}, {"g": 2}, [3, 4]], "1": {"2": 3}}


@pytest.mark.parametrize(
    ("ours", "theirs", "where"),
    [
        ([replace("/s", 1)], [replace("/s", 2)], ("/s",)),
        ([replace("/o/a", 1)], [replace("/o", 2)], ("/o/a",)),
        ([replace("/o", 1)], [replace("/o/b/c", 2)], ("/o",)),
        ([replace("", {})], [replace("/s", 2)], ("",)),
        ([add("/new", 1)], [add("/new", 2)], ("/new",)),
        ([add("/o/b/new", 1)], [remove("/o/b")], ("/o/b/new",)),
        ([remove("/s")], [remove("/s"), add("/t", 1)], ("/s",)),
        ([move("/s", "/t")], [replace("/s", 1)], ("/s",)),
        ([move("/s", "/t")], [add("/t", 1)], ("/t",)),
        ([copied("/o", "/p")], [replace("/o/a", 5)], ("/o",)),
        ([is_("/s", "text"), add("/t", 1)], [replace("/s", 1)], ("/s",)),
        ([replace("/s", 1)], [is_("/s", "text"), add("/t", 1)], ("/s",)),
        ([add("/o/a~1b", 1)], [add("/o/a~1b", 2)], ("/o/a~1b",)),
        # In a list, what lies at or behind a shift.
        ([add("/l/1", 0)], [replace("/l/1/g", 5)], ("/l", "/l/1")),
        ([add("/l/1", 0)], [replace("/l/3/0", 5)], ("/l",)),
        ([replace("/l/2/g", 5)], [remove("/l/0")], ("/l",)),
        ([add("/l/-", 0)], [add("/l/-", 1)], ("/l", "/l/4")),
        ([add("/l/4", 0)], [remove("/l/2")], ("/l",)),
        ([move("/l/3", "/l/0")], [replace("/l/1/g", 5)], ("/l",)),
        ([move("/l/3/0", "/t")], [replace("/l/3/1", 5)], ("/l/3",)),
        ([remove("/l/0"), replace("/l/0/g", 5)], [replace("/l/1/g", 6)], ("/l",)),
    ],
)
def test_patches_that_touch_the_same_clash(ours: Any, theirs: Any, where: tuple[str, ...]) -> None:
    found = clashes(ours, theirs, BASE)

    assert set(where) <= set(found)
    assert clashes(theirs, ours, BASE)
    with pytest.raises(PatchesClash) as conflict:
        rebase(ours, theirs, BASE)
    assert (conflict.value.status, conflict.value.code) == (409, "patches_clash")
    assert conflict.value.extra["paths"] == found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], [replace("/s", 1)]),
        ([replace("/s", 1)], [replace("/o/a", 2)]),
        ([replace("/o/a", 1)], [replace("/o/b", 2)]),
        ([add("/new", 1)], [add("/other", 2)]),
        ([add("/o/b/x", 1)], [add("/o/b/y", 1)]),
        ([copied("/o/b", "/p")], [replace("/o/a", 5)]),
        ([copied("/o/b", "/p")], [copied("/o/b", "/q"), is_("/o/b/c", 2)]),
        ([replace("/l/0/g", 5)], [replace("/l/1/g", 6)]),
        ([replace("/l/0/g", 5)], [add("/l/1", 6)]),
        ([add("/l/-", 5)], [replace("/l/3/0", 6)]),
        ([add("/l/3/-", 5)], [replace("/l/2/g", 6)]),
        # A key that looks like a position shifts nothing.
        ([remove("/1/2")], [add("/1/3", 6)]),
    ],
)
def test_patches_that_touch_different_things_can_both_stand(ours: Any, theirs: Any) -> None:
    assert clashes(ours, theirs, BASE) == clashes(theirs, ours, BASE) == ()
    assert _in_either_order(ours, theirs, BASE)


def test_the_same_patch_twice_is_no_clash_and_is_done_once() -> None:
    patch = [add("/l/0", 5), remove("/s")]

    assert clashes(patch, list(patch), BASE) == ()
    assert rebase(patch, list(patch), BASE) == []
    assert clashes([replace("/s", 1)], [replace("/s", 1.0)], BASE) == ("/s",)


def test_what_is_touched_is_told_in_terms_of_the_document() -> None:
    found = touched([is_("/s", "text"), add("/l/-", 1), remove("/l/2"), move("/o/a", "/1/2")], BASE)

    assert found.read == {("s",)}
    assert found.changed == {("l", "4"), ("l", "2"), ("o", "a"), ("1", "2")}
    assert found.shifted == {("l",): 2}


@hypothesis_settings(max_examples=200)
@given(documents, documents, st.randoms(use_true_random=False), documents)
def test_patches_that_do_not_clash_give_the_same_in_either_order(
    one: Any, other: Any, chance: Random, new: Any
) -> None:
    base = {"a": one, "b": other, "l": [one, other, [1, 2, 3], {"a": 1, "b": []}]}
    for ours, theirs in (
        (patch_for(base, chance, new), patch_for(base, chance, new)),
        (diff(base, edited(base, chance, new)), diff(base, edited(base, chance, new))),
    ):
        found = clashes(ours, theirs, base)

        assert bool(found) == bool(clashes(theirs, ours, base))
        assert found or _in_either_order(ours, theirs, base)


def _in_either_order(ours: Any, theirs: Any, base: Any) -> bool:
    theirs_first = apply(apply(base, theirs), rebase(ours, theirs, base))
    ours_first = apply(apply(base, ours), rebase(theirs, ours, base))
    return canonical(theirs_first) == canonical(ours_first)
