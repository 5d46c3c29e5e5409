"""Every error that Recollect raises on purpose.

RecollectError
├── InvalidInput            422  what was sent does not fit
├── MalformedRequest        400  what was sent cannot be read
│   ├── BodyTooLarge        413
│   ├── BodyTooSlow         408
│   └── UnsupportedBody     415
├── NotSignedIn             401  nobody, or nobody we know
├── NotAllowed              403  known, but not for this
├── NotFound                404  not there, or not yours: callers cannot tell which
├── Conflict                409  somebody or something was first
│   └── Superseded          409  a job that was cancelled, or that another worker has now
├── TooManyAttempts         429
├── Unavailable             503  the database is away or busy; trying again helps
└── Misconfigured           500  the operator has to change something

An error's docstring is its default message; ``code`` is stable and part of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class RecollectError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(
        self,
        detail: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        self.detail = detail or self.title()
        self.headers = dict(headers or {})
        self.extra = extra
        super().__init__(self.detail)

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


class InvalidInput(RecollectError):
    """What was sent does not fit what this operation takes."""

    code, status = "invalid_input", 422


class MalformedRequest(RecollectError):
    """The request could not be read."""

    code, status = "malformed_request", 400


class BodyTooLarge(MalformedRequest):
    """The request body is larger than this server accepts."""

    code, status = "body_too_large", 413


class BodyTooSlow(MalformedRequest):
    """The request body did not arrive in time; send it again in one go."""

    code, status = "body_too_slow", 408


class UnsupportedBody(MalformedRequest):
    """Send the body as uncompressed JSON with Content-Type: application/json."""

    code, status = "unsupported_body", 415


class NotSignedIn(RecollectError):
    """Sign in, or send an API key as "Authorization: Bearer ..."."""

    code, status = "not_signed_in", 401


class NotAllowed(RecollectError):
    """You may not do this."""

    code, status = "not_allowed", 403


class NotFound(RecollectError):
    """There is no such thing, or it is not yours."""

    code, status = "not_found", 404


class Conflict(RecollectError):
    """Something else changed this first; read it again and retry."""

    code, status = "conflict", 409


class Superseded(Conflict):
    """The job was cancelled, or another worker has it now."""

    code = "superseded"


class TooManyAttempts(RecollectError):
    """Too many attempts; wait a while before the next one."""

    code, status = "too_many_attempts", 429


class Unavailable(RecollectError):
    """The database is busy or restarting; try again in a moment."""

    code, status = "unavailable", 503


class Misconfigured(RecollectError):
    """The server's configuration has to be changed."""

    code, status = "misconfigured", 500
