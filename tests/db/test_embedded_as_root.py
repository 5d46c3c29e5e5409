"""The embedded server where root runs it: Postgres itself does not, and nothing is opened up."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.db.embedded import binaries, running
from recollect.db.embedded.accounts import Account, unprivileged
from recollect.db.embedded.places import arrange
from recollect.errors import Misconfigured
from tests.db.embedding import (
    IMPORTS,
    PASSWORD,
    make_dir,
    other_process,
    postmasters,
    remove,
    uid_of,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    remove(home)


class TestAsRoot:
    pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root drops privileges")

    async def test_a_closed_home_stays_closed(self, home: Path) -> None:
        make_dir(home, 0o700)
        chain = [home, *home.parents]
        before = [path.stat().st_mode for path in chain]
        async with running(home, password=PASSWORD) as server:
            assert [path.stat().st_mode for path in chain] == before
            assert not server.data_dir.is_relative_to(home)
            where = (server.data_dir.parent / "WHERE").read_text()
        assert str(home) in where
        assert [path.stat().st_mode for path in chain] == before

    async def test_a_home_that_all_may_pass_through_holds_the_data(self) -> None:
        parent = make_dir(Path(tempfile.mkdtemp(dir="/tmp")), 0o755)
        home = parent / "home"
        try:
            async with running(home, password=PASSWORD) as server:
                assert server.data_dir.is_relative_to(home)
                assert stat.S_IMODE(home.stat().st_mode) == 0o711
            make_dir(parent, 0o700)
            with pytest.raises(Misconfigured, match="may not enter"):
                async with running(home, password=PASSWORD):
                    pass
        finally:
            shutil.rmtree(parent)

    def test_a_home_of_somebody_else_is_not_built_in(self) -> None:
        account = unprivileged()
        parent = Path(tempfile.mkdtemp(dir="/tmp"))
        try:
            parent.chmod(0o755)
            os.chown(parent, pwd.getpwnam("nobody").pw_uid, -1)
            places = arrange(parent, 18)
            assert not places.data_dir.is_relative_to(parent)
            assert places.account == account
            shutil.rmtree(places.base)
        finally:
            shutil.rmtree(parent)

    def test_a_copy_of_the_programs_works(self) -> None:
        # In /tmp itself: pytest's own directories are closed to others.
        target = Path(tempfile.mkdtemp(dir="/tmp"))
        target.chmod(0o755)
        account = unprivileged()
        try:
            original = binaries.bin_dir(18, None)
            package = original.parents[1]
            copied = binaries.copy(package, "pginstall18", target / "binaries" / "1-18")
            made = copied.stat().st_ino
            assert binaries.copy(package, "pginstall18", target / "binaries" / "1-18") == copied
            assert copied.stat().st_ino == made
            assert [path.name for path in (target / "binaries").iterdir()] == ["1-18"]
            run_copied_initdb(copied, account, target)
        finally:
            shutil.rmtree(target)

    async def test_an_ordinary_user_needs_nothing_outside_the_home(self) -> None:
        nobody = pwd.getpwnam("nobody")
        python = python_for(Account("nobody", nobody.pw_uid, nobody.pw_gid))
        parent = Path(tempfile.mkdtemp(dir="/tmp"))
        os.chown(parent, nobody.pw_uid, nobody.pw_gid)
        data_dir = parent / "home" / "postgres-18"
        try:
            async with other_process(parent / "home", python, nobody.pw_uid) as process:
                (postmaster,) = postmasters(data_dir)
                assert uid_of(postmaster) == nobody.pw_uid
                assert stat.S_IMODE((parent / "home").stat().st_mode) == 0o700
            assert process.returncode == 0
            assert postmasters(data_dir) == []
        finally:
            shutil.rmtree(parent)


def run_copied_initdb(programs: Path, account: Account, target: Path) -> None:
    data_dir = target / "data"
    data_dir.mkdir()
    os.chown(data_dir, account.uid, account.gid)
    subprocess.run(
        [programs / "initdb", "-D", data_dir, "--no-sync"],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        cwd="/",
        env={"LC_ALL": "C"},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def python_for(account: Account) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/python{version}"):
        path = Path(candidate)
        if path.exists() and account.can_reach(path.resolve()):
            imports = "import asyncio, psycopg, structlog, recollect.db.embedded"
            tried = subprocess.run(
                [candidate, "-c", imports],
                user=account.uid,
                env={"PYTHONPATH": IMPORTS},
                cwd="/",
                capture_output=True,
                check=False,
            )
            if tried.returncode == 0:
                return candidate
    pytest.skip(f"no Python {version} that {account.name} can execute")
