"""mem0 as an engine: its library on our Postgres, or its platform."""

from recollect.engine.mem0.choose import is_mem0_configured

__all__ = ["is_mem0_configured"]
