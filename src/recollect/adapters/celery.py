"""Celery tasks that forward into Recollect's queue, with a worker of their own:

    celery -A recollect.adapters.celery worker

Other Celery applications import the tasks and call ``load_company_memories.delay(id)``, or send them by name
to the queue "recollect". A task is done when its job is queued, and its result is the job's id: Celery's
guarantees end there, and Postgres's begin. Broker and results are REDIS_URL's, unless Celery's own settings
say otherwise. Why it is so: docs/decisions/0008-celery-forwards.md.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from pydantic import ValidationError
from pydantic_settings import SettingsError

from recollect.errors import InvalidInput, Misconfigured, RecollectError
from recollect.settings import Settings

try:
    from celery import Celery, signals
except ModuleNotFoundError as error:
    raise ImportError("Celery is not installed here; run: pip install 'recollect[celery]'") from error

QUEUE = "recollect"
LONGEST_RETRY_SECONDS = 300
# Longer than any retry waits, or Redis would deliver each waiting message again and again.
VISIBILITY_SECONDS = 3 * LONGEST_RETRY_SECONDS

_MESSAGE_ID = re.compile(r"[\x21-\x7e]{1,200}")


def _settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        names = sorted({str(found["loc"][0]) for found in error.errors()})
        # Not chained: it quotes what the settings hold.
        raise Misconfigured(f"Settings of Recollect cannot be used: {', '.join(names)}.") from None
    except SettingsError as error:
        raise Misconfigured(f"The settings of Recollect cannot be read: {error}.") from error


def _configuration() -> dict[str, Any]:
    url = _settings().redis_url
    address = url.get_secret_value() if url else None
    configuration: dict[str, Any] = {
        "broker_url": address,
        "result_backend": address,
        # On a queue that two applications share, each throws away the other's messages as unknown.
        "task_default_queue": QUEUE,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_SECONDS,
            # Under the usual names we would deliver other applications' long tasks again, by our clock.
            "unacked_key": f"{QUEUE}.unacked",
            "unacked_index_key": f"{QUEUE}.unacked_index",
            "unacked_mutex_key": f"{QUEUE}.unacked_mutex",
        },
    }
    if address and address.startswith("rediss:") and "ssl_cert_reqs" not in address:
        checked = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        configuration |= {"broker_use_ssl": checked, "redis_backend_use_ssl": checked}
    return configuration


# Imported by another application, it must not become that one's current app. Its settings are read when they
# are first needed, since those of a process that only imports it may be none of Recollect's.
app = Celery("recollect", set_as_current=False)
app.add_defaults(_configuration)


def _task(name: str) -> Callable[[Callable[..., str]], Any]:
    forwards: Callable[[Callable[..., str]], Any] = app.task(
        name=name,
        bind=True,
        acks_late=True,
        reject_on_worker_lost=True,
        autoretry_for=(RecollectError,),
        dont_autoretry_for=(InvalidInput,),
        max_retries=None,
        retry_backoff=True,
        retry_backoff_max=LONGEST_RETRY_SECONDS,
    )
    return forwards


def _forward(task: Any, job: str, **ids: object) -> str:
    arguments = {name: _uuid(name, given) for name, given in ids.items()}
    message = task.request.id or str(uuid4())
    if not _MESSAGE_ID.fullmatch(message):
        raise InvalidInput("A task id is at most 200 printable characters of ASCII.")
    return str(_forwarding()(_settings, job, arguments, f"celery:{message}"))


@cache
def _forwarding() -> Callable[..., UUID]:
    # Loaded by those who forward: who only sends needs neither the server nor its libraries.
    from recollect.adapters.forwarding import forward, here  # noqa: PLC0415 - see above

    def close(**_: object) -> None:
        here.close()

    # A child of the prefork pool ends with the first, a worker that has no children with the second.
    for ending in (signals.worker_process_shutdown, signals.worker_shutdown):
        ending.connect(close, weak=False)
    return forward


def _uuid(name: str, given: object) -> str:
    try:
        return str(UUID(str(given)))
    except ValueError:
        raise InvalidInput(f"{name} must be a UUID.") from None


@_task("memory.load_company_memories")
def load_company_memories(self: Any, company_id: str) -> str:
    """Queue the loading of a company's memories."""
    return _forward(self, self.name, company_id=company_id)


@_task("memory.load_user_memories")
def load_user_memories(self: Any, user_id: str) -> str:
    """Queue the loading of a user's memories."""
    return _forward(self, self.name, user_id=user_id)


@_task("memory.load_all_companies_memories")
def load_all_companies_memories(self: Any) -> str:
    """Queue the loading of all companies' memories."""
    return _forward(self, self.name)


@_task("memory.load_all_users_memories")
def load_all_users_memories(self: Any) -> str:
    """Queue the loading of all users' memories."""
    return _forward(self, self.name)


@_task("memory.purge_bank")
def purge_bank(self: Any) -> str:
    """Queue the purge of bank entries that have outlived their namespace's retention."""
    return _forward(self, "bank.purge")
