"""The parts of a user: which of them was met, and how present each still is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.engine.language import words_of
from recollect.kit.text import one_line
from recollect.profile.deriving.reading import Told
from recollect.profile.deriving.wording import shortened

Part = dict[str, Any]

HALF_LIFE = timedelta(days=7)
ACTIVE = 0.3
NEW_INFLUENCE = 0.5
# A score of nothing would be endlessly old.
FAINTEST = 0.001
MAX_PARTS = 200
MAX_NAME = 100
# Other words were chosen by a person, and stay.
_OUR_STATUSES = (None, "", "active", "dormant")
# Stands where a name was: no word.
_TAKEN = " · "


def introduce(parts: dict[str, Part], told: Iterable[Told]) -> None:
    """Add the parts that applications gave both an id and a name."""
    for each in told:
        for given in _named_in(each.activity.data):
            if not isinstance(given, dict) or len(parts) >= MAX_PARTS:
                continue
            name, identifier = given.get("name"), given.get("id")
            if isinstance(name, str) and isinstance(identifier, str) and identifier not in parts:
                name = shortened(name, MAX_NAME)
                if name and 0 < len(identifier) <= MAX_NAME and one_line(identifier) == identifier:
                    parts[identifier] = {"name": name, "influence_score": NEW_INFLUENCE, "goals": []}


def _named_in(data: Mapping[str, Any]) -> Iterator[Any]:
    yield data.get("part")
    for key in ("parts", "related_parts"):
        several = data.get(key)
        yield from several if isinstance(several, list) else ()


class Names:
    """Finds parts by what they are called."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._ids = list(parts)
        self._by_name: dict[str, list[str]] = {}
        for identifier, part in parts.items():
            if isinstance(part, dict) and (name := _essence(part.get("name"))):
                self._by_name.setdefault(name, []).append(identifier)
        # "Inner Critic" is not the part "Critic".
        self._longest_first = sorted(self._by_name, key=len, reverse=True)

    def met_by(self, told: Told) -> list[str]:
        """The parts that an activity names, then those that it mentions."""
        mentioned = self.mentioned_in(told.words) if told.words else frozenset()
        in_order = [identifier for identifier in self._ids if identifier in mentioned] if mentioned else []
        return list(dict.fromkeys([*self.named(_named_in(told.activity.data)), *in_order]))

    def named(self, given: Iterable[Any]) -> list[str]:
        """The ids of parts given as an id, as a name, or as an object that has either."""
        found: list[str] = []
        for each in given:
            for key in (each.get("id"), each.get("name")) if isinstance(each, dict) else (each,):
                identifiers = self._called(key)
                if identifiers:
                    found.extend(identifiers)
                    break
        return list(dict.fromkeys(found))

    def _called(self, key: Any) -> list[str]:
        if not isinstance(key, str):
            return []
        return [key] if key in self._ids else self._by_name.get(_essence(key), [])

    def mentioned_in(self, words: Sequence[str]) -> frozenset[str]:
        line = f" {' '.join(words)} "
        found: list[str] = []
        for name in self._longest_first:
            if (whole := f" {name} ") in line:
                found.extend(self._by_name[name])
                while whole in line:
                    line = line.replace(whole, _TAKEN)
        return frozenset(found)


def _essence(name: Any) -> str:
    return " ".join(words_of(name)) if isinstance(name, str) else ""


def refresh(part: Part, met_at: Sequence[datetime], now: datetime) -> None:
    """Count the meetings, and let the part fade since the last of them."""
    seen = _seen(part, now)
    if met_at:
        mentions = part.get("mentions")
        part["mentions"] = (mentions if isinstance(mentions, int) else 0) + len(met_at)
        latest = min(max(met_at), now)
        seen = max(seen, latest) if seen else latest
    seen = seen or now
    if seen != _time(part.get("last_seen")):
        part["last_seen"] = seen.astimezone(UTC).isoformat()
    recency = _recency(seen, now)
    if part.get("recency_score") != recency:
        part["recency_score"] = recency
    if part.get("status") in _OUR_STATUSES:
        part["status"] = "active" if recency >= ACTIVE else "dormant"


def _recency(seen: datetime, now: datetime) -> float:
    half_lives = max(0.0, (now - seen) / HALF_LIFE)
    return round(math.exp2(-half_lives), 2)


def _seen(part: Part, now: datetime) -> datetime | None:
    """When the part was seen last; if that was never noted, when its score says that it was."""
    seen, score = _time(part.get("last_seen")), part.get("recency_score")
    if seen or not isinstance(score, int | float):
        return seen
    return now - HALF_LIFE * math.log2(1 / min(1.0, max(FAINTEST, score)))


def _time(written: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(written)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
