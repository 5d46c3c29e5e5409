"""Stand-in until the real one is merged."""

from __future__ import annotations
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from recollect.profile.models import Activity


def derive(document: dict[str, Any], activities: Sequence[Activity], now: datetime) -> dict[str, Any]:
    return {
        **document,
        "summary": " ".join(a.content for a in activities if a.content)[:300] or document.get("summary", ""),
    }
