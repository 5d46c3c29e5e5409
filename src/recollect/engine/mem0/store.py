"""The statements of this package."""

from __future__ import annotations

from recollect.db.queries import Queries

queries = Queries(__package__)
