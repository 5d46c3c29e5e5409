"""The clients of mem0 as they are installed, told nothing but where to find us."""

from __future__ import annotations

import os
import tempfile

# Before it is imported: it reports home, and writes into the home directory, unless it is told not to.
os.environ["MEM0_TELEMETRY"] = "False"
os.environ.setdefault("MEM0_DIR", tempfile.mkdtemp(prefix="mem0-"))

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Literal

import pytest
from mem0 import AsyncMemoryClient, MemoryClient

from tests.api.mem0.clients import Client, MakeClient
from tests.conftest import Person

Kind = Literal["sync", "async"]


@pytest.fixture
def kind() -> Kind:
    """Override in a test module to use both; they send the same, so the rest is tested with one of them."""
    return "async"


@pytest.fixture
async def client_of(address: str, kind: Kind) -> AsyncIterator[MakeClient]:
    """Makes clients: ``await client_of(ana)``."""
    async with AsyncExitStack() as stack:

        async def make(person: Person) -> Client:
            if kind == "sync":
                real = await asyncio.to_thread(MemoryClient, person.key, address)
                stack.callback(real.client.close)
                return Client(real)
            # It asks whose key it is with a client that blocks.
            made = await asyncio.to_thread(AsyncMemoryClient, person.key, address)
            stack.push_async_callback(made.async_client.aclose)
            return Client(made)

        yield make


@pytest.fixture
async def client(client_of: MakeClient, ana: Person) -> Client:
    return await client_of(ana)
