"""Celery's messages become jobs in Postgres: each one once, whatever happens to Celery on the way."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.tenancy import SERVICE, Caller
from recollect.jobs.models import Run
from recollect.settings import Settings
from tests.adapters.conftest import Site, blocked_queue
from tests.conftest import make_settings, until, working
from tests.jobs.conftest import ended, look

pytestmark = pytest.mark.anyio

SEND_PURGE = """
from recollect.adapters.celery import purge_bank
print(purge_bank.delay().id)
"""
AT_WORK = """
from recollect.adapters.celery import app
print(sum(map(len, (app.control.inspect(timeout=5).active() or {}).values())))
"""
PURGE = """
from recollect.adapters.celery import purge_bank
print(purge_bank.delay().get(timeout=30))
"""


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, bank_retention_days={"brief": 30})


async def all_runs(services: Services) -> list[Run]:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return await services.jobs.list(tx)


async def only_run(services: Services) -> Run:
    [run] = await until(lambda: all_runs(services))
    assert isinstance(run, Run)
    return run


async def is_at_work(site: Site) -> bool:
    return await site.send(AT_WORK) == "1"


@asynccontextmanager
async def old_memories(services: Services, database_url: str) -> AsyncIterator[list[str]]:
    """The keys in a bank that were there before, and those that are left."""
    user = (await services.access.create_user(NewUser(email="ana@example.com"))).id
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        for key in ("old", "new"):
            await services.bank.set_memory_key(tx, user, key, 1, "brief")
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "update public.user_memory set updated_at = now() - interval '31 days' where key = 'old'"
        )
    keys = ["old", "new"]
    yield keys
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        keys[:] = [entry.key for entry in await services.bank.everything(tx, user)]


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
async def test_what_another_application_asks_for_is_done_by_recollects_worker(
    services: Services, site: Site, database_url: str, pool: str
) -> None:
    async with old_memories(services, database_url) as keys, working(services):
        async with site.worker("--pool", pool) as worker:
            run = await ended(services, UUID(await site.send(PURGE)))
            again = await ended(services, UUID(await site.send(PURGE)))
        assert "Traceback" not in worker.log
    assert (run.task, run.state, run.origin, run.result) == (
        "bank.purge",
        "succeeded",
        "celery",
        {"purged": 1},
    )
    assert (again.id != run.id, again.result) == (True, {"purged": 0})
    assert keys == ["new"]


async def test_every_task_has_its_job_also_when_sent_by_name(services: Services, site: Site) -> None:
    company, user = uuid4(), uuid4()
    sent = f"""
