"""A patch as people read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from recollect.profile.canonical import canonical
from recollect.profile.diffing import Patch
from recollect.profile.patch import MISSING, Draft, Operation, operations
from recollect.profile.pointer import Tokens, shortened

_WHOLE = "(the whole document)"
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
# What would move a terminal's cursor or turn the direction of what follows.
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LONGEST = 80
_CONTEXT = 20


@dataclass(frozen=True, slots=True)
class Change:
    kind: Literal["added", "removed", "changed", "moved"]
    path: str
    before: Any = None
    after: Any = None
    # Where it was moved from.
    origin: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"+ {self.path}: {_brief(self.after)}"
            case "removed":
                return f"- {self.path}: {_brief(self.before)}"
            case "moved":
                return f"{self.origin} => {self.path}"
        before, after = _without_common_start(self.before, self.after)
        return f"{self.path}: {_brief(before)} -> {_brief(after)}"


def readable(patch: Patch, before: Any) -> list[str]:
    """One line for each change: ``summary: "a" -> "b"``, ``+ parts.critic: {...}``, ``- goals[2]: ...``."""
    return [str(change) for change in changes(patch, before)]


def changes(patch: Patch, before: Any) -> list[Change]:
    """What the patch changes in the document that it was made for, in its order."""
    draft = Draft(before)
    performed = (_performed(operation, draft) for operation in operations(patch))
    return [change for change in performed if change is not None]


def _performed(operation: Operation, draft: Draft) -> Change | None:
    kind, path = operation.kind, operation.path
    left = _for_people(operation.source if kind == "move" else path, draft)
    makes_room = kind not in {"remove", "replace"} and draft.is_in_list(path)
    before = MISSING if makes_room else draft.find(path)
    draft.perform(operation)
    path = draft.settled(path)
    match kind:
        case "test":
            return None
        case "remove":
            return Change("removed", left, before=before)
        case "move":
            return Change("moved", _for_people(path, draft), origin=left)
    after = draft.at(path)
    if before is MISSING:
        return Change("added", _for_people(path, draft), after=after)
    return Change("changed", _for_people(path, draft), before=before, after=after)


def _for_people(path: Tokens, draft: Draft) -> str:
    text = ""
    for depth, token in enumerate(path):
        if draft.is_in_list(path[: depth + 1]):
            text += f"[{token}]"
        elif _PLAIN_KEY.fullmatch(token):
            text += f".{token}" if text else token
        else:
            text += f"[{_brief(token)}]"
    return text or _WHOLE


def _brief(value: Any) -> str:
    text = shortened(canonical(value).decode(), _LONGEST)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _without_common_start(before: Any, after: Any) -> tuple[Any, Any]:
    """Of two long texts the parts from shortly before they differ, which would otherwise be cut off."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return before, after
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    skipped = common - _CONTEXT
    if skipped <= 0 or max(len(before), len(after)) <= _LONGEST:
        return before, after
    return "…" + before[skipped:], "…" + after[skipped:]
