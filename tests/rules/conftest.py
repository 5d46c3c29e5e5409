"""Services whose model is a stand-in on loopback, and chats for it to read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.kit.secret import ServerSecret
from recollect.rules.chats.models import Chat
from recollect.rules.material import Asked
from recollect.rules.models import Extracted, Rule, RuleQuery, Run
from recollect.settings import Settings
from tests.conftest import SECRET, make_settings
from tests.rules.histories.conftest import Person, chat, person
from tests.support.model_server import ModelServer

TABS = "From now on always indent with tabs, never with spaces."
TABS_AGAIN = "I told you: always indent with tabs, never spaces!"
BRANCH = "Never push to the main branch directly, always open a pull request."
ONCE = "Thanks, that works. What does this function return?"


def talk(session: str, *said: str) -> Chat:
    """A chat in which the user says these things, and the assistant nods."""
    return chat(*(each for text in said for each in (text, "Done.")), session=session)


async def extract(who: Person, workspace: UUID | None = None, **more: Any) -> Extracted:
    return await who.services.extractor.extract(Asked(who.id, workspace, **more))


async def rules(who: Person, workspace: UUID | None = None, **wanted: Any) -> list[Rule]:
    return list(await who.do(lambda tx: who.services.rules.list(tx, RuleQuery(workspace, **wanted))))


async def runs(who: Person, workspace: UUID | None = None) -> list[Run]:
    return list(await who.do(lambda tx: who.services.rules.runs(tx, workspace=workspace)))


@pytest.fixture
async def ana(services: Services) -> Person:
    who = await person(services, "ana")
    await who.agrees()
    return who


@pytest.fixture
async def ben(services: Services) -> Person:
    return await person(services, "ben")


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    secret = ServerSecret(SECRET.encode())
    async with (
        databases.locate(settings, secret) as database,
        build_services(settings, secret, database) as built,
    ):
        yield built


@pytest.fixture
def more_settings() -> dict[str, Any]:
    """Override by parametrize to run with other settings."""
    return {}


@pytest.fixture
def protocol() -> str:
    return "anthropic"


@pytest.fixture
async def ada(
    home: Path, database_url: str, model: ModelServer, protocol: str, more_settings: dict[str, Any]
) -> AsyncIterator[Person]:
    """Somebody who has agreed, on a server with a model."""
    speaking = model.as_anthropic if protocol == "anthropic" else model.as_openai
    settings = make_settings(home, database_url, **speaking(model_timeout_seconds=5, **more_settings))
    async with opened(settings) as built:
        who = await person(built, "ada")
        await who.agrees()
        yield who
