"""What all tests share: a real Postgres, a migrated database for each test, a real HTTP server."""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
import structlog
from httpx._transports import default as transports
from hypothesis import HealthCheck
from hypothesis import settings as property_tests
from psycopg.conninfo import make_conninfo

from recollect.access import store
from recollect.access.models import NewKey
from recollect.app import create_app
from recollect.bootstrap import Services, bring_up_to_date, build_services
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.tenancy import SERVICE, Caller
from recollect.jobs.engine import Pace
from recollect.jobs.worker import Worker
from recollect.kit.loops import stop
from recollect.kit.secret import ServerSecret
from recollect.server import Server, listen
from recollect.settings import Settings

HOME = "RECOLLECT_TEST_HOME"
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30

# A machine with much else to do is no fault of the code's; and it is not to be luck what lands, while whoever
# runs the tests by hand may find something new.
property_tests.register_profile(
    "recollect",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
property_tests.load_profile("recollect")

# What is a guest in a process says less, from then on. This process has its own plans: tests read every line.
structlog.configure()

# A client takes 30 ms to read the certificates of the world's authorities; there are thousands of clients.
vars(transports)["create_ssl_context"] = cache(vars(transports)["create_ssl_context"])
SECRET = "a secret of the tests, long enough to be one"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", type=int, default=1, help="How often the fault test runs, with another seed each."
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("soak")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _in_time(item.obj, _seconds_for(item))


def _seconds_for(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))


