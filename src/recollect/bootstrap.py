"""The composition root: builds every service from the settings. All surfaces and tests start here."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

import httpx

from recollect.access.directory import directory_for
from recollect.access.identifiers import Identifiers
from recollect.access.membership import Membership
from recollect.access.service import Access
from recollect.access.tokens import SupabaseTokens
from recollect.bank.sealing import Sealer
from recollect.bank.service import Bank
from recollect.bank.store import BankStore
from recollect.bank.tasks import subscriptions as bank_subscriptions
from recollect.bank.tasks import tasks as bank_tasks
from recollect.brain.loading import Loading
from recollect.brain.models import Mirror
from recollect.brain.native import NativeMirror
from recollect.brain.proposals import Proposals
from recollect.brain.reconciling import Mem0Mirror
from recollect.brain.service import Brain
from recollect.brain.tasks import subscriptions as brain_subscriptions
from recollect.brain.tasks import tasks as brain_tasks
from recollect.brain.tools import Toolboxes
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.migrate import Migration, ensure_logins, migrate
from recollect.db.tenancy import Tenancy
from recollect.engine.dialect.service import Dialect
from recollect.engine.dialect.tasks import tasks as dialect_tasks
from recollect.engine.embedding.choose import open_embedder
from recollect.engine.embedding.static import StaticEmbedder
from recollect.engine.mem0.adapter import Mem0Engine
from recollect.engine.mem0.choose import choose_engine, is_mem0_configured
from recollect.engine.mem0.library import Library
from recollect.engine.models import MemoryEngine
from recollect.engine.searching import SENTENCE_ENCODER_WEIGHS, WORD_TABLE_WEIGHS
from recollect.engine.service import Engine
from recollect.engine.tasks import tasks as engine_tasks
from recollect.engine.upkeep import Upkeep
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
from recollect.jobs.models import Task
from recollect.jobs.retention import Purge, retention
from recollect.jobs.schedule import Schedule
from recollect.jobs.service import Jobs
from recollect.jobs.worker import Worker
from recollect.kit.paging import Cursors
from recollect.kit.secret import ServerSecret
from recollect.llm.choice import dialect_for, price_for
from recollect.llm.endpoint import Endpoint
from recollect.llm.ledger import Ledger
from recollect.llm.service import Llm
from recollect.mail import notices
from recollect.mail.service import Mail
from recollect.mail.smtp import MailServer
from recollect.mail.tasks import tasks as mail_tasks
from recollect.nodes.service import Nodes
from recollect.nodes.tasks import tasks as node_tasks
from recollect.profile.bounds import Bounds
from recollect.profile.compacting import Compactor
from recollect.profile.prompts import Prompts
from recollect.profile.schemas import Schema
from recollect.profile.service import Profile
from recollect.profile.sources import SOURCES
from recollect.profile.tasks import tasks as profile_tasks
from recollect.profile.updating import Updater
from recollect.redis.cache import ReadCache
from recollect.redis.link import RedisLink
from recollect.rules.extraction import Extractor
from recollect.rules.finding import Finder
from recollect.rules.histories.service import Histories
from recollect.rules.prompts import Prompts as RulePrompts
from recollect.rules.remembering import Remembering
from recollect.rules.service import Rules
from recollect.rules.tasks import tasks as rule_tasks
from recollect.settings import Settings

OUTSIDE_CALL_SECONDS = 10


@dataclass(frozen=True)
class Faculties:
    """What it does, each by its own door."""

    bank: Bank
    brain: Brain
    proposals: Proposals
    toolboxes: Toolboxes
    nodes: Nodes
    profile: Profile
    profile_prompts: Prompts
    updater: Updater
    histories: Histories
    rules: Rules
    rule_prompts: RulePrompts
    extractor: Extractor


@dataclass(frozen=True)
class Services(Faculties):
    """The faculties, and all that they stand on."""

    settings: Settings
    secret: ServerSecret
    database: Database
    tenancy: Tenancy
    redis: RedisLink
    cursors: Cursors
    tokens: SupabaseTokens
    access: Access
    membership: Membership
    engine: MemoryEngine
    dialect: Dialect
    jobs: Jobs
    schedule: Schedule
    events: Events
    live: Live
    webhooks: Webhooks
    inbound: Inbound
    mail: Mail
    llm: Llm
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
    mem0: Library


@asynccontextmanager
async def build_services(
    settings: Settings, secret: ServerSecret, database: Database
) -> AsyncIterator[Services]:
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
    async with (
        httpx.AsyncClient(timeout=OUTSIDE_CALL_SECONDS) as http,
        RedisLink(redis_url) as redis,
        Sender(allow_private=settings.webhooks_allow_private) as sender,
        Library(database.worker, settings.home / "mem0") as mem0,
        databases.open_tenancy(database, settings.database_pool_size, settings.worker_concurrency) as tenancy,
    ):
        yield _build(settings, secret, database, tenancy, Outside(http, redis, sender, mem0))


def _build(
    settings: Settings, secret: ServerSecret, database: Database, tenancy: Tenancy, outside: Outside
) -> Services:
    cache, box = ReadCache(outside.redis), SecretBox(secret)
    access = Access(tenancy, secret, settings, directory_for(settings, outside.http))
    events = Events(settings.events_keep_days)
    webhooks = Webhooks(box, allow_private=settings.webhooks_allow_private)
    inbound = _inbound(settings, tenancy)
    mail = _mail(settings, secret)
    llm = _llm(settings, tenancy, outside.http)
    native, engine, upkeep = _engine(settings, database, tenancy, llm, outside)
    faculties = _faculties(settings, secret, tenancy, engine, llm, cache)
    jobs = Jobs(settings.jobs_keep_days)
    dialect = Dialect(native, jobs, has_model=llm.configured, keep_days=settings.jobs_keep_days)
    purges = _purges(tenancy, jobs=jobs, events=events, deliveries=webhooks, mail=mail, memories=engine)
    purges |= _purges(tenancy, mem0_requests=dialect, activities=faculties.updater)
    purges |= {"credentials": access.purge_expired, "received": inbound.purge, "model_calls": llm.purge}
    jobs.offer(
        *_faculty_tasks(settings, tenancy, faculties, jobs),
        *engine_tasks(upkeep),
        *dialect_tasks(dialect, native),
        *webhook_tasks(outside.sender, box),
        *mail_tasks(mail),
        *notices.tasks(mail),
        retention(purges),
    )
    schedule = Schedule(jobs, settings.schedule)
    relay = Relay(tenancy, database.worker, _subscriptions(settings))
    bridge = Bridge(tenancy, database.worker, events, outside.redis, cache)
    beside = (relay.watch, bridge.watch, lambda: schedule.watch(tenancy))
    return Services(
        **vars(faculties),
        settings=settings,
        secret=secret,
        database=database,
        tenancy=tenancy,
        redis=outside.redis,
        cursors=Cursors(secret),
        tokens=SupabaseTokens(settings, outside.http),
        access=access,
        membership=Membership(Identifiers(settings.entity_id_scheme)),
        engine=engine,
        dialect=dialect,
        jobs=jobs,
        schedule=schedule,
        events=events,
        live=Live(tenancy, database.worker, events),
        webhooks=webhooks,
        inbound=inbound,
        mail=mail,
        llm=llm,
        relay=relay,
        worker=_worker(settings, database, tenancy, jobs, beside),
    )


def _faculties(
    settings: Settings,
    secret: ServerSecret,
    tenancy: Tenancy,
    engine: MemoryEngine,
    llm: Llm,
    cache: ReadCache,
) -> Faculties:
    brain = _brain(settings, tenancy, engine)
    proposals = Proposals(brain)
    profile, updater = _profile(settings, tenancy, llm)
    histories = Histories(secret, engine)
    return Faculties(
        bank=Bank(BankStore(_sealer(settings)), settings.bank_retention_days, cache),
        brain=brain,
        proposals=proposals,
        toolboxes=Toolboxes(tenancy, brain, proposals, settings.brain_agent_writes),
        nodes=Nodes(),
        profile=profile,
        profile_prompts=Prompts(),
        updater=updater,
        histories=histories,
        rules=Rules(),
        rule_prompts=RulePrompts(),
        extractor=_extractor(settings, tenancy, histories, engine, llm),
    )


def _faculty_tasks(
    settings: Settings, tenancy: Tenancy, faculties: Faculties, jobs: Jobs
) -> tuple[Task, ...]:
    brain, profile = faculties.brain, faculties.profile
    return (
        *bank_tasks(faculties.bank, tenancy),
        *brain_tasks(brain, Loading(tenancy, brain, settings.brain_language)),
        *node_tasks(faculties.nodes, tenancy),
        *profile_tasks(faculties.updater, _compactor(settings, tenancy, profile), jobs),
        *rule_tasks(faculties.extractor, jobs),
    )


def _worker(
    settings: Settings,
    database: Database,
    tenancy: Tenancy,
    jobs: Jobs,
    beside: Sequence[Callable[[], Awaitable[None]]],
) -> Worker:
    return Worker(
        tenancy.beside_requests(), database.worker, jobs.tasks, settings.worker_concurrency, beside=beside
    )


def _brain(settings: Settings, tenancy: Tenancy, engine: MemoryEngine) -> Brain:
    identifiers = Identifiers(settings.entity_id_scheme)
    mirror: Mirror
    if isinstance(engine, Engine):
        mirror = NativeMirror(engine, tenancy, identifiers)
    elif isinstance(engine, Mem0Engine):
        mirror = Mem0Mirror(engine, tenancy, identifiers)
    else:
        raise TypeError(f"facts cannot be kept in step with {engine.name}")
    return Brain(engine, mirror, identifiers, is_configured=is_mem0_configured(settings))


def _profile(settings: Settings, tenancy: Tenancy, llm: Llm) -> tuple[Profile, Updater]:
    profile = Profile(_schema(settings), checkpoint_every=settings.profile_checkpoint_every)
    bounds = Bounds(settings.profile_max_drop, settings.profile_updates_safety_notes)
    return profile, Updater(
        tenancy.beside_requests(),
        profile,
        llm,
        bounds,
        SOURCES,
        model_seconds=settings.model_timeout_seconds,
        keep_days=settings.activities_keep_days,
    )


def _extractor(
    settings: Settings, tenancy: Tenancy, histories: Histories, engine: MemoryEngine, llm: Llm
) -> Extractor:
    beside = tenancy.beside_requests()
    finder = Finder(Remembering(beside, engine), llm, run_tokens=settings.rules_run_tokens)
    return Extractor(beside, histories, finder)


def _schema(settings: Settings) -> Schema:
    """The form of profiles, which may be in a package of the deployment's own."""
    module, _, name = settings.profile_schema.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Misconfigured(f"RECOLLECT_PROFILE_SCHEMA: {error}.") from error
    if not isinstance(found, Schema):
        raise Misconfigured(f"RECOLLECT_PROFILE_SCHEMA: {settings.profile_schema} is not a Schema.")
    return found


