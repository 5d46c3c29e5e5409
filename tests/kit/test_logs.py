"""What a log may say of an error."""

from __future__ import annotations

import logging

import psycopg
import pytest
from pydantic import TypeAdapter, ValidationError

from recollect.kit.logs import configure, logger

pytestmark = pytest.mark.anyio

SECRET = "hunter2"


async def test_an_error_of_the_database_is_logged_without_the_row(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("INFO")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("create temporary table tried (secret text check (secret is null))")
        try:
            await connection.execute("insert into tried values (%s)", [SECRET])
        except psycopg.Error:
            logger("tests").exception("it was refused")

    told = capsys.readouterr().err
    assert "CheckViolation: new row for relation" in told
    assert "test_logs.py" in told
    assert SECRET not in told


def test_a_library_may_not_log_values_either(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO")
    try:
        try:
            TypeAdapter(int).validate_python(SECRET)
        except ValidationError as error:
            raise RuntimeError("that went wrong") from error
    except RuntimeError:
        logging.getLogger("elsewhere").exception("it failed")

    told = capsys.readouterr().err
    assert told.index("ValidationError: 1 validation error") < told.index("RuntimeError: that went wrong")
    assert SECRET not in told
