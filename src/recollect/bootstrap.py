"""The composition root: builds every service from the settings. All surfaces and tests start here."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from recollect.access.directory import directory_for
from recollect.access.membership import Membership
from recollect.access.service import Access
from recollect.access.tokens import SupabaseTokens
from recollect.bank.sealing import Sealer
from recollect.bank.service import Bank
from recollect.bank.store import BankStore
from recollect.bank.tasks import subscriptions as bank_subscriptions
from recollect.bank.tasks import tasks as bank_tasks
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.migrate import Migration, ensure_logins, migrate
from recollect.db.tenancy import Tenancy
from recollect.errors import Misconfigured
from recollect.events.bridge import Bridge
from recollect.events.inbound.service import Inbound
from recollect.events.live import Live
from recollect.events.models import Subscription
from recollect.events.relay import Relay
from recollect.events.service import Events
from recollect.events.webhooks.sending import Sender
from recollect.events.webhooks.service import Webhooks
from recollect.events.webhooks.store import SecretBox
from recollect.events.webhooks.tasks import tasks as webhook_tasks
from recollect.jobs.engine import ensure_engine
from recollect.jobs.retention import Purge, retention
from recollect.jobs.schedule import Schedule
from recollect.jobs.service import Jobs
from recollect.jobs.worker import Worker
from recollect.kit.paging import Cursors
from recollect.kit.secret import ServerSecret
from recollect.mail import notices
from recollect.mail.service import Mail
from recollect.mail.smtp import MailServer
from recollect.mail.tasks import tasks as mail_tasks
from recollect.redis.cache import ReadCache
from recollect.redis.link import RedisLink
from recollect.settings import Settings

OUTSIDE_CALL_SECONDS = 10


@dataclass(frozen=True)
class Services:
    settings: Settings
    secret: ServerSecret
    database: Database
    tenancy: Tenancy
    redis: RedisLink
    cursors: Cursors
    tokens: SupabaseTokens
    access: Access
    membership: Membership
    bank: Bank
    jobs: Jobs
    schedule: Schedule
    events: Events
    live: Live
    webhooks: Webhooks
    inbound: Inbound
    mail: Mail
    relay: Relay
    worker: Worker


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
    await ensure_engine(database.admin)
    return applied


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Everything, on a database that is up to date."""
    async with open_database(settings) as (database, secret):
        await bring_up_to_date(database)
        async with build_services(settings, secret, database) as services:
            yield services


@dataclass(frozen=True)
class Outside:
    """What leads out of the process, besides Postgres."""

    http: httpx.AsyncClient
    redis: RedisLink
    sender: Sender


@asynccontextmanager
async def build_services(
    settings: Settings, secret: ServerSecret, database: Database
) -> AsyncIterator[Services]:
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
    async with (
        httpx.AsyncClient(timeout=OUTSIDE_CALL_SECONDS) as http,
        RedisLink(redis_url) as redis,
        Sender(allow_private=settings.webhooks_allow_private) as sender,
        databases.open_tenancy(database, settings.database_pool_size, settings.worker_concurrency) as tenancy,
    ):
        yield _build(settings, secret, database, tenancy, Outside(http, redis, sender))


def _build(
    settings: Settings, secret: ServerSecret, database: Database, tenancy: Tenancy, outside: Outside
) -> Services:
    cache = ReadCache(outside.redis)
    box = SecretBox(secret)
    access = Access(tenancy, secret, settings, directory_for(settings, outside.http))
    bank = Bank(BankStore(_sealer(settings)), settings.bank_retention_days, cache)
    events = Events(settings.events_keep_days)
    webhooks = Webhooks(box, allow_private=settings.webhooks_allow_private)
    inbound = Inbound(
        tenancy, stripe_secret=settings.stripe_webhook_secret, mem0_secret=settings.mem0_webhook_secret
    )
    mail = _mail(settings, secret)
    jobs = Jobs(settings.jobs_keep_days)
    purges: dict[str, Purge] = {
        "credentials": access.purge_expired,
        "jobs": lambda: jobs.purge(tenancy),
        "events": lambda: events.purge(tenancy),
        "deliveries": lambda: webhooks.purge(tenancy),
        "received": inbound.purge,
        "mail": lambda: mail.purge(tenancy),
    }
    jobs.offer(
        *bank_tasks(bank, tenancy),
        *webhook_tasks(outside.sender, box),
        *mail_tasks(mail),
        *notices.tasks(mail),
        retention(purges),
    )
    schedule = Schedule(jobs, settings.schedule)
    relay = Relay(tenancy, database.worker, _subscriptions(settings))
    bridge = Bridge(tenancy, database.worker, events, outside.redis, cache)
    return Services(
        settings=settings,
        secret=secret,
        database=database,
        tenancy=tenancy,
        redis=outside.redis,
        cursors=Cursors(secret),
        tokens=SupabaseTokens(settings, outside.http),
        access=access,
        membership=Membership(),
        bank=bank,
        jobs=jobs,
        schedule=schedule,
        events=events,
        live=Live(tenancy, database.worker, events),
        webhooks=webhooks,
        inbound=inbound,
        mail=mail,
        relay=relay,
        worker=Worker(
            tenancy.beside_requests(),
            database.worker,
            jobs.tasks,
            settings.worker_concurrency,
            beside=(relay.watch, bridge.watch, lambda: schedule.watch(tenancy)),
        ),
    )


def _subscriptions(settings: Settings) -> list[Subscription]:
    return [*notices.subscriptions(), *bank_subscriptions(note_upgrades=settings.bank_note_upgrades)]


def _sealer(settings: Settings) -> Sealer:
    keys = (key.get_secret_value() for key in settings.bank_encryption_keys)
    return Sealer(settings.bank_encrypted_namespaces, keys)


def _mail(settings: Settings, secret: ServerSecret) -> Mail:
    server = None
    if settings.smtp_host is not None:
        server = MailServer(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_username,
            settings.smtp_password.get_secret_value() if settings.smtp_password else None,
        )
    here = settings.public_url or f"http://{settings.host}:{settings.port}"
    return Mail(secret, server=server, mail_from=settings.mail_from, base_url=str(here))
