"""What mem0's clients send. What they send beyond this changes nothing and is let pass, as mem0 does."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from recollect.access.models import Email, Name
from recollect.engine.filters import InvalidFilter
from recollect.engine.models import (
    MAX_FOUND,
    MAX_MESSAGES,
    Addition,
    Entities,
    EntityName,
    Feedback,
    Message,
    NoEntity,
    Reason,
    Wanted,
    Where,
)
from recollect.errors import InvalidInput
from recollect.http.callers import Id
from recollect.kit.text import Text, check_json

ENTITIES = ("user_id", "agent_id", "app_id", "run_id")
ANY = "*"
MAX_BATCH = 1_000
MAX_PAGE = 1_000
MAX_FILTER_TEXT = 10_000
NEEDS_ENTITY = (
    'Say whom it is about: filters need one of user_id, agent_id, app_id and run_id; "*" stands for any.'
)


def _as_text(given: object) -> object:
    # Applications call their users by number, too.
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


def _as_list(given: object) -> object:
    return [given] if isinstance(given, str | dict) else given


def _as_message(given: object) -> object:
    return {"role": "user", "content": given} if isinstance(given, str) else given


def _moment(given: object) -> object:
    """Seconds since 1970, a day, or a moment; without a zone it is UTC."""
    try:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return datetime.fromtimestamp(given, UTC)
        if isinstance(given, str):
            moment = datetime.fromisoformat(given.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("a moment such as 2026-03-01T12:00:00Z, or seconds since 1970") from error
    return given


def _end(given: object) -> object:
    """When something expires: with the end of the day, where it is a day."""
    if isinstance(given, str) and len(given.strip()) == len("2026-03-01"):
        try:
            day = date.fromisoformat(given.strip())
            return datetime.combine(day + timedelta(days=1), time(), UTC)
        except (ValueError, OverflowError) as error:
            raise ValueError("a day such as 2026-03-01") from error
    return _moment(given)


def _within_reach(moment: datetime) -> datetime:
    if not 1 < moment.year < 9999:
        raise ValueError("a year between 2 and 9998")
    return moment


Named = Annotated[EntityName, BeforeValidator(_as_text)]
When = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_within_reach)]
Until = Annotated[datetime, BeforeValidator(_end), AfterValidator(_within_reach)]
Instructions = Annotated[Text, StringConstraints(max_length=20_000)]
Said = Annotated[Message, BeforeValidator(_as_message)]
PageNumber = Annotated[int, Field(ge=1, le=1_000_000)]
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Texts = Annotated[list[Text], BeforeValidator(_as_list), Field(max_length=1_000)]


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore")

    project_id: str | None = None


class PageQuery(BaseModel):
    """Which page, where the address says so."""

    page: PageNumber | None = None
    page_size: PageSize | None = None
    project_id: str | None = None


class WithEntities(Body):
    """Whom it is about, said at the top or in the filters."""

    user_id: Named | None = None
    agent_id: Named | None = None
    app_id: Named | None = None
    run_id: Named | None = None
    filters: dict[str, Any] | None = None

    @property
    def named(self) -> dict[str, str]:
        given = {name: getattr(self, name) for name in ENTITIES}
        return {name: value for name, value in given.items() if value is not None}


class Add(WithEntities):
    messages: Annotated[list[Said], BeforeValidator(_as_list), Field(max_length=MAX_MESSAGES)]
    metadata: dict[str, Any] | None = None
    infer: bool = True
    expiration_date: Until | None = None
    timestamp: When | None = None
    observation_date: When | None = None
    observation_datetime: When | None = None
    custom_instructions: Instructions | None = None
    agent_custom_instructions: Instructions | None = None
    includes: Instructions | None = None
    excludes: Instructions | None = None
    immutable: bool = False
    structured_data_schema: dict[str, Any] | None = None
    output_format: str | None = None

    def addition(self, workspace: Any) -> Addition:
        if self.immutable or self.structured_data_schema:
            raise InvalidInput(
                "immutable and structured_data_schema are not known here; leave them out, or use metadata."
            )
        return Addition(
            self.messages,
            self._entities(),
            workspace=workspace,
            metadata=self.metadata or {},
            infer=self.infer,
            expires_at=self.expiration_date,
            occurred_at=self.timestamp or self.observation_datetime or self.observation_date,
            instructions=self._instructions(),
        )

    def _entities(self) -> Entities:
        found = dict(self.named)
        for name, value in _flat(self.filters or {}):
            if name not in ENTITIES or not isinstance(value, str | int):
                raise InvalidFilter("filters: to add, only user_id, agent_id, app_id and run_id, one each.")
            if found.setdefault(name, str(value)) != str(value):
                raise InvalidFilter(f"{name} is given twice, and differently.")
        try:
            checked = _Names.model_validate(found)
        except ValidationError as error:
            raise InvalidFilter("filters: an id has 1 to 256 characters.") from error
        return Entities(checked.user_id, checked.agent_id, checked.app_id, checked.run_id).named()

    def _instructions(self) -> str | None:
        is_agents = self.agent_id is not None and self.user_id is None
        own = (self.agent_custom_instructions if is_agents else None) or self.custom_instructions
        parts = [
            own,
            f"Remember nothing but this: {self.includes}" if self.includes else None,
            f"Never remember this: {self.excludes}" if self.excludes else None,
        ]
        return "\n".join(filter(None, parts)) or None


class _Names(BaseModel):
    user_id: Named | None = None
    agent_id: Named | None = None
    app_id: Named | None = None
    run_id: Named | None = None


def _flat(filters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The conditions that all have to hold."""
    found: list[tuple[str, Any]] = []
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list):
            found += [one for each in value if isinstance(each, dict) for one in each.items()]
        else:
            found.append((name, value))
    return found


