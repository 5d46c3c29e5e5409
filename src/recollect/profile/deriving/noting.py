"""Goals and triggers, written into a document: each of them once, and never more than it can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.profile.deriving.parts import Names
from recollect.profile.deriving.reading import Told
from recollect.profile.deriving.stating import MAX_CHARACTERS, Stated, sayings
from recollect.profile.deriving.wording import essence, is_alike, shortened

MAX_GOALS = 50
MAX_TRIGGERS = 100

Entry = dict[str, Any]


class Notes:
    def __init__(self, document: dict[str, Any], names: Names) -> None:
        self._document = document
        self._names = names
        self._essences: dict[str, frozenset[str]] = {}
        self._denying = frozenset().union(*(each.negations for each in sayings()))

    def take(self, told: Told, met: Sequence[str]) -> None:
        """Add what the application or the user stated."""
        data = told.activity.data
        if goal := _text(data.get("goal")):
            self._add_goal(goal, met)
        if trigger := _text(data.get("trigger")):
            related = data.get("related_parts")
            among = self._names.named(related) if isinstance(related, list) else met
            self._add_trigger(Stated("trigger", trigger, _text(data.get("desired_outcome"))), among)
        if told.activity.kind in {"message", "note"}:
            for each in told.stated:
                if each.kind == "trigger":
                    self._add_trigger(each, met)
                elif self._same(each.text, self._every_goal(), "goal") is None:
                    self._add_goal(each.text, met)

    def _every_goal(self) -> list[Entry]:
        parts = (self._document.get("parts") or {}).values()
        return [goal for owner in (self._document, *parts) for goal in owner.get("goals") or ()]

    def _add_goal(self, goal: str, met: Sequence[str]) -> None:
        owner = self._document["parts"][met[0]] if met else self._document
        goals = owner.get("goals") or []
        if len(goals) < MAX_GOALS and self._same(goal, goals, "goal") is None:
            owner["goals"] = [*goals, {"goal": goal}]

    def _add_trigger(self, stated: Stated, related: Sequence[str]) -> None:
        triggers = self._document.get("triggers_and_goals") or []
        known = self._same(stated.text, triggers, "trigger")
        if known is not None:
            # What it should be like instead may be said later.
            if stated.outcome and not known.get("desired_outcome"):
                known["desired_outcome"] = stated.outcome
        elif len(triggers) < MAX_TRIGGERS:
            entry = {
                "trigger": stated.text,
                "desired_outcome": stated.outcome,
                "related_parts": list(related),
            }
            self._document["triggers_and_goals"] = [*triggers, entry]

    def _same(self, text: str, entries: Sequence[Entry], key: str) -> Entry | None:
        """The one that says the same, in other case or punctuation or in nearly the same words."""
        meant = self._essence(text)
        for entry in entries:
            written = entry.get(key)
            if isinstance(written, str):
                other = self._essence(written)
                # "Not" makes all the difference.
                if is_alike(meant, other) and not (meant ^ other) & self._denying:
                    return entry
        return None

    def _essence(self, text: str) -> frozenset[str]:
        if text not in self._essences:
            self._essences[text] = essence(text, self._denying)
        return self._essences[text]


def _text(given: Any) -> str:
    return shortened(given, MAX_CHARACTERS) if isinstance(given, str) else ""
