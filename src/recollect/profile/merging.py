"""Two patches made from the same document: whether both can stand, and how one reads after the other.

A position in a list is a place, not a thing: where a list has been shifted, whatever lies there or behind
counts as touched. So of two patches that do not clash, neither has to be rewritten for the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import Conflict
from recollect.profile.canonical import same
from recollect.profile.diffing import Patch
from recollect.profile.patch import Draft, operations
from recollect.profile.pointer import Tokens, as_index, shortened, written


class PatchesClash(Conflict):
    """Both patches touch the same paths; read the document again and make another patch."""

    code = "patches_clash"


@dataclass(frozen=True, slots=True)
class Touched:
    """What a patch relies on, what it changes, and from which place on it shifts a list."""

    read: set[Tokens] = field(default_factory=set)
    changed: set[Tokens] = field(default_factory=set)
    shifted: dict[Tokens, int] = field(default_factory=dict)

    def change(self, path: Tokens, *, in_list: bool = False) -> None:
        self.changed.add(path)
        index = as_index(path[-1]) if in_list else None
        if index is not None:
            self.shifted[path[:-1]] = min(index, self.shifted.get(path[:-1], index))

    def shifted_around(self, path: Tokens) -> Iterator[Tokens]:
        """The lists in which the path leads to a place that was shifted."""
        for depth, token in enumerate(path):
            start = self.shifted.get(path[:depth])
            if start is not None and (as_index(token) or 0) >= start:
                yield path[:depth]


def touched(patch: Patch, document: Any) -> Touched:
    """What a patch touches in the document that it was made for."""
    found, draft = Touched(), Draft(document)
    for operation in operations(patch):
        path, source = operation.path, operation.source
        left_list = draft.is_in_list(source if operation.kind == "move" else path)
        draft.perform(operation)
        match operation.kind:
            case "test":
                found.read.add(path)
            case "replace":
                found.change(path)
            case "remove":
                found.change(path, in_list=left_list)
            case _:
                if operation.kind == "move":
                    found.change(source, in_list=left_list)
                elif operation.kind == "copy":
                    found.read.add(source)
                found.change(draft.settled(path), in_list=draft.is_in_list(path))
    return found


def clashes(ours: Patch, theirs: Patch, base: Any) -> tuple[str, ...]:
    """Where the two patches get in each other's way; nowhere if they are the same."""
    if same(ours, theirs):
        return ()
    mine, its = touched(ours, base), touched(theirs, base)
    found = _overlapping(mine.changed, its.changed | its.read) | _overlapping(mine.read, its.changed)
    for one, other in ((mine, its), (its, mine)):
        for path in other.changed | other.read:
            found.update(one.shifted_around(path))
    return tuple(sorted(map(written, found)))


def rebase(ours: Patch, theirs: Patch, base: Any) -> Patch:
    """Our patch as it applies after theirs, where both were made from the base."""
    if found := clashes(ours, theirs, base):
        named = ", ".join(f'"{shortened(path)}"' for path in found[:5])
        raise PatchesClash(f"Somebody else changed this first: {named}; read it again.", paths=found[:100])
    return [] if same(ours, theirs) else ours


def _overlapping(paths: Collection[Tokens], others: Collection[Tokens]) -> set[Tokens]:
    """Those of the paths that are one of the others, above one or below one."""
    above = {other[:depth] for other in others for depth in range(len(other))}
    return {path for path in paths if path in above or any(path[:n] in others for n in range(len(path) + 1))}
