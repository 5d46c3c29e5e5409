"""How the server's own logins reach the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from recollect.bootstrap import Services
from recollect.db.database import API_LOGIN, WORKER_LOGIN, locate, open_tenancy
from recollect.errors import Misconfigured
from recollect.kit.secret import ServerSecret
from tests.conftest import make_settings

pytestmark = pytest.mark.anyio

SECRET = ServerSecret(b"some secret")


async def test_the_logins_use_the_same_server_with_passwords_of_their_own(tmp_path: Path) -> None:
    settings = make_settings(
        tmp_path, "postgresql://postgres:owner@db.example.com:5432/postgres?sslmode=require"
    )
    async with locate(settings, SECRET) as database:
        api, worker = conninfo_to_dict(database.api), conninfo_to_dict(database.worker)
    assert (api["user"], worker["user"]) == (API_LOGIN, WORKER_LOGIN)
    assert len({api["password"], worker["password"], "owner"}) == 3
    for login in (api, worker):
        assert (login["host"], login["dbname"], login["sslmode"]) == ("db.example.com", "postgres", "require")


async def test_behind_supabases_pooler_a_login_keeps_the_projects_name(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "postgresql://postgres.abcdef:owner@pooler.example.com:6543/postgres")
    async with locate(settings, SECRET) as database:
        assert conninfo_to_dict(database.api)["user"] == f"{API_LOGIN}.abcdef"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:se/cret@127.0.0.1:9/db",
        "postgresql://u:cret@se@127.0.0.1:9/db",
        "postgresql://u:se?cret@127.0.0.1:9/db",
        "postgresql://u:se#cret@127.0.0.1:9/db",
        "postgresql://u:secret@127.0.0.1:9/db?nonsense=1",
        "mysql://u:secret@127.0.0.1/db",
    ],
)
async def test_an_address_that_cannot_be_used_is_refused_without_quoting_it(
    tmp_path: Path, address: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        async with locate(make_settings(tmp_path, address), SECRET):
            pass
    assert "cret" not in refused.value.detail
    assert refused.value.__cause__ is None
    assert "RECOLLECT_DATABASE_URL" in refused.value.detail


async def test_the_connection_given_back_last_is_the_next_to_be_taken(services: Services) -> None:
    async with open_tenancy(services.database, 3, 1) as tenancy:
        pool = tenancy._api_pool
        first, second, third = [await pool.getconn() for _ in range(3)]
        for given_back in (third, first, second):
            await pool.putconn(given_back)
        assert [await pool.getconn() for _ in range(3)] == [second, first, third]
        for taken in (first, second, third):
            await pool.putconn(taken)
