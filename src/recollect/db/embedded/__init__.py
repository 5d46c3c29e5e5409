"""Postgres without an administrator: ours to start, share between processes, and stop.

``running`` is the way in. Each process that uses a home holds a shared lock; a small keeper
process is Postgres's parent and ends it once no such lock is left, however its holders ended.
"""

from __future__ import annotations

from recollect.db.embedded.failures import DidNotStart
from recollect.db.embedded.server import EmbeddedPostgres, running

__all__ = ["DidNotStart", "EmbeddedPostgres", "running"]
