"""Each engine that memories can be kept by: our own, mem0's library, and a server that speaks as mem0's
platform does: another Recollect, with an account for all tenants of this one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from recollect.access import store
from recollect.access.models import NewKey
from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.tenancy import SERVICE, Caller
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings
from tests.conftest import SECRET, copied, make_settings, served

ENGINES = ("self-hosted", "oss", "platform")


@asynccontextmanager
async def settings_for(
    mode: str, home: Path, template: Database, database_url: str
) -> AsyncIterator[Settings]:
    if mode != "platform":
        yield make_settings(home, database_url, mem0_mode=mode, embedding="static")
        return
    async with _platform(home, template) as (host, key):
        yield make_settings(
            home, database_url, mem0_mode=mode, mem0_host=host, mem0_api_key=key, embedding="static"
        )


@asynccontextmanager
async def _platform(home: Path, template: Database) -> AsyncIterator[tuple[str, str]]:
    async with copied(template) as url:
        secret = ServerSecret(SECRET.encode())
        settings = make_settings(home, url, embedding="static")
        async with (
            databases.locate(settings, secret) as database,
            build_services(settings, secret, database) as services,
            served(services) as address,
        ):
            caller = await a_user(services, "operator@example.com")
            async with services.tenancy.acting_as(caller) as tx:
                issued = await services.access.create_key(tx, NewKey(name="mem0", scopes=["read", "write"]))
            yield address, issued.key


async def a_user(services: Services, email: str) -> Caller:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return Caller.user(await store.add_user(tx, email, None))
