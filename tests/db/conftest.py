"""An embedded Postgres and, in it, databases that belong to somebody with Supabase's rights."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from recollect.db import embedded

PASSWORD = "it's a \\ secret"

# What Supabase's "postgres" has, and no more.
OWNER = f"""
create role anon nologin noinherit;
create role authenticated nologin noinherit;
create role service_role nologin noinherit bypassrls;
create role supabase_auth_admin nologin noinherit createrole;
create role owner login nosuperuser createrole createdb bypassrls password $${PASSWORD}$$;
grant anon, authenticated, service_role to owner with admin option;
"""


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A directory that Postgres can enter when root runs the tests: pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="recollect-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="session")
async def superuser(anyio_backend: str, open_directory: Path) -> AsyncIterator[str]:
    async with embedded.running(open_directory / "home", password=PASSWORD) as server:
        conninfo = server.conninfo(user=server.superuser, password=PASSWORD, dbname="recollect")
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
            await conn.execute(OWNER.encode())
        yield conninfo


@pytest.fixture
async def owner(superuser: str) -> AsyncIterator[str]:
    """How the owner of a new database reaches it."""
    name = f"test_{uuid4().hex}"
    async with await psycopg.AsyncConnection.connect(superuser, autocommit=True) as conn:
        await conn.execute(f"create database {name} owner owner".encode())
        await install_vector(make_conninfo(superuser, dbname=name))
        yield make_conninfo(superuser, user="owner", dbname=name)
        await conn.execute(f"drop database {name} with (force)".encode())


async def install_vector(conninfo: str) -> None:
    """Takes a superuser, who the owner is not; Supabase lets a project's owner do it."""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
        await conn.execute("create schema extensions")
        await conn.execute("create extension vector with schema extensions")
        await conn.execute("grant usage, create on schema extensions to owner with grant option")
