"""The composition root: builds every service from the settings. All surfaces and tests start here."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx

from recollect.access.directory import directory_for
from recollect.access.membership import Membership
from recollect.access.service import Access
from recollect.access.tokens import SupabaseTokens
from recollect.bank.sealing import Sealer
from recollect.bank.service import Bank
from recollect.bank.store import BankStore
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.migrate import Migration, ensure_logins, migrate
from recollect.db.tenancy import Tenancy
from recollect.errors import Misconfigured
from recollect.jobs.worker import Routine
from recollect.kit.paging import Cursors
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings

OUTSIDE_CALL_SECONDS = 10
HOURLY = timedelta(hours=1)


@dataclass(frozen=True)
class Services:
    settings: Settings
    secret: ServerSecret
    database: Database
    tenancy: Tenancy
    cursors: Cursors
    tokens: SupabaseTokens
    access: Access
    membership: Membership
    bank: Bank

    @property
    def routines(self) -> tuple[Routine, ...]:
        """What the worker sees to."""
        return (
            Routine("access: purge what has expired", HOURLY, self.access.purge_expired),
            Routine("bank: purge by retention", HOURLY, lambda: self.bank.purge(self.tenancy)),
        )


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[tuple[Database, ServerSecret]]:
    """The database, running but not necessarily migrated."""
    _prepare_home(settings.home)
    configured = settings.secret_key.get_secret_value() if settings.secret_key else None
    secret = ServerSecret.load(settings.home, configured)
    async with databases.locate(settings, secret) as database:
        yield database, secret


def _prepare_home(home: Path) -> None:
    # Root's Postgres runs as somebody else, who has to pass through; what is secret inside is 0600.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        home.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"{home} cannot be made ({error.strerror}); set RECOLLECT_HOME to a directory of yours."
        ) from error


async def bring_up_to_date(
    database: Database,
    on_applied: Callable[[Migration], None] | None = None,
    *,
    take_over: bool = False,
) -> list[Migration]:
    """Migrate, and see that the server's own logins exist."""
    applied = await migrate(database.admin, on_applied=on_applied)
    await ensure_logins(database.admin, database.logins, take_over=take_over)
    return applied


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Everything, on a database that is up to date."""
    async with open_database(settings) as (database, secret):
        await bring_up_to_date(database)
        async with build_services(settings, secret, database) as services:
            yield services


@asynccontextmanager
async def build_services(
    settings: Settings, secret: ServerSecret, database: Database
) -> AsyncIterator[Services]:
    async with (
        httpx.AsyncClient(timeout=OUTSIDE_CALL_SECONDS) as http,
        databases.open_tenancy(database, settings.database_pool_size) as tenancy,
    ):
        sealer = Sealer(
            settings.bank_encrypted_namespaces,
            (key.get_secret_value() for key in settings.bank_encryption_keys),
        )
        yield Services(
            settings=settings,
            secret=secret,
            database=database,
            tenancy=tenancy,
            cursors=Cursors(secret),
            tokens=SupabaseTokens(settings, http),
            access=Access(tenancy, secret, settings, directory_for(settings, http)),
            membership=Membership(),
            bank=Bank(BankStore(sealer), settings.bank_retention_days),
        )
