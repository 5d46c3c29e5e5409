"""Activities as they are read: the user's own words, once, in one order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.engine.language import words_of
from recollect.kit.text import plain
from recollect.profile.deriving.stating import Stated, statements_in
from recollect.profile.models import Activity

# What is pasted beyond this says no more about the user.
MAX_TEXT = 20_000


@dataclass(frozen=True)
class Told:
    activity: Activity
    text: str
    """The user's own words, without control characters."""
    words: list[str]

    @cached_property
    def stated(self) -> list[Stated]:
        return list(statements_in(self.text, self.words))


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
