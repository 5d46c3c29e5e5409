"""Which version last changed what: the history of a document, replayed on a tree of version numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import NotFound
from recollect.profile.pointer import parse


class UnknownPath(NotFound):
    """That path leads nowhere in the profile's latest version."""

    code = "unknown_path"


@dataclass(slots=True)
class _Node:
    version: int
    """When it came to be as it is, apart from what is in it."""
    inside: dict[str, _Node] | list[_Node] | None = None

    def latest(self) -> int:
        return max([self.version, *(child.latest() for child in self.children())])

    def children(self) -> Iterator[_Node]:
        match self.inside:
            case dict() as named:
                yield from named.values()
            case list() as listed:
                yield from listed


@dataclass
class Blamed:
    _root: _Node = field(default_factory=lambda: _Node(0, {}))

    def apply(self, version: int, patch: Sequence[dict[str, Any]]) -> None:
        """Follow a version's patch, which is known to apply."""
        for operation in patch:
            path = parse(operation["path"])
            match operation["op"]:
                case "add":
                    self._put(path, _grown(version, operation["value"]), is_new=True)
                case "replace":
                    self._put(path, _grown(version, operation["value"]), is_new=False)
                case "remove":
                    self._take(version, path)
                case "move":
                    moved = self._take(version, parse(operation["from"]))
                    moved.version = version
                    self._put(path, moved, is_new=True)
                case "copy":
                    source = self._at(parse(operation["from"]))
                    self._put(path, _again(version, source), is_new=True)

    def last_changed(self, path: str) -> int:
        """Of a container: also what is in it, and what has gone from it."""
        return self._at(parse(path)).latest()

    def _at(self, path: Sequence[str]) -> _Node:
        node = self._root
        for token in path:
            try:
                node = _child(node, token)
            except (KeyError, IndexError, ValueError) as error:
                raise UnknownPath from error
        return node

    def _put(self, path: Sequence[str], node: _Node, *, is_new: bool) -> None:
        if not path:
            self._root = node
            return
        parent, last = self._at(path[:-1]), path[-1]
        match parent.inside:
            case dict() as named:
                named[last] = node
            case list() as listed if last == "-":
                listed.append(node)
            case list() as listed if is_new:
                listed.insert(int(last), node)
            case list() as listed:
                listed[int(last)] = node

    def _take(self, version: int, path: Sequence[str]) -> _Node:
        parent, last = self._at(path[:-1]), path[-1]
        taken = _child(parent, last)
        match parent.inside:
            case dict() as named:
                del named[last]
            case list() as listed:
                del listed[int(last)]
        # What is gone has no path any more: that it went is the container's change.
        parent.version = version
        return taken


def _child(node: _Node, token: str) -> _Node:
    if isinstance(node.inside, dict):
        return node.inside[token]
    if isinstance(node.inside, list) and token.isascii() and token.isdigit():
        return node.inside[int(token)]
    raise KeyError(token)


def _grown(version: int, value: Any) -> _Node:
    match value:
        case dict():
            return _Node(version, {key: _grown(version, each) for key, each in value.items()})
        case list():
            return _Node(version, [_grown(version, each) for each in value])
    return _Node(version)


def _again(version: int, node: _Node) -> _Node:
    match node.inside:
        case dict() as named:
            return _Node(version, {key: _again(version, each) for key, each in named.items()})
        case list() as listed:
            return _Node(version, [_again(version, each) for each in listed])
    return _Node(version)
