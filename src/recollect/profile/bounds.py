"""How much of a profile one update may do away with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recollect.profile.canonical import canonical, same
from recollect.profile.models import Document, UpdateRefused
from recollect.profile.pointer import Tokens

# In a small document a sentence is a large share.
ALWAYS_DROPPABLE = 200


@dataclass(frozen=True)
class Bounds:
    max_drop: float
    """The largest share of a document that may be gone after an update."""
    may_touch_safety_notes: bool

    def check(self, before: Document, after: Document) -> None:
        """An error if an update would do away with too much, or with what is not its to change."""
        if not self.may_touch_safety_notes and Counter(_safety_notes(before)) != Counter(
            _safety_notes(after)
        ):
            raise UpdateRefused("The update would have changed safety_notes, which is not its to change.")
        dropped, whole = lost(before, after), len(canonical(before))
        if dropped > max(ALWAYS_DROPPABLE, self.max_drop * whole):
            raise UpdateRefused(
                f"The update would have dropped {dropped / whole:.0%} of the document; "
                f"at most {self.max_drop:.0%} may go at once."
            )


def _safety_notes(value: Any, path: Tokens = ()) -> Iterator[tuple[Tokens, bytes]]:
    """Those of the user and those of each part, also under a name that reads the same."""
    match value:
        case dict():
            for key, inner in value.items():
                if "".join(filter(str.isalpha, key)).casefold() != "safetynotes":
                    yield from _safety_notes(inner, (*path, key))
                elif inner:
                    yield (*path, key), canonical(inner)
        case list():
            for inner in value:
                yield from _safety_notes(inner, path)


def lost(before: Any, after: Any) -> int:
    """How many bytes of one value are gone in another. What was reworded at equal length is not lost."""
    if same(before, after):
        return 0
    match before, after:
        case dict(), dict():
            return sum(
                lost(value, after[key]) if key in after else _size(value) for key, value in before.items()
            )
        case list(), list():
            return _lost_of_list(before, after)
    return max(0, _size(before) - _size(after))


def _lost_of_list(before: list[Any], after: list[Any]) -> int:
    """Elements are the same wherever they stand; the others are compared in their order."""
    there = Counter(map(canonical, after))
    gone: list[Any] = []
    for item in before:
        if there[canonical(item)]:
            there[canonical(item)] -= 1
        else:
            gone.append(item)
    new = [item for item in after if there[canonical(item)] and not there.subtract([canonical(item)])]
    return sum(map(lost, gone, new)) + sum(map(_size, gone[len(new) :]))


def _size(value: Any) -> int:
    return len(canonical(value))
