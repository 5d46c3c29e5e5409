"""What Postgres says when it refuses, as the error that a caller can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import psycopg_pool

from recollect.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotSignedIn,
    RecollectError,
    Superseded,
    Unavailable,
)

# Raised by our own SQL with a sentence meant for the caller.
_OUR_STATES: dict[str, type[RecollectError]] = {
    "RC401": NotSignedIn,
    "RC403": NotAllowed,
    "RC404": NotFound,
    "RC409": Conflict,
    "RC410": Superseded,
    "RC422": InvalidInput,
}

# Postgres's own states. Its messages can quote a row's values, so they are not passed on.
_POSTGRES_STATES: dict[str, type[RecollectError]] = {
    "22001": InvalidInput,  # string_data_right_truncation
    "22003": InvalidInput,  # numeric_value_out_of_range
    "22008": InvalidInput,  # datetime_field_overflow
    "22009": InvalidInput,  # invalid_time_zone_displacement_value
    "22021": InvalidInput,  # character_not_in_repertoire
    "22P05": InvalidInput,  # untranslatable_character
    "23503": NotFound,  # foreign_key_violation: what it refers to is gone
    "23505": Conflict,  # unique_violation
    "23514": InvalidInput,  # check_violation
    "25006": Unavailable,  # read_only_sql_transaction
    "25P03": Unavailable,  # idle_in_transaction_session_timeout
    "25P04": Unavailable,  # transaction_timeout
    "40001": Conflict,  # serialization_failure
    "40P01": Conflict,  # deadlock_detected
    "42501": NotAllowed,  # insufficient_privilege, row security included
    "55P03": Unavailable,  # lock_not_available
    "57014": Unavailable,  # query_canceled: the statement timeout
}
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")

RETRY = {"Retry-After": "2"}


def translated(error: psycopg.Error) -> RecollectError | None:
    """The error for a caller, or None where Postgres found a fault of ours."""
    state = error.sqlstate
    if state is None:
        # No answer from the server at all: the connection broke, or could not be made.
        is_transport = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return Unavailable(headers=RETRY) if is_transport else None
    if ours := _OUR_STATES.get(state):
        return ours(error.diag.message_primary)
    kind = _POSTGRES_STATES.get(state)
    if kind is None and state.startswith(_UNAVAILABLE_CLASSES):
        kind = Unavailable
    if kind is None:
        return None
    return kind(headers=RETRY) if kind is Unavailable else kind()


@contextmanager
def told_to_callers() -> Iterator[None]:
    """Turn what psycopg raises into what callers are told."""
    try:
        yield
    except psycopg_pool.PoolTimeout as error:
        raise Unavailable(headers=RETRY) from error
    except psycopg_pool.TooManyRequests as error:
        raise Unavailable("The server is busy; try again in a moment.", headers=RETRY) from error
    except psycopg.Error as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error
