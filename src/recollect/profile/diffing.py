"""The patch from one document to another: small, and quick to find even for long lists."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from recollect.profile.canonical import canonical, same
from recollect.profile.pointer import escaped

Patch: TypeAlias = list[dict[str, Any]]

MAX_OPERATIONS = 10_000

# How finely lists are compared, in all lists of a document together. What is left is compared more
# coarsely, so that time and memory grow with the size of the documents alone.
MAX_EQUAL_PAIRS = 200_000
MAX_SIMILAR_PAIRS = 20_000
MAX_STEPS_TO_MOVE = 20_000_000
MAX_SHIFTS = 50_000_000

# What an operation weighs beside its value, more or less.
_OPERATION = 40


def diff(before: Any, after: Any) -> Patch:
    """What turns the one into the other, in canonical form; nothing if they are the same."""
    comparison = _Comparison(MAX_EQUAL_PAIRS, MAX_SIMILAR_PAIRS, MAX_STEPS_TO_MOVE, MAX_SHIFTS)
    patch = list(comparison.of_values(before, after, ""))
    return patch if len(patch) <= MAX_OPERATIONS else [_replace("", after)]


def _replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


@dataclass(slots=True)
class _Comparison:
    """What is left of the bounds above."""

    equal_pairs: int
    similar_pairs: int
    steps_to_move: int
    shifts: int

    def of_values(self, before: Any, after: Any, path: str) -> Iterator[dict[str, Any]]:
        if before is after:
            return
        if isinstance(before, dict) and isinstance(after, dict):
            yield from self.of_objects(before, after, path)
        elif isinstance(before, list) and isinstance(after, list):
            yield from self.of_lists(before, after, path)
        elif not same(before, after):
            yield _replace(path, after)

    def of_objects(
        self, before: dict[str, Any], after: dict[str, Any], path: str
    ) -> Iterator[dict[str, Any]]:
        for key in sorted(before.keys() - after.keys()):
            yield {"op": "remove", "path": f"{path}/{escaped(key)}"}
        for key, value in after.items():
            if key not in before:
                yield {"op": "add", "path": f"{path}/{escaped(key)}", "value": value}
            elif before[key] is not value:
                yield from self.of_values(before[key], value, f"{path}/{escaped(key)}")

    def of_lists(self, before: list[Any], after: list[Any], path: str) -> Iterator[dict[str, Any]]:
        start = _alike(zip(before, after, strict=False))
        if start == len(before) == len(after):
            return
        end = _alike(zip(reversed(before[start:]), reversed(after[start:]), strict=False))
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        patch = list(self._of_middles(old, new, path, start))
        shifted = len(patch) * len(before)
        rewritten = [_replace(path, after)]
        # Where it is by far the shorter; otherwise many operations say better what happened.
        if shifted > self.shifts or (
            len(patch) > 1 and len(canonical(patch)) > 2 * len(canonical(rewritten))
        ):
            yield from rewritten
        else:
            self.shifts -= shifted
            yield from patch

    def _of_middles(self, old: list[Any], new: list[Any], path: str, start: int) -> Iterator[dict[str, Any]]:
        origins, moved = self._origins(old, new)
        staying = {origin for origin in origins if origin is not None}
        for index in reversed(range(len(old))):
            if index not in staying:
                yield {"op": "remove", "path": f"{path}/{start + index}"}
        # The places of what is not where it belongs yet; without moves there is nothing to keep track of.
        current = sorted(staying) if moved else []
        at = 0
        for value, origin in zip(new, origins, strict=True):
            if origin is None:
                yield {"op": "add", "path": f"{path}/{start + at}", "value": value}
                if moved:
                    current.insert(at, -1)
            elif origin in moved:
                found = current.index(origin)
                del current[found]
                at -= found < at
                if found != at:
                    yield {"op": "move", "from": f"{path}/{start + found}", "path": f"{path}/{start + at}"}
                current.insert(at, origin)
            else:
                at = current.index(origin, at) if moved else at
                yield from self._of_elements(old[origin], value, f"{path}/{start + at}")
            at += 1

    def _of_elements(self, old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
        if _related(old, new):
            yield from self.of_values(old, new, path)
        elif not same(old, new):
            yield _replace(path, new)

    def _origins(self, old: list[Any], new: list[Any]) -> tuple[list[int | None], set[int]]:
        """Which old element each new one is made from, and which of these change places."""
        old_keys, new_keys = [_key(each) for each in old], [_key(each) for each in new]
        origins: list[int | None] = [None] * len(new)
        kept = self._common(old_keys, new_keys)
        for i, j in kept:
            origins[j] = i
        moved = self._moves(old_keys, new_keys, origins)
        taken = {origin for origin in origins if origin is not None}
        low_i = low_j = 0
        for i, j in [*kept, (len(old), len(new))]:
            gone = [each for each in range(low_i, i) if each not in taken]
            come = [each for each in range(low_j, j) if origins[each] is None]
            for one, other in self._edits(old, gone, new, come):
                origins[other] = one
            low_i, low_j = i + 1, j + 1
        return origins, moved

    def _common(self, old: list[Any], new: list[Any]) -> list[tuple[int, int]]:
        """A longest common subsequence (Hunt and Szymanski), or, of much that repeats, a long one."""
        places: dict[Any, list[int]] = defaultdict(list)
        for i, text in enumerate(old):
            places[text].append(i)
        pairs = sum(len(places[text]) for text in new if text in places)
        if pairs > self.equal_pairs:
            matches = _nth_with_nth(places, new)
        else:
            self.equal_pairs -= pairs
            matches = [places.get(text, []) for text in new]
        ends: list[int] = []
        chains: list[tuple[int, int, Any]] = []
        for j, found in enumerate(matches):
            # Backwards, so that no two of them can be in one chain.
            for i in reversed(found):
                length = bisect_left(ends, i)
                chain = (i, j, chains[length - 1] if length else None)
                if length == len(ends):
                    ends.append(i)
                    chains.append(chain)
                else:
                    ends[length], chains[length] = i, chain
        common: list[tuple[int, int]] = []
        rest: Any = chains[-1] if chains else None
        while rest:
            common.append(rest[:2])
            rest = rest[2]
        return common[::-1]

    def _moves(self, old: list[Any], new: list[Any], origins: list[int | None]) -> set[int]:
        """Give new elements without an origin the equal old one that went elsewhere."""
        taken = {origin for origin in origins if origin is not None}
        gone: dict[Any, list[int]] = defaultdict(list)
        for i in reversed(range(len(old))):
            if i not in taken:
                gone[old[i]].append(i)
        come = [j for j, origin in enumerate(origins) if origin is None]
        found = [j for j in come if gone.get(new[j])]
        steps = (len(come) + 1) * len(old)
        if not found or steps > self.steps_to_move:
            return set()
        self.steps_to_move -= steps
        moved = set()
        for j in found:
            if left := gone[new[j]]:
                origins[j] = left.pop()
                moved.add(origins[j])
        return {origin for origin in moved if origin is not None}

    def _edits(
        self, old: list[Any], gone: list[int], new: list[Any], come: list[int]
    ) -> Sequence[tuple[int, int]]:
        """Which of the new elements are old ones edited: where that makes the smaller patch."""
        pairs = len(gone) * len(come)
        if pairs <= 1 or pairs > self.similar_pairs:
            return list(zip(gone, come, strict=False))
        self.similar_pairs -= pairs
        before, after = [_Members(old[i]) for i in gone], [_Members(new[j]) for j in come]
        return [(gone[i], come[j]) for i, j in _cheapest(before, after)]


def _alike(pairs: Any) -> int:
    alike = 0
    for one, other in pairs:
        if not same(one, other):
            break
        alike += 1
    return alike


def _key(value: Any) -> Any:
    """What is equal for equal elements only; text and integers are such themselves, and many."""
    return value if type(value) in (str, int) else canonical(value)


def _nth_with_nth(places: dict[Any, list[int]], new: list[Any]) -> list[list[int]]:
    seen: dict[Any, int] = defaultdict(int)
    matches = []
    for text in new:
        nth = seen[text]
        seen[text] += 1
        matches.append(places[text][nth : nth + 1] if text in places else [])
    return matches


def _related(old: Any, new: Any) -> bool:
    """Whether one is better told as an edit of the other than as another thing."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() or any(key in new and same(old[key], new[key]) for key in old)
    return isinstance(old, list) and isinstance(new, list)


