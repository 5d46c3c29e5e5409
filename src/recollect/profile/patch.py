"""JSON patches (RFC 6902) on documents that are values: nothing here changes what it is given.

A result shares what stayed the same with the document and the patch it came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from recollect.errors import Conflict, InvalidInput
from recollect.kit.text import MAX_DEPTH, check_json
from recollect.profile.canonical import MAX_BYTES, canonical, same
from recollect.profile.diffing import MAX_OPERATIONS, Patch, diff
from recollect.profile.pointer import InvalidPatch, Tokens, as_index, parse, shortened, written

__all__ = [
    "MAX_BYTES",
    "MAX_OPERATIONS",
    "DocumentTooLarge",
    "InvalidPatch",
    "Patch",
    "PatchFailed",
    "apply",
    "diff",
    "from_merge_patch",
    "operations",
    "replay",
]

# What one patch may have looked at and copied, in bytes and elements: a fraction of a second.
MAX_WORK = 16 * MAX_BYTES

# As the last step of a pointer: the place behind a list's last element.
END = "-"
MISSING = object()

_MEMBERS = {
    "add": {"path", "value"},
    "remove": {"path"},
    "replace": {"path", "value"},
    "move": {"path", "from"},
    "copy": {"path", "from"},
    "test": {"path", "value"},
}


class PatchFailed(Conflict):
    """The patch does not fit the document; read it again and make another."""

    code = "patch_failed"


class DocumentTooLarge(InvalidInput):
    """The document would be too large."""

    code = "document_too_large"


class NotThere(Exception):
    """What a pointer names is not in the document."""


@dataclass(frozen=True, slots=True)
class Operation:
    index: int
    kind: str
    path: Tokens
    source: Tokens
    value: Any


def apply(document: Any, patch: Any) -> Any:
    """The document after a patch from anywhere, which is checked and bounded first."""
    draft = Draft(document, watched=True)
    for operation in operations(patch):
        draft.perform(operation)
    return draft.document


def replay(document: Any, patches: Iterable[Patch]) -> Any:
    """The document after patches that were all applied before, and so need no bounds."""
    draft = Draft(document)
    for patch in patches:
        for index, operation in enumerate(patch):
            draft.perform(_read(index, operation))
    return draft.document


def from_merge_patch(document: Any, merge_patch: Any) -> Patch:
    """A merge patch (RFC 7396) as the JSON patch that does the same to this document."""
    check_json(merge_patch)
    return diff(document, _merged(document, merge_patch))


def _merged(document: Any, merge_patch: Any) -> Any:
    if not isinstance(merge_patch, dict):
        return merge_patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in merge_patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def operations(patch: Any) -> list[Operation]:
    """The patch, read whole before anything is done with it."""
    if not isinstance(patch, list | tuple):
        raise InvalidPatch("A JSON patch is a list of operations.")
    if len(patch) > MAX_OPERATIONS:
        raise InvalidPatch(f"A patch has at most {MAX_OPERATIONS} operations, not {len(patch)}.")
    found = [_read(index, operation) for index, operation in enumerate(patch)]
    for operation in found:
        check_json(operation.value)
        check_json([*operation.path, *operation.source])
    return found


def _read(index: int, given: Any) -> Operation:
    if not isinstance(given, dict):
        raise InvalidPatch(f"Operation {index} is not an object.", operation=index)
    kind = given.get("op")
    members = _MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        raise InvalidPatch(f'Operation {index} has no "op" out of {", ".join(_MEMBERS)}.', operation=index)
    for member in sorted(members):
        if member not in given:
            raise InvalidPatch(f'Operation {index} ({kind}) needs "{member}".', operation=index)
        if member != "value" and not isinstance(given[member], str):
            raise InvalidPatch(f'Operation {index} ({kind}): "{member}" is text.', operation=index)
    path = parse(given["path"])
    source = parse(given["from"]) if "from" in members else ()
    if kind == "remove" and not path:
        raise InvalidPatch(f"Operation {index} would remove the whole document.", operation=index)
    if kind == "move" and len(source) < len(path) and path[: len(source)] == source:
        raise InvalidPatch(f"Operation {index} would move a value into itself.", operation=index)
    return Operation(index, str(kind), path, source, given["value"] if "value" in members else None)


class Draft:
    """A document while it is changed: what it was made from is copied along the way to a change, once."""

    def __init__(self, document: Any, *, watched: bool = False) -> None:
        self.document = document
        self._watched = watched
        self.size = len(canonical(document)) if watched else 0
        self._work = 0
        # The containers made here, which nobody else has, by their identity.
        self._own: dict[int, Any] = {}

    def perform(self, operation: Operation) -> None:
        try:
            getattr(self, "_" + operation.kind)(operation)
        except NotThere as reason:
            path = shortened(written(operation.path))
            raise PatchFailed(
                f'Operation {operation.index} ({operation.kind} "{path}") does not fit: {reason}.',
                operation=operation.index,
                path=path,
            ) from None

    def at(self, path: Tokens) -> Any:
        value = self.document
        for token in path:
            value = value[place(value, token)]
        return value

    def find(self, path: Tokens) -> Any:
        """What is there, or ``MISSING``."""
        try:
            return self.at(path)
        except NotThere:
            return MISSING

    def is_in_list(self, path: Tokens) -> bool:
        return bool(path) and isinstance(self.find(path[:-1]), list)

    def settled(self, path: Tokens) -> Tokens:
        """The path, where it led to the end of a list, with the place of the last element."""
        if path[-1:] == (END,) and self.is_in_list(path):
            return (*path[:-1], str(len(self.at(path[:-1])) - 1))
        return path

    def _test(self, operation: Operation) -> None:
        if not same(self.at(operation.path), operation.value, kinds=False):
            raise NotThere("the value there is another one")

    def _add(self, operation: Operation) -> None:
        self._put(operation.path, operation.value, self._weight(operation.value))

    def _replace(self, operation: Operation) -> None:
        if not operation.path:
            self._add(operation)
            return
        container = self._around(operation.path)
        where = place(container, operation.path[-1])
        self._check_depth(operation.path, operation.value)
        self._grow(self._weight(operation.value) - self._weight(container[where]))
        container[where] = operation.value

    def _remove(self, operation: Operation) -> None:
        self._grow(-self._weight(self._take(operation.path)))

    def _move(self, operation: Operation) -> None:
        self.at(operation.source)
        if operation.source != operation.path:
            value = self._take(operation.source)
            # What becomes the whole document is all that is left; elsewhere it weighs what it did before.
            self._put(operation.path, value, 0 if operation.path else self._weight(value))

    def _copy(self, operation: Operation) -> None:
        value = self.at(operation.source)
        # From now on two places share it, with all that lies in it and perhaps with what it lies in.
        self._own.clear()
        self._put(operation.path, value, self._weight(value))

    def _take(self, path: Tokens) -> Any:
        container = self._around(path)
        where = place(container, path[-1])
        self._spend(len(container) // 16)
        value = container.pop(where)
        self._grow(-_frame(container, where))
        return value

    def _put(self, path: Tokens, value: Any, weight: int) -> None:
        self._check_depth(path, value)
        if not path:
            self._grow(weight - self.size)
            self.document = value
            return
        container, token = self._around(path), path[-1]
        if isinstance(container, dict):
            known = token in container
            self._grow(
                weight - self._weight(container[token]) if known else weight + _frame(container, token)
            )
            container[token] = value
        else:
            where = place(container, token, end=True)
            self._spend(len(container) // 16)
            self._grow(weight + _frame(container, where))
            container.insert(where, value)

    def _around(self, path: Tokens) -> Any:
        """What the last step of the path leads out of, and everything above it, as our own to change."""
        self.document = container = self._owned(self.document)
        for token in path[:-1]:
            where = place(container, token)
            container[where] = self._owned(container[where])
            container = container[where]
        return container

    def _owned(self, value: Any) -> Any:
        if not isinstance(value, dict | list) or id(value) in self._own:
            return value
        self._spend(len(value))
        copy = value.copy()
        self._own[id(copy)] = copy
        return copy

    def _weight(self, value: Any) -> int:
        if not self._watched:
            return 0
        weight = len(canonical(value))
        self._spend(weight)
        return weight

    def _grow(self, by: int) -> None:
        if not self._watched:
            return
        self.size += by
        if by > 0 and self.size > MAX_BYTES:
            raise DocumentTooLarge(f"The document would have more than {MAX_BYTES:,} bytes.")

    def _check_depth(self, path: Tokens, value: Any) -> None:
        if not self._watched:
            return
        layer, depth = [value], len(path)
        while layer := [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]:
            # Looking at an element takes longer than copying it.
            self._spend(8 * len(layer))
            depth += 1
            if depth > MAX_DEPTH:
                raise DocumentTooLarge(f"The document would be nested more than {MAX_DEPTH} levels deep.")

    def _spend(self, work: int) -> None:
        if not self._watched:
            return
        self._work += work
        if self._work > MAX_WORK:
            raise InvalidPatch("The patch copies or moves too much; send it in parts.")


def place(container: Any, token: str, *, end: bool = False) -> Any:
    """The key or the index that a pointer's step means here; with ``end``, also the one after the last."""
    if isinstance(container, dict):
        if token in container:
            return token
        raise NotThere(f'there is no "{shortened(token)}"')
    if isinstance(container, list):
        index = len(container) if end and token == END else as_index(token)
        if index is not None and index < len(container) + end:
            return index
        raise NotThere(f'a list of {len(container)} has no place "{shortened(token)}"')
    raise NotThere(f'"{shortened(token)}" would lie in what is neither an object nor a list')


def _frame(container: Any, where: Any) -> int:
    """The bytes that a member needs beside its value, among the others."""
    comma = 1 if container else 0
    return comma + len(canonical(where)) + 1 if isinstance(where, str) else comma
