"""The nouns of access."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from recollect.kit.text import Text, of_form

WorkspaceRole = Literal["owner", "admin", "reviewer", "member", "viewer"]
CompanyRole = Literal["owner", "admin", "member"]

# "read" and "write" hold for every faculty; "bank:read" for one. "admin" reaches other users too.
Scope = Annotated[
    str,
    *of_form(
        r"^(admin|read|write|[a-z]{2,20}:(read|write))$",
        "a scope is read, write, admin, or one faculty's, such as bank:read",
    ),
]
Email = Annotated[
    str,
    StringConstraints(min_length=3, max_length=255),
    # Blanks and control characters by number: what \s means differs between languages.
    *of_form(
        r"^[^@\x00-\x20\x7f-\xa0]+@[^@\x00-\x20\x7f-\xa0]+$",
        "an e-mail address looks like name@example.com",
    ),
]
Password = Annotated[Text, StringConstraints(min_length=8, max_length=1024)]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=200)]


def _written_out(given: object) -> object:
    # Pydantic also takes seconds since 1970, as a number or as text, and dates without a time.
    if isinstance(given, datetime) or (isinstance(given, str) and "T" in given.upper()):
        return given
    raise ValueError("a date and time such as 2030-01-31T12:00:00Z")


def _within_reach(moment: datetime) -> datetime:
    # At either end, another time zone would be beyond what Python and JSON can hold.
    if not 1 < moment.year < 9999:
        raise ValueError("a year between 2 and 9998")
    # Postgres knows no zone that is sixteen hours away or more.
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_within_reach)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class User(Model):
    id: UUID
    email: str | None
    full_name: str | None = None
    is_admin: bool = False
    created_at: datetime | None = None
    last_sign_in_at: datetime | None = None
    has_password: bool = False


class Me(Model):
    """The caller, and what the credential at hand may do."""

    id: UUID
    email: str | None
    full_name: str | None
    is_admin: bool
    scopes: list[str]


class NewUser(Model):
    email: Email
    full_name: Name | None = None
    password: Password | None = None
    is_admin: bool = False


class PasswordSignIn(Model):
    email: Email
    password: Annotated[Text, StringConstraints(min_length=1, max_length=1024)]


class LinkSignIn(Model):
    token: Annotated[Text, StringConstraints(min_length=1, max_length=200)]


class PasswordChange(Model):
    new_password: Password
    current_password: Annotated[Text, StringConstraints(max_length=1024)] | None = Field(
        None, description="Needed where a password is set already."
    )


class Session(Model):
    """A signed-in browser."""

    id: UUID
    user_agent: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


class NewSession(Model):
    """A session just made; the only moment its token is known."""

    token: str = Field(repr=False)
    user_id: UUID
    expires_at: datetime


class NewKey(Model):
    """What a key is to be called and allowed."""

    name: Name = "key"
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=50)] = ["read", "write"]
    expires_at: Moment | None = None


class ApiKey(Model):
    id: UUID
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class IssuedKey(ApiKey):
    """An API key just made; the only moment it is shown."""

    key: str = Field(repr=False)
