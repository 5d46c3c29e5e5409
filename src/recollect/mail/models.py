"""The nouns of mail. Fields are camelCase in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from recollect.kit.text import Text, of_form

MAX_SUBJECT = 200
MAX_BODY = 10_000
EVERY_KIND = "*"

State = Literal["waiting", "sent", "failed", "held", "muted"]

_KIND = r"[a-z][a-z_]*(\.[a-z][a-z_]*)*"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _leads_somewhere(link: str) -> str:
    if link.startswith("/") and not link.startswith(("//", "/\\")):
        return link
    parts = urlsplit(link)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a path here, such as /mail, or an address that begins with https://")
    return link


Kind = Annotated[
    str,
    StringConstraints(max_length=100),
    *of_form(f"^{_KIND}$", 'a kind is lower-case words with dots, such as "job.failed"'),
]
MutedKind = Annotated[
    str,
    StringConstraints(max_length=100),
    *of_form(rf"^(\*|{_KIND})$", 'a kind is lower-case words with dots, such as "job.failed"; "*" is all'),
]
Link = Annotated[
    str,
    StringConstraints(max_length=2_000, pattern=r"^[\x21-\x7e]+$"),
    AfterValidator(_leads_somewhere),
]


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class NewMessage(Model):
    """A message as it is stored: cleaned, and cut to what its columns hold."""

    kind: Kind
    subject: Annotated[Text, StringConstraints(min_length=1, max_length=MAX_SUBJECT)]
    body: Annotated[Text, StringConstraints(max_length=MAX_BODY)]
    link: Link | None = None


class Message(Model):
    """A message to the caller."""

    id: UUID
    kind: str = Field(examples=["job.failed"])
    subject: str
    body: str = Field(description="Plain text; blank lines between paragraphs.")
    link: str | None = Field(description="Where to look: a path of this server, or an address.")
    state: State = Field(
        description="Of its e-mail. held: cannot be sent at present; muted: not wanted by e-mail."
    )
    error: str | None = Field(description="Why it could not be sent.")
    created_at: datetime
    sent_at: datetime | None
    read_at: datetime | None


class Preferences(Model):
    """What the caller wants no e-mail about."""

    muted: Annotated[list[MutedKind], Field(max_length=100, description='Kinds; "*" is all.')]


@dataclass(frozen=True)
class Enclosed:
    """A message inside a letter."""

    kind: str
    subject: str
    body: str
    link: str | None
    created_at: datetime

    @classmethod
    def of(cls, row: dict[str, Any]) -> Enclosed:
        # The database tells the time of wherever it is.
        moment = row["created_at"].astimezone(UTC)
        return cls(row["kind"], row["subject"], row["body"], row["link"], moment)


@dataclass(frozen=True)
class Letter:
    """One e-mail: what was waiting for one user. Claimed by one sender at a time."""

    id: UUID
    user_id: UUID
    address: str
    full_name: str | None
    messages: tuple[Enclosed, ...]
    total: int
    """How many messages it stands for; only the first of them are shown."""

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> Letter:
        first = rows[0]
        return cls(
            id=first["letter"],
            user_id=first["user_id"],
            address=first["address"],
            full_name=first["full_name"],
            messages=tuple(map(Enclosed.of, rows)),
            total=first["total"],
        )

    @property
    def kinds(self) -> list[str]:
        """Of the messages that are shown, each once."""
        return list(dict.fromkeys(message.kind for message in self.messages))


@dataclass
class Delivered:
    """What came of a delivery: letters, and the messages in them."""

    letters: int = 0
    messages: int = 0
    refused: int = 0
    postponed: int = 0
