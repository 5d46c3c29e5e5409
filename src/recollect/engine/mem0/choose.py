"""Which engine keeps memories: ours, or mem0's library or platform."""

from __future__ import annotations

from importlib.util import find_spec

import httpx

from recollect.db.tenancy import Tenancy
from recollect.engine.embedding.models import Embedder
from recollect.engine.mem0.library import Library
from recollect.engine.mem0.oss import Mem0Library
from recollect.engine.mem0.platform import Mem0Platform
from recollect.engine.mem0.wire import Wire
from recollect.engine.models import MemoryEngine
from recollect.errors import Misconfigured
from recollect.llm.service import Llm
from recollect.settings import Settings


def is_mem0_configured(settings: Settings) -> bool:
    """False only where memories would go to mem0's platform and there is no key for it."""
    return settings.mem0_mode != "platform" or settings.mem0_api_key is not None


def choose_engine(
    settings: Settings,
    native: MemoryEngine,
    *,
    library: Library,
    tenancy: Tenancy,
    embedder: Embedder,
    llm: Llm,
    http: httpx.AsyncClient,
) -> MemoryEngine:
    if settings.mem0_mode == "self-hosted":
        return native
    if settings.mem0_mode == "platform":
        return Mem0Platform(Wire(http, str(settings.mem0_host), settings.mem0_api_key), llm)
    if find_spec("mem0") is None:
        raise Misconfigured(
            'MEM0_MODE=oss needs mem0\'s library: pip install "recollect[mem0]". '
            "Without it, MEM0_MODE=self-hosted does the same and more."
        )
    return Mem0Library(library, tenancy, embedder, llm, keep_deleted_days=settings.memories_keep_deleted_days)
