"""The brain inside another backend's process, by the names that such a backend knows:

    from recollect.adapters.backend import save_company_memories

    result = await save_company_memories(company_id="...", memories=[...])

It acts as the service, with the settings of the environment, on an event loop of its own: whichever loop,
thread or Celery task calls, one set of connections serves them all.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

from recollect.adapters.background import PerProcess, kept_running
from recollect.bootstrap import Services, open_services
from recollect.brain.models import Kind, Saved
from recollect.brain.repositories import CompanyBrainRepository, UserBrainRepository, owner_named
from recollect.brain.service import Brain
from recollect.db.tenancy import SERVICE, Transaction
from recollect.engine.mem0 import choose
from recollect.errors import RecollectError
from recollect.settings import Settings

__all__ = [
    "CompanyBrainRepository",
    "UserBrainRepository",
    "get_supabase_client",
    "is_mem0_configured",
    "save_company_memories",
    "save_user_memories",
]

R = TypeVar("R")


@asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[Services]:
    async with open_services(settings) as services, kept_running(services.database):
        yield services


here = PerProcess(_open)
atexit.register(here.close)


class Backend:
    """What is open in this process, for repositories to work with."""

    @property
    def _client(self) -> Backend:
        """As a Supabase client has one inside: where code reaches through, it finds the same."""
        return self

    async def with_brain(self, work: Callable[[Brain, Transaction], Awaitable[R]]) -> R:
        async def call(services: Services) -> R:
            async with services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                return await work(services.brain, tx)

        return await asyncio.wrap_future(here.get(Settings).call(call))


def get_supabase_client() -> Backend:
    """The database, as this process has it open."""
    return Backend()


def is_mem0_configured() -> bool:
    """Whether memories have somewhere to go; false only with mem0's platform and no MEM0_API_KEY."""
    return choose.is_mem0_configured(Settings())


async def save_company_memories(company_id: UUID | str, memories: Sequence[object]) -> dict[str, Any]:
    """Keep facts about a company, each under its slug."""
    return await _save("company", company_id, memories)


async def save_user_memories(user_id: UUID | str, memories: Sequence[object]) -> dict[str, Any]:
    """Keep facts about a user, each under its slug."""
    return await _save("user", user_id, memories)


async def _save(kind: Kind, owner_id: UUID | str, memories: Sequence[object]) -> dict[str, Any]:
    try:
        owner = owner_named(kind, owner_id)
        saved = await Backend().with_brain(lambda brain, tx: brain.save(tx, owner, memories))
    except RecollectError as error:
        # Whoever calls by this name expects to be told, and not to be interrupted.
        saved = Saved(success=False, failed_count=len(memories), errors=[error.detail])
    return saved.model_dump()