def _in_time(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    """The test, given up a little sooner than pytest does so: that leaves it at work in the loop that all
    tests of the process share, and none after it ever ends."""

    @wraps(test)
    async def bounded(*args: Any, **options: Any) -> None:
        async with asyncio.timeout(seconds * 0.9):
            await test(*args, **options)

    return bounded


def pytest_configure(config: pytest.Config) -> None:
    if HOME not in os.environ:  # the first process; those it starts inherit the variable
        if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
            # Each test has a database made from a template: a thousand small files, copied.
            os.environ["TMPDIR"] = str(MEMORY)
            tempfile.tempdir = None
        home = Path(tempfile.mkdtemp(prefix="recollect-"))
        home.chmod(0o711)  # root's Postgres runs as somebody else, who has to pass through
        os.environ[HOME] = str(home)
        config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def home() -> Path:
    return Path(os.environ[HOME]) / "home"


@pytest.fixture(scope="session")
async def template(anyio_backend: str, home: Path) -> AsyncIterator[Database]:
    """One Postgres for all test processes, with a migrated database to copy."""
    settings = Settings(home=home, _env_file=None)
    async with databases.locate(settings, ServerSecret(SECRET.encode())) as database:
        with (home / "template.lock").open("w") as turn:
            await asyncio.to_thread(fcntl.flock, turn, fcntl.LOCK_EX)
            await bring_up_to_date(database)
            await _stop_waiting_for_the_disk(database)
            await _set_aside(database)
        yield database


async def _stop_waiting_for_the_disk(database: Database) -> None:
    """What these tests write need not survive the machine; each has a database made and dropped."""
    async with await psycopg.AsyncConnection.connect(database.admin, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            await connection.execute(f"alter system set {setting} = off".encode())
        await connection.execute("select pg_reload_conf()")


async def _set_aside(database: Database) -> None:
    """A copy that nobody signs in to: whoever is in a database and wants in once more waits for those who
    want to copy it, and they wait for them."""
    maintenance = make_conninfo(database.admin, dbname="postgres")
    async with await psycopg.AsyncConnection.connect(maintenance, autocommit=True) as connection:
        found = await connection.execute("select from pg_database where datname = 'recollect_template'")
        if not found.rowcount:
            await _copy(connection, "recollect_template", of="recollect")


@asynccontextmanager
async def copied(template: Database) -> AsyncIterator[str]:
    """A migrated database, until the block ends."""
    name = f"test_{uuid4().hex}"
    maintenance = make_conninfo(template.admin, dbname="postgres")
    async with await psycopg.AsyncConnection.connect(maintenance, autocommit=True) as connection:
        await _copy(connection, name)
        yield make_conninfo(template.admin, dbname=name)
        await connection.execute(f"drop database {name} with (force)".encode())


async def _copy(connection: psycopg.AsyncConnection, name: str, of: str = "recollect_template") -> None:
    statement = f"create database {name} template {of} strategy file_copy".encode()
    # Postgres waits five seconds for whoever is still there, and a busy machine may take longer.
    for _ in range(5):
        try:
            await connection.execute(statement)
        except psycopg.errors.ObjectInUse:
            continue
        return
    await connection.execute(statement)


@pytest.fixture
async def database_url(template: Database) -> AsyncIterator[str]:
    """A migrated database of the test's own."""
    async with copied(template) as url:
        yield url


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    """Override in a test module to run its server with other settings."""
    return make_settings(home, database_url)


def make_settings(home: Path, database_url: str, **overrides: Any) -> Settings:
    return Settings(home=home, secret_key=SECRET, database_url=database_url, _env_file=None, **overrides)


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    secret = ServerSecret(SECRET.encode())
    async with (
        databases.locate(settings, secret) as database,
        build_services(settings, secret, database) as built,
    ):
        yield built


@asynccontextmanager
async def served(services: Services) -> AsyncIterator[str]:
    """Where a real server listens, on loopback."""
    with listen("127.0.0.1", 0) as listener:
        started = asyncio.Event()
        server = Server(
            create_app(services),
            on_started=started.set,
            on_stopping=services.live.close,
            trusted_proxies=services.settings.trusted_proxies,
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await started.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            await serving


QUICK = Pace(
    poll=0.2,
    heartbeat=0.5,
    sweep=0.5,
    stalled_after=2,
    patience=5,
    stop=2,
    first_retry=0.1,
    longest_retry=0.2,
)


@asynccontextmanager
async def working(services: Services, concurrency: int = 10) -> AsyncIterator[None]:
    """A worker, with all that it has beside it, in a hurry."""
    worker = Worker(
        services.tenancy.beside_requests(),
        services.database.worker,
        services.jobs.tasks,
        concurrency,
        beside=(services.relay.watch,),
        pace=QUICK,
    )
    task = asyncio.create_task(worker.work())
    try:
        yield
    finally:
        await stop(task)


@pytest.fixture
async def worker(services: Services) -> AsyncIterator[None]:
    async with working(services):
        yield


async def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until that is so, and say what it was."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = true()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, "it has not come true"
        await asyncio.sleep(0.02)


@pytest.fixture
async def address(services: Services) -> AsyncIterator[str]:
    async with served(services) as found:
        yield found


@dataclass(frozen=True)
class Person:
    """A user, with a key and a client that sends it."""

    id: UUID
    email: str
    key: str
    http: httpx.AsyncClient

    @property
    def memory(self) -> str:
        return f"/api/user/{self.id}/memory"

    @property
    def caller(self) -> Caller:
        return Caller.user(self.id)


MakePerson = Callable[..., Awaitable[Person]]


@pytest.fixture
async def person(services: Services, address: str) -> AsyncIterator[MakePerson]:
    """Makes people: ``await person("ana@example.com", scopes=["read"])``."""
    async with AsyncExitStack() as stack:

        async def make(email: str, *, is_admin: bool = False, scopes: tuple[str, ...] = ()) -> Person:
            async with services.tenancy.acting_as(SERVICE) as tx:
                user_id = await store.add_user(tx, email, None)
                if is_admin:
                    await tx.run(store.queries.make_admin, {"user_id": user_id})
            default = ("read", "write", "admin") if is_admin else ("read", "write")
            wanted = NewKey(name="test", scopes=list(scopes or default))
            async with services.tenancy.acting_as(Caller.user(user_id)) as tx:
                issued = await services.access.create_key(tx, wanted)
            client = httpx.AsyncClient(
                base_url=address, headers={"Authorization": f"Bearer {issued.key}"}, timeout=30
            )
            return Person(user_id, email, issued.key, await stack.enter_async_context(client))

        yield make


@pytest.fixture
async def ana(person: MakePerson) -> Person:
    return await person("ana@example.com")


@pytest.fixture
async def ben(person: MakePerson) -> Person:
    return await person("ben@example.com")


@pytest.fixture
async def admin(person: MakePerson) -> Person:
    return await person("root@example.com", is_admin=True)


@pytest.fixture
async def anonymous(address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        yield client
