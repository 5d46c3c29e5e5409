"""What a log may say of an error."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from recollect.kit.logs import without_values

pytestmark = pytest.mark.anyio

SECRET = "hunter2"
# In a process of its own: how logs are written is settled once for a whole process.
PROGRAM = """
import logging, sys
from pydantic import TypeAdapter
from recollect.kit.logs import configure, logger

configure("INFO")
for log in (logger("tests"), logging.getLogger("elsewhere")):
    try:
        try:
            TypeAdapter(int).validate_python(sys.argv[1])
        except ValueError as error:
            raise RuntimeError("that went wrong") from error
    except RuntimeError:
        log.exception("it failed")
"""


async def test_an_error_of_the_database_is_told_without_the_row(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("create temporary table tried (secret text check (secret is null))")
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            await connection.execute("insert into tried values (%s)", [SECRET])

    told = without_values((refused.type, refused.value, refused.tb))

    assert "CheckViolation: new row for relation" in told
    assert "test_logs.py" in told
    assert SECRET in str(refused.value)
    assert SECRET not in told


def test_neither_we_nor_a_library_log_the_values_in_an_error() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, SECRET], capture_output=True, text=True, check=True)

    [ours, theirs] = ran.stderr.splitlines()
    for told in (ours, theirs):
        assert told.index("ValidationError: 1 validation error") < told.index("RuntimeError: that went wrong")
        assert SECRET not in told
