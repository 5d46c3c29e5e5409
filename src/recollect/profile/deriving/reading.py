"""Activities as they are read: the user's own words, once, in one order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.engine.language import words_of
from recollect.kit.text import one_line, plain
from recollect.profile.models import Activity

# What is pasted beyond this says no more about the user.
MAX_TEXT = 20_000
# Of all words that two texts use, so many are in both.
ALIKE = 0.8


@dataclass(frozen=True)
class Told:
    activity: Activity
    text: str
    """The user's own words, without control characters."""
    words: list[str]


def read(activities: Sequence[Activity]) -> list[Told]:
    return [_told(activity) for activity in sorted(activities, key=_place)]


def _told(activity: Activity) -> Told:
    is_own = activity.data.get("role", "user") == "user"
    text = plain(activity.content[:MAX_TEXT]) if is_own else ""
    return Told(activity, text, words_of(text))


def _place(activity: Activity) -> tuple[object, ...]:
    # The whole of it: those of the same moment have an order too.
    data = json.dumps(activity.data, sort_keys=True, default=repr) if activity.data else ""
    return activity.happened_at, activity.kind, activity.content, data


def shortened(text: str, most: int) -> str:
    """In one line, cut at a word."""
    text = one_line(text[: most * 4])
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut.rpartition(' ')[0].rstrip(' ,;:-') or cut}…"


def essence(text: str) -> frozenset[str]:
    """What is left of a text when case, accents, punctuation and order make no difference."""
    return frozenset(words_of(text)) or frozenset({text})


def is_alike(one: frozenset[str], other: frozenset[str], share: float = ALIKE) -> bool:
    return len(one & other) >= share * len(one | other)