class _Members:
    """A list's element, taken apart to be compared with many others."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.weight = len(canonical(value))
        self.parts: dict[Any, bytes] = {}
        if isinstance(value, dict):
            self.parts = {key: canonical(member) for key, member in value.items()}
        elif isinstance(value, list):
            self.parts = {text: text for text in map(canonical, value)}

    def cost_to(self, other: _Members) -> int:
        if not _related(self.value, other.value):
            return _OPERATION + other.weight
        changed = [text for key, text in other.parts.items() if self.parts.get(key) != text]
        removed = len(self.parts.keys() - other.parts.keys())
        return sum(map(len, changed)) + _OPERATION * (len(changed) + removed)


def _cheapest(before: list[_Members], after: list[_Members]) -> list[tuple[int, int]]:
    """The pairs, in order on both sides, whose edits with the other removals and additions cost least."""
    rows = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    edits = [[one.cost_to(other) for other in after] for one in before]
    additions = [_OPERATION + other.weight for other in after]
    for i in reversed(range(len(before) + 1)):
        for j in reversed(range(len(after) + 1)):
            choices = []
            if i < len(before):
                choices.append(rows[i + 1][j] + _OPERATION)
            if j < len(after):
                choices.append(rows[i][j + 1] + additions[j])
            if i < len(before) and j < len(after):
                choices.append(rows[i + 1][j + 1] + edits[i][j])
            rows[i][j] = min(choices, default=0)
    pairs, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        if rows[i][j] == rows[i + 1][j + 1] + edits[i][j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif rows[i][j] == rows[i + 1][j] + _OPERATION:
            i += 1
        else:
            j += 1
    return pairs
