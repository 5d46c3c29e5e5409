"""Documents, edits and patches for property tests: arbitrary, but such that they often meet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

from recollect.profile.patch import InvalidPatch, PatchFailed, apply
from recollect.profile.pointer import parse, written

KEYS = ["", "a", "b", "0", "1", "01", "-", "~", "/", "~1", "~0", "é", "\ufb33", "\U0001f600", 'q"\\', "\n"]
NUMBERS = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, -1.0, 0.1, 1e-5, 1.5e-7, 5e-324]
LARGE = [1e15, 1e16, 123456789012345680000.0, 1e21, 1e22, -1e23, 1.5e300, 1.7976931348623157e308]
TEXTS = ["", "a", "1", "true", "1e-7", ",-0.0,", "é", "e\u0301", "\u2028", "\x1f\x7f", "\U0001f600\ufe0f"]

texts = st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
keys = st.sampled_from(KEYS) | texts
scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([*NUMBERS, *LARGE])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)


@st.composite
def edits(draw: st.DrawFn) -> tuple[Any, Any]:
    """A document and what somebody made of it: often a little, sometimes another one."""
    before = draw(documents)
    if draw(st.integers(0, 9)) == 0:
        return before, draw(documents)
    return before, edited(before, draw(st.randoms(use_true_random=False)), draw(documents))


def edited(value: Any, chance: Random, new: Any) -> Any:
    if isinstance(value, dict):
        changed = {key: edited(member, chance, new) for key, member in value.items() if chance.random() < 0.9}
        return {**changed, chance.choice(KEYS): new} if chance.random() < 0.3 else changed
    if isinstance(value, list):
        elements = [edited(element, chance, new) for element in value if chance.random() < 0.9]
        if elements and chance.random() < 0.4:
            elements.insert(chance.randrange(len(elements)), elements.pop(chance.randrange(len(elements))))
        if chance.random() < 0.3:
            elements.insert(chance.randrange(len(elements) + 1), new)
        return elements
    return chance.choice([*NUMBERS, True, False, None, "text"]) if chance.random() < 0.2 else value


def patch_for(document: Any, chance: Random, new: Any) -> list[dict[str, Any]]:
    """A patch of all kinds of operations that this document takes."""
    patch: list[dict[str, Any]] = []
    for _ in range(chance.randrange(1, 5)):
        places = list(_places(document, ""))
        path, source = chance.choice(places), chance.choice(places)
        kind = chance.choice(["add", "remove", "replace", "move", "copy", "test"])
        if kind in {"add", "move", "copy"} and chance.random() < 0.5:
            path += "/" + chance.choice(["a", "b", "0", "1", "-"])
        operation = {"op": kind, "path": path}
        if kind in {"move", "copy"}:
            operation["from"] = source
        elif kind != "remove":
            operation["value"] = _at(document, path) if kind == "test" else new
        with contextlib.suppress(InvalidPatch, PatchFailed):
            document = apply(document, [operation])
            patch.append(operation)
    return patch


def _places(value: Any, path: str) -> Iterator[str]:
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _places(member, path + written([str(key)]))


def _at(document: Any, path: str) -> Any:
    for token in parse(path):
        document = document[int(token) if isinstance(document, list) else token]
    return document