from recollect.adapters.celery import (
    load_all_companies_memories, load_all_users_memories, load_company_memories, load_user_memories
)
import uuid
asked = [
    load_company_memories.delay("{company}"),
    load_user_memories.delay(user_id=uuid.UUID("{user}")),
    load_all_companies_memories.delay(),
    load_all_users_memories.delay(),
    other.send_task("memory.load_company_memories", args=["{company}"], queue="recollect"),
]
other = Celery("routed", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
other.conf.task_routes = {{"memory.*": {{"queue": "recollect"}}}}
asked.append(other.send_task("memory.load_user_memories", args=["{user}"]))
print(*(result.get(timeout=30) for result in asked))
"""
    async with site.worker():
        runs = [await look(services, UUID(run)) for run in (await site.send(sent)).split()]
    assert [(run.task, run.arguments) for run in runs] == [
        ("memory.load_company_memories", {"company_id": str(company)}),
        ("memory.load_user_memories", {"user_id": str(user)}),
        ("memory.load_all_companies_memories", {}),
        ("memory.load_all_users_memories", {}),
        ("memory.load_company_memories", {"company_id": str(company)}),
        ("memory.load_user_memories", {"user_id": str(user)}),
    ]
    assert {(run.state, run.origin, run.user_id, run.asked_by) for run in runs} == {
        ("waiting", "celery", None, None)
    }


async def test_a_broker_of_its_own_needs_no_mention_of_the_queue(services: Services, site: Site) -> None:
    async with site.worker("--queues", "recollect,celery"):
        run = await site.send('print(other.send_task("memory.purge_bank").get(timeout=30))')
    assert (await look(services, UUID(run))).task == "bank.purge"


async def test_other_applications_messages_are_left_alone(services: Services, site: Site) -> None:
    await site.send('other.send_task("theirs")')
    async with site.worker():
        await site.send(PURGE)
        async with site.redis.client() as redis:
            assert await redis.llen("celery") == 1


async def test_importing_the_tasks_takes_no_application_over_and_loads_no_server(site: Site) -> None:
    printed = await site.send("""
import sys
from celery import current_app
from recollect.adapters.celery import load_company_memories
assert current_app.main == "other", current_app
assert load_company_memories.app.main == "recollect"
print("psycopg" in sys.modules, "fastapi" in sys.modules)
""")
    assert printed == "False False"


async def test_a_message_delivered_again_leads_to_the_same_job_even_when_that_is_done(
    services: Services, site: Site
) -> None:
    send = """
from recollect.adapters.celery import purge_bank
print(purge_bank.apply_async(task_id="one").get(timeout=30))
"""
    async with site.worker():
        first = UUID(await site.send(send))
        async with working(services):
            assert (await ended(services, first)).state == "succeeded"
        async with site.redis.client() as redis:
            await redis.delete("celery-task-meta-one")
        assert UUID(await site.send(send)) == first
    assert (await only_run(services)).id == first


async def test_a_child_killed_in_the_middle_leaves_one_job(
    services: Services, site: Site, database_url: str
) -> None:
    async with site.worker() as worker:
        with blocked_queue(database_url) as queue:
            await site.send(SEND_PURGE)
            await until(lambda: queue.waiting() >= 1)
            # Killed sooner, it might die before Celery knows whose message it was.
            await until(partial(is_at_work, site))
            for child in worker.children:
                child.kill()
            # The message comes back while what the dead child had sent is still on its way. Celery gives a
            # child up after ten seconds at the latest, by its own clock; ours runs while others work.
            await until(lambda: queue.waiting() >= 2, seconds=90)
        run = await only_run(services)
        await until(lambda: f"'{run.id}'" in worker.log)
    assert (await only_run(services)).id == run.id
    async with working(services):
        assert (await ended(services, run.id)).state == "succeeded"


async def test_a_worker_killed_in_the_middle_is_replaced_by_another_and_leaves_one_job(
    services: Services, site: Site, database_url: str
) -> None:
    with blocked_queue(database_url) as queue:
        async with site.worker(app="tests.adapters.hurried") as worker:
            await site.send(SEND_PURGE)
            await until(lambda: queue.waiting() >= 1)
            worker.kill()
            async with site.redis.client() as redis:
                # Where other applications on the same Redis neither see it nor decide when it comes again.
                assert await redis.keys("*unacked") == [b"recollect.unacked"]
        async with site.worker(app="tests.adapters.hurried"):
            await until(lambda: queue.waiting() >= 2)
            queue.release()
            run = await only_run(services)
            async with site.redis.client() as redis:
                await until(lambda: _is_empty(redis, "recollect.unacked"))
    assert [found.id for found in await all_runs(services)] == [run.id]


async def _is_empty(redis: object, key: str) -> bool:
    return not await redis.exists(key)  # type: ignore[attr-defined]


class Gate:
    """A way to Postgres that can be closed, with all who are on it."""

    def __init__(self, folder: Path, database_url: str) -> None:
        parts = conninfo_to_dict(database_url)
        name = f".s.PGSQL.{parts.get('port', 5432)}"
        self._inside, self._outside = Path(str(parts["host"])) / name, folder / name
        self.database_url = make_conninfo(database_url, host=str(folder))
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._pass, self._outside)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._outside.unlink(missing_ok=True)
        for writer in self._writers:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside_reader, inside_writer = await asyncio.open_unix_connection(self._inside)
        self._writers |= {writer, inside_writer}
        await asyncio.gather(_pump(reader, inside_writer), _pump(inside_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for the path of a socket."""
    made = Path(tempfile.mkdtemp(prefix="recollect-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


async def test_messages_wait_for_postgres_and_lead_to_one_job_each(
    services: Services, site: Site, database_url: str, folder: Path
) -> None:
    gate = Gate(folder, database_url)
    site.environment["RECOLLECT_DATABASE_URL"] = gate.database_url
    try:
        async with site.worker() as worker:

            def said(what: str) -> bool:
                return re.search(what, worker.log) is not None

            # Before it was ever there, and after it has gone.
            for queued in (1, 2):
                message = await site.send(SEND_PURGE)
                await until(partial(said, rf"{message}\] retry: Retry in"))
                assert len(await all_runs(services)) == queued - 1
                await gate.open()
                await until(partial(said, rf"{message}\] succeeded"))
                assert len(await all_runs(services)) == queued
                gate.close()
    finally:
        gate.close()


async def test_bad_input_is_refused_at_once_with_a_sentence(services: Services, site: Site) -> None:
    sent = """
from recollect.adapters.celery import load_company_memories, purge_bank
for result in (load_company_memories.delay("acme"), purge_bank.apply_async(task_id="x y")):
    print(repr(result.get(timeout=30, propagate=False)))
"""
    async with site.worker():
        printed = await site.send(sent)
    assert printed.splitlines() == [
        "InvalidInput('company_id must be a UUID.')",
        "InvalidInput('A task id is at most 200 printable characters of ASCII.')",
    ]
    assert await all_runs(services) == []


async def test_nothing_open_is_carried_across_a_fork(services: Services, site: Site) -> None:
    printed = await site.run("""
import os
from recollect.adapters.celery import purge_bank

def forward():
    print(purge_bank.apply(throw=True).get(), flush=True)

forward()
if child := os.fork():
    os.waitpid(child, 0)
    forward()
else:
    forward()
    from recollect.adapters.forwarding import here
    here.close()
    os._exit(0)
""")
    assert {str(run.id) for run in await all_runs(services)} == set(printed.split())
    assert len(printed.split()) == 3


async def test_the_embedded_postgres_serves_celery_too(site: Site, folder: Path) -> None:
    home = folder / "home"
    for name in ("RECOLLECT_DATABASE_URL", "RECOLLECT_SECRET_KEY"):
        del site.environment[name]
    site.environment["RECOLLECT_HOME"] = str(home)
    async with site.worker():
        queued = UUID(await site.send(PURGE))
    async with open_services(Settings(home=home, _env_file=None)) as services, working(services):
        assert (await ended(services, queued)).state == "succeeded"


async def test_without_celery_the_import_says_what_to_install(site: Site) -> None:
    printed = await site.run("""
import sys
sys.modules["celery"] = None
try:
    import recollect.adapters.celery
except ImportError as error:
    print(error)
""")
    assert "pip install 'recollect[celery]'" in printed


async def test_settings_that_cannot_be_used_are_named_without_their_contents(site: Site) -> None:
    site.environment["RECOLLECT_SECRET_KEY"] = "short-secret"
    printed = await site.run("""
import traceback
from recollect.adapters.celery import purge_bank
try:
    purge_bank.delay()
except Exception:
    print(traceback.format_exc())
""")
    assert "Settings of Recollect cannot be used: secret_key." in printed
    assert "short-secret" not in printed