class Listing(WithEntities):
    """Which memories are meant."""

    categories: Texts | None = None
    metadata: dict[str, Any] | None = None
    keywords: Text | None = None
    start_date: When | None = None
    end_date: Until | None = None
    show_expired: bool = False
    latest_only: bool | None = None
    fields: Texts | None = None
    page: PageNumber | None = None
    page_size: PageSize | None = None

    def where(self, workspace: Any) -> Where:
        parts: list[dict[str, Any]] = [self.filters] if self.filters else []
        parts += [{name: value} for name, value in self.named.items()]
        if not any(map(names_entity, parts)):
            raise NoEntity(NEEDS_ENTITY)
        if self.categories:
            parts.append({"categories": {"in": self.categories}})
        if self.metadata:
            parts.append({"metadata": self.metadata})
        if self.keywords:
            parts.append({"keywords": self.keywords})
        if self.start_date:
            parts.append({"created_at": {"gte": self.start_date.isoformat()}})
        if self.end_date:
            parts.append({"created_at": {"lt": self.end_date.isoformat()}})
        return Where(
            workspace=workspace,
            filters={"AND": parts},
            expired=self.show_expired,
            # mem0 tells old facts with the new ones unless it is asked not to; only who says so wants that.
            superseded=self.latest_only is False,
        )


def names_entity(filters: object) -> bool:
    if isinstance(filters, Sequence) and not isinstance(filters, str):
        return any(map(names_entity, filters))
    if not isinstance(filters, Mapping):
        return False
    return any(
        name in ENTITIES or (name in {"AND", "OR"} and names_entity(value)) for name, value in filters.items()
    )


class Search(Listing):
    query: Text
    top_k: Annotated[int, Field(ge=1, le=MAX_FOUND)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None

    def wanted(self, workspace: Any) -> Wanted:
        return Wanted(
            self.query,
            self.where(workspace),
            limit=self.top_k or self.limit or 10,
            threshold=0.1 if self.threshold is None else self.threshold,
            explain=True,
        )


class Update(Body):
    text: Text | None = None
    metadata: dict[str, Any] | None = None
    timestamp: When | None = None
    expiration_date: Until | None = None


class BatchUpdate(BaseModel):
    memory_id: Id
    text: Text | None = None
    metadata: dict[str, Any] | None = None


class BatchDelete(BaseModel):
    memory_id: Id


class BatchUpdates(BaseModel):
    memories: Annotated[list[BatchUpdate], Field(min_length=1, max_length=MAX_BATCH)]


class BatchDeletes(BaseModel):
    memories: Annotated[list[BatchDelete], Field(min_length=1, max_length=MAX_BATCH)]


class GiveFeedback(Body):
    memory_id: Id
    feedback: Feedback | None = None
    feedback_reason: Reason | None = None


class Export(WithEntities):
    """What an export is to hold. mem0 has a model fill in ``schema``; here it holds the memories."""

    memory_export_id: Id | None = None

    def conditions(self) -> dict[str, Any]:
        parts = [self.filters] if self.filters else []
        parts += [{name: value} for name, value in self.named.items()]
        if not any(map(names_entity, parts)):
            raise NoEntity(NEEDS_ENTITY)
        return parts[0] if len(parts) == 1 else {"AND": parts}


class NewExport(Export):
    schema_: Annotated[dict[str, Any] | str, Field(alias="schema", min_length=1)]


class ProjectChange(BaseModel):
    """What a project can be told. The rest is refused rather than forgotten."""

    model_config = ConfigDict(extra="forbid")

    org_id: str | None = None
    project_id: str | None = None
    name: Name | None = None
    custom_instructions: Annotated[list[Instructions] | Instructions | None, Field()] = None
    agent_custom_instructions: Instructions | None = None
    custom_categories: Annotated[list[dict[str, Any] | Text], Field(max_length=100)] | None = None
    multilingual: bool | None = None
    decay: bool | None = None


class NewProject(BaseModel):
    name: Name
    description: Text | None = None


class Member(BaseModel):
    email: Email
    role: str = "READER"


def read_filters(given: str) -> dict[str, Any]:
    """Filters in an address. The Python client writes them there as Python does."""
    if len(given) > MAX_FILTER_TEXT:
        raise InvalidFilter(f"filters: at most {MAX_FILTER_TEXT:,} characters in an address.")
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(given)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict):
            check_json(found)
            return found
    raise InvalidFilter('filters: write them as JSON, such as {"user_id": "ana"}.')
