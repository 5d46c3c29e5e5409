"""What a member may change where they are a member is for row security to say; this is how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recollect.errors import NotAllowed

# The command line knows these errors too, and need not load the database's driver for them.
if TYPE_CHECKING:
    from psycopg.rows import DictRow

    from recollect.db.queries import Query
    from recollect.db.tenancy import Transaction


class RoleTooLow(NotAllowed):
    """Your role here does not allow that; ask an owner."""

    code = "role_too_low"


async def if_role_allows(tx: Transaction, query: Query, parameters: dict[str, Any]) -> DictRow:
    """Change what the caller was found to see."""
    with role_decides():
        changed = await tx.maybe(query, parameters)
    if changed is None:
        raise RoleTooLow
    return changed


@contextmanager
def role_decides() -> Iterator[None]:
    try:
        yield
    except NotAllowed as error:
        raise RoleTooLow from error