def _compactor(settings: Settings, tenancy: Tenancy, profile: Profile) -> Compactor:
    return Compactor(tenancy.beside_requests(), profile, checkpoint_every=settings.profile_checkpoint_every)


class _Keeping(Protocol):
    async def purge(self, tenancy: Tenancy) -> int: ...


def _purges(tenancy: Tenancy, **parts: _Keeping) -> dict[str, Purge]:
    """What each part has to forget, under the name by which the retention job counts it."""
    return {name: partial(part.purge, tenancy) for name, part in parts.items()}


def _subscriptions(settings: Settings) -> list[Subscription]:
    return [
        *notices.subscriptions(),
        *bank_subscriptions(note_upgrades=settings.bank_note_upgrades),
        *brain_subscriptions(follow_mem0=settings.mem0_mode == "platform"),
    ]


def _inbound(settings: Settings, tenancy: Tenancy) -> Inbound:
    return Inbound(
        tenancy, stripe_secret=settings.stripe_webhook_secret, mem0_secret=settings.mem0_webhook_secret
    )


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


def _llm(settings: Settings, tenancy: Tenancy, http: httpx.AsyncClient) -> Llm:
    ledger = Ledger(
        tenancy, daily_tokens=settings.model_daily_tokens or None, keep_days=settings.model_calls_keep_days
    )
    dialect = dialect_for(settings)
    if dialect is None:
        return Llm(ledger, None, seconds=settings.model_timeout_seconds)
    price = price_for(settings, dialect)
    return Llm(ledger, Endpoint(http, dialect), seconds=settings.model_timeout_seconds, price=price)


def _engine(
    settings: Settings, database: Database, tenancy: Tenancy, llm: Llm, outside: Outside
) -> tuple[Engine, MemoryEngine, Upkeep]:
    """Our own engine, the one that is used, and what keeps ours well."""
    embedder = open_embedder(settings, outside.http)
    weighs = WORD_TABLE_WEIGHS if embedder.model == StaticEmbedder.model else SENTENCE_ENCODER_WEIGHS
    native = Engine(
        embedder, llm, meaning_weighs=weighs, keep_deleted_days=settings.memories_keep_deleted_days
    )
    chosen = choose_engine(
        settings,
        native,
        library=outside.mem0,
        tenancy=tenancy,
        embedder=embedder,
        llm=llm,
        http=outside.http,
    )
    return native, chosen, Upkeep(tenancy.beside_requests(), database.admin, embedder)
