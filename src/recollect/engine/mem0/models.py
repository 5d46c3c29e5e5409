"""The nouns of mem0 as an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from recollect.engine.models import Event, Memory, Tenant
from recollect.errors import Misconfigured, NotAllowed, NotFound, RecollectError, Unavailable

# What is waited for at once: the library works in threads, the platform answers over the network.
AT_ONCE = 4


class NotSupported(RecollectError):
    """mem0 cannot do that; MEM0_MODE=self-hosted can."""

    code, status = "not_supported", 501


class Mem0NotConfigured(Misconfigured):
    """mem0 is not configured: set MEM0_API_KEY, or MEM0_MODE=self-hosted."""

    code = "mem0_not_configured"


class Mem0Away(Unavailable):
    """mem0 does not answer; try again in a moment."""

    code = "mem0_away"


@dataclass(frozen=True)
class Rights:
    """Whom a call is for, as our own database knows them. mem0 knows nothing of tenants."""

    id: UUID | None
    actor: UUID | None
    is_service: bool
    readable: Sequence[UUID]
    writable: Sequence[UUID]

    def tenant(self, workspace: UUID | None, *, to: Literal["read", "write"]) -> Tenant:
        whose = workspace or self.id
        if whose is None:
            raise NotAllowed("This is for a user or a workspace; the service says which.")
        return self.held_to(Tenant(whose, workspace), to=to)

    def held_to(self, tenant: Tenant, *, to: Literal["read", "write"]) -> Tenant:
        if not self.may(to, tenant.id):
            raise NotFound("There is no such workspace or company, or you may not do that in it.")
        return tenant

    def may(self, do: Literal["read", "write"], tenant: UUID) -> bool:
        return self.is_service or tenant in (self.readable if do == "read" else self.writable)


@dataclass(frozen=True)
class Piece:
    """One turn or fact on its way into mem0. ``digest`` is what makes it the same as another."""

    text: str
    kind: Literal["turn", "fact"]
    digest: str
    role: str | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    importance: float | None = None
    categories: tuple[str, ...] = ()
    made_by: str | None = None


@dataclass(frozen=True)
class Kept:
    """A memory as mem0 has it, and whose it is."""

    memory: Memory
    tenant: UUID


@dataclass(frozen=True)
class Acting:
    """Who does what to a memory, for its history."""

    tenant: Tenant
    actor: UUID | None
    reason: str | None = None
    event: Event | None = None
