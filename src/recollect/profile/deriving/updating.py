"""The steps from a document and what happened since to the document as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from recollect.profile.deriving.parts import Names, introduce, refresh
from recollect.profile.deriving.reading import Told, essence, is_alike, read, shortened
from recollect.profile.deriving.stating import MAX_CHARACTERS, Stated, sayings, statements_in
from recollect.profile.deriving.summary import summarise
from recollect.profile.models import Activity

MAX_GOALS = 50
MAX_TRIGGERS = 100

Document = dict[str, Any]
Entries = list[dict[str, Any]]


def derive(document: Document, activities: Sequence[Activity], now: datetime) -> Document:
    """The document with everything that the activities tell; without any, its parts still fade.

    ``safety_notes``, and whatever is not derived, stay as they are.
    """
    derived = deepcopy(document)
    told = read(activities)
    parts = derived.get("parts") or {}
    introduce(parts, told)
    if parts:
        derived["parts"] = parts
    names = Names(parts)
    met = [names.met_by(each) for each in told]
    for identifier, part in parts.items():
        times = [each.activity.happened_at for each, ids in zip(told, met, strict=True) if identifier in ids]
        refresh(part, times, now)
    for each, ids in zip(told, met, strict=True):
        _note(derived, each, ids, names)
    summary = derived.get("summary") or ""
    if (renewed := summarise(summary, told, parts, names)) != summary:
        derived["summary"] = renewed
    return derived


def _note(document: Document, told: Told, met: Sequence[str], names: Names) -> None:
    """Add the goals and triggers that the application or the user stated."""
    data = told.activity.data
    if goal := _text(data.get("goal")):
        _add_goal(document, goal, met)
    if trigger := _text(data.get("trigger")):
        related = data.get("related_parts")
        among = names.named(related) if isinstance(related, list) else met
        _add_trigger(document, Stated("trigger", trigger, _text(data.get("desired_outcome"))), among)
    if told.activity.kind in {"message", "note"}:
        for each in statements_in(told.text, told.words):
            if each.kind == "trigger":
                _add_trigger(document, each, met)
            elif not _is_known(each.text, _every_goal(document), "goal"):
                _add_goal(document, each.text, met)


def _text(given: Any) -> str:
    return shortened(given, MAX_CHARACTERS) if isinstance(given, str) else ""


def _every_goal(document: Document) -> Entries:
    parts = (document.get("parts") or {}).values()
    return [goal for owner in (document, *parts) for goal in owner.get("goals") or ()]


def _add_goal(document: Document, goal: str, met: Sequence[str]) -> None:
    owner = document["parts"][met[0]] if met else document
    goals = owner.get("goals") or []
    if len(goals) < MAX_GOALS and not _is_known(goal, goals, "goal"):
        owner["goals"] = [*goals, {"goal": goal}]


def _add_trigger(document: Document, stated: Stated, related: Sequence[str]) -> None:
    triggers = document.get("triggers_and_goals") or []
    known = next(_same(stated.text, triggers, "trigger"), None)
    if known is not None:
        # What it should be like instead may be said later.
        if stated.outcome and not known.get("desired_outcome"):
            known["desired_outcome"] = stated.outcome
    elif len(triggers) < MAX_TRIGGERS:
        entry = {"trigger": stated.text, "desired_outcome": stated.outcome, "related_parts": list(related)}
        document["triggers_and_goals"] = [*triggers, entry]


def _is_known(text: str, entries: Entries, key: str) -> bool:
    return any(True for _ in _same(text, entries, key))


def _same(text: str, entries: Entries, key: str) -> Iterator[dict[str, Any]]:
    """Those that say the same, in other case or punctuation or nearly the same words."""
    meant = essence(text)
    denying = frozenset().union(*(each.negations for each in sayings()))
    for entry in entries:
        written = entry.get(key)
        if isinstance(written, str):
            other = essence(written)
            # "Not" makes all the difference.
            if is_alike(meant, other) and not (meant ^ other) & denying:
                yield entry
