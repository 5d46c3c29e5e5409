"""The nouns of webhooks: an endpoint is where a workspace is told, a delivery one event on its way there."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from recollect.access.models import Moment
from recollect.events.models import FAMILIES, PATTERNS, TYPES
from recollect.kit.text import Text, of_form

MAX_TYPES = 50
MAX_URL_LENGTH = 2_000

DeliveryState = Literal["pending", "delivered", "failed"]

Url = Annotated[
    Text,
    StringConstraints(min_length=1, max_length=MAX_URL_LENGTH),
    Field(
        description="Public and https, unless the operator allows others.",
        examples=["https://example.com/hooks"],
    ),
]
_PATTERN = "|".join(map(re.escape, PATTERNS))
TypePattern = Annotated[
    str,
    *of_form(
        f"^({_PATTERN})$", f'"*" for all events, a family ({", ".join(FAMILIES)}), or one: {", ".join(TYPES)}'
    ),
]


def _once_each(given: list[str]) -> list[str]:
    return list(dict.fromkeys(given))


Types = Annotated[
    list[TypePattern],
    Field(min_length=1, max_length=MAX_TYPES, description='Events to hear of; "*" for all.'),
    AfterValidator(_once_each),
]
Description = Annotated[Text, StringConstraints(max_length=500)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Endpoint(Model):
    """Where a workspace is told what happens in it."""

    id: UUID
    workspace_id: UUID
    url: str
    types: list[str]
    description: str | None
    is_enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None = Field(description="Since when every attempt has failed.")
    created_by: UUID | None
    created_at: datetime


class EndpointWithSecret(Endpoint):
    """The only answer that holds the secret; it cannot be read again."""

    secret: str = Field(description="Verify deliveries with it, by any Standard Webhooks library.")


class NewEndpoint(Model):
    url: Url
    types: Types = Field(default_factory=lambda: ["*"])
    description: Description | None = None


class EndpointChange(Model):
    """What is left out or null stays as it is."""

    url: Url | None = None
    types: Types | None = None
    description: Description | None = None
    is_enabled: bool | None = Field(None, strict=True, description="Enabled again, it gets what still waits.")


class Delivery(Model):
    """An event on its way to an endpoint. ``id`` is the header webhook-id of every attempt."""

    id: UUID
    endpoint_id: UUID
    position: int
    type: str
    subject: str
    state: DeliveryState
    attempt: int = Field(description="How many attempts there were.")
    next_attempt_at: datetime | None
    last_status: int | None
    last_error: str | None
    last_answer: str | None = Field(description="How the last answer began.")
    took_ms: int | None
    payload: dict[str, Any]
    created_at: datetime
    finished_at: datetime | None


class ReplayFailed(Model):
    """Send again what failed."""

    since: Moment = Field(description="Deliveries that were made at this moment or later.")


class Replayed(Model):
    replayed: int
