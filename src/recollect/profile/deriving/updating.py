"""The steps from a document and what happened since to the document as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from recollect.profile.deriving.noting import Notes
from recollect.profile.deriving.parts import Names, introduce, refresh
from recollect.profile.deriving.reading import read
from recollect.profile.deriving.summary import summarise
from recollect.profile.models import Activity

Document = dict[str, Any]


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
    notes = Notes(derived, names)
    for each, ids in zip(told, met, strict=True):
        notes.take(each, ids)
    summary = derived.get("summary") or ""
    if (renewed := summarise(summary, told, parts, names)) != summary:
        derived["summary"] = renewed
    return derived
