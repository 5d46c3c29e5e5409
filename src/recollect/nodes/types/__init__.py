"""Every type of memory node, a file each. A new one gets its line here."""

from __future__ import annotations

from recollect.nodes.types.base import MemoryType
from recollect.nodes.types.key_value_store import KeyValueStore
from recollect.nodes.types.working_memory import WorkingMemory

TYPES: dict[str, MemoryType] = {each.name: each for each in (KeyValueStore(), WorkingMemory())}
