"""What the tests of mail share: people to write to, and a look at what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.kit.secret import ServerSecret
from recollect.mail.service import Mail
from recollect.mail.smtp import MailServer
from tests.conftest import SECRET
from tests.mail.servers import Mailbox

BASE = "https://memory.example.com"

Tell = Callable[..., Awaitable[UUID]]
AddUser = Callable[[str], Awaitable[UUID]]
Sql = Callable[..., Awaitable[list[dict[str, Any]]]]


def sending(server: MailServer | None, **options: Any) -> Mail:
    """Mail that goes out through this server."""
    return Mail(
        ServerSecret(SECRET.encode()),
        server=server,
        mail_from="Recollect <noreply@example.com>" if server else None,
        base_url=BASE,
        **options,
    )


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def add_user(services: Services) -> AddUser:
    async def add(email: str) -> UUID:
        async with services.tenancy.acting_as(SERVICE) as tx:
            return await store.add_user(tx, email, None)

    return add


@pytest.fixture
def tell(services: Services) -> Tell:
    """Leaves a message for a user, as the service, to be sent: ``await tell(user, "Subject")``."""
    # Never reached: whoever delivers has a server of its own.
    mail = sending(MailServer("127.0.0.1", 1))

    async def leave(
        user_id: UUID,
        subject: str = "A subject",
        text: str = "Text.",
        kind: str = "job.failed",
        **options: Any,
    ) -> UUID:
        async with services.tenancy.acting_as(SERVICE) as tx:
            return await mail.send(tx, user_id, kind, subject, text, **options)

    return leave


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Sql]:
    """As the database's owner, who sees everything."""
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:

        async def run(statement: str, *parameters: Any) -> list[dict[str, Any]]:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

        yield run


async def states(sql: Sql) -> list[str]:
    rows = await sql("select state from mail.messages order by created_at, id")
    return [row["state"] for row in rows]


async def time_passes(sql: Sql) -> None:
    """It is time to try again what was postponed."""
    await sql("update mail.messages set not_before = now() where not_before is not null")
