"""The brain and the profile inside another backend's process, by the names that such a backend knows:

    from recollect.adapters.backend import reconstruct_memory, save_company_memories

    result = await save_company_memories(company_id="...", memories=[...])
    state = await reconstruct_memory(user_id)

It acts as the service, with the settings of the environment, on an event loop of its own: whichever loop,
thread or Celery task calls, one set of connections serves them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from recollect.adapters.background import PerProcess, kept_running
from recollect.bootstrap import Services, open_services
from recollect.brain.models import Kind, Saved
from recollect.brain.repositories import CompanyBrainRepository, UserBrainRepository, owner_named
from recollect.brain.service import Brain
from recollect.db.tenancy import SERVICE, Transaction
from recollect.engine.mem0 import choose
from recollect.errors import InvalidInput, RecollectError
from recollect.profile.models import Document, Patch
from recollect.settings import Settings

__all__ = [
    "CompanyBrainRepository",
    "UserBrainRepository",
    "generate_memory_update",
    "get_supabase_client",
    "is_mem0_configured",
    "reconstruct_memory",
    "save_company_memories",
    "save_new_snapshot",
    "save_user_memories",
]

R = TypeVar("R")


@asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[Services]:
    async with open_services(settings) as services, kept_running(services.database):
        yield services


here = PerProcess(_open)


class Backend:
    """What is open in this process, for repositories to work with."""

    @property
    def _client(self) -> Backend:
        """As a Supabase client has one inside: where code reaches through, it finds the same."""
        return self

    async def with_brain(self, work: Callable[[Brain, Transaction], Awaitable[R]]) -> R:
        return await _in_transaction(lambda services, tx: work(services.brain, tx))


async def _call(work: Callable[[Services], Awaitable[R]]) -> R:
    return await asyncio.wrap_future(here.get(Settings).call(work))


async def _in_transaction(work: Callable[[Services, Transaction], Awaitable[R]]) -> R:
    async def call(services: Services) -> R:
        async with services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return await work(services, tx)

    return await _call(call)


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


async def reconstruct_memory(
    user_id: UUID | str, version: int | None = None, at: datetime | None = None
) -> Document:
    """A user's state: the latest, that of a version, or as it was at a moment."""
    found = await _in_transaction(
        lambda services, tx: services.profile.reconstruct_memory(tx, _user(user_id), version=version, at=at)
    )
    return found.document


async def generate_memory_update(user_id: UUID | str) -> Patch:
    """The patch by which a user's state would be brought up to date; nothing is stored."""
    proposed = await _call(lambda services: services.updater.generate_memory_update(_user(user_id)))
    return proposed.patch


async def save_new_snapshot(user_id: UUID | str, patch: Patch, *, base: int | None = None) -> int:
    """Store a patch as a new version, and say which; ``base`` is the version that it was made from."""
    saved = await _in_transaction(
        lambda services, tx: services.profile.save_new_snapshot(tx, _user(user_id), patch, base=base)
    )
    return saved.version


def _user(user_id: UUID | str) -> UUID:
    try:
        return user_id if isinstance(user_id, UUID) else UUID(user_id)
    except ValueError as error:
        raise InvalidInput("user_id: that is not a UUID.") from error
