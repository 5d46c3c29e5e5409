"""The pages of the profile: the visitor's state as it is, how it came to be so, and ways back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, ValidationError
from pydantic import Field as Bounds
from starlette.responses import Response

from recollect.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn, RecollectError
from recollect.kit.diff import Part, differences
from recollect.profile.models import Document, NewActivity, Patch, Version
from recollect.profile.patch import diff, replay
from recollect.profile.readable import Change
from recollect.profile.service import news
from recollect.profile.tasks import UPDATE
from recollect.web.pages import page, see_other
from recollect.web.visiting import Visitor, reason_in, visitor_of

PER_PAGE = 20
PLOTTED = 50
UPDATES_SHOWN = 10
CHANGES_SHOWN = 50
LATEST = 2**31 - 1
SCORES = ("recency_score", "influence_score")
# What the page shows in a form of its own.
SHOWN = frozenset(
    {"version", "last_updated_by", "summary", "parts", "goals", "triggers_and_goals", "safety_notes"}
)

router = APIRouter(include_in_schema=False)

Field = Annotated[str, Form()]
Number = Annotated[int | None, Bounds(ge=0, le=LATEST)]


@dataclass(frozen=True)
class Shown:
    """A change, for people."""

    kind: str
    path: str
    parts: Sequence[Part]
    origin: str

    @classmethod
    def of(cls, change: Change) -> Shown:
        before = "" if change.kind == "added" else _written(change.before, indent=None)
        after = "" if change.kind == "removed" else _written(change.after, indent=None)
        parts = () if change.kind == "moved" else differences(before, after)
        return cls(change.kind, change.path, parts, change.origin)


@dataclass(frozen=True)
class Step:
    """A version, with the document before and after it."""

    version: Version
    patch: Patch
    before: Document
    after: Document

    @property
    def changes(self) -> list[Shown]:
        return shown(news(self.patch, self.before))


def shown(changes: Sequence[Change]) -> list[Shown]:
    return [Shown.of(change) for change in changes]


class StateQuery(BaseModel):
    version: Number = None


class HistoryQuery(BaseModel):
    before: Number = None


class CompareQuery(BaseModel):
    one: Annotated[int, Bounds(alias="from", ge=0, le=LATEST)] = 0
    other: Annotated[Number, Bounds(alias="to")] = None


@router.get("/profile")
async def state(request: Request, wanted: Annotated[StateQuery, Query()]) -> Response:
    return await _guarded(lambda: _state_page(request, version=wanted.version))


@router.get("/profile/history")
async def history(request: Request, wanted: Annotated[HistoryQuery, Query()]) -> Response:
    return await _guarded(lambda: _history_page(request, before=wanted.before))


@router.get("/profile/compare")
async def compare(request: Request, wanted: Annotated[CompareQuery, Query()]) -> Response:
    return await _guarded(lambda: _compare_page(request, wanted))


@router.post("/profile/note")
async def record(request: Request, content: Field = "") -> Response:
    async def work(visitor: Visitor) -> None:
        try:
            note = NewActivity(kind="note", content=content.replace("\r\n", "\n").strip())
        except ValidationError as error:
            raise InvalidInput(f"The note: {error.errors()[0]['msg']}.") from error
        if not note.content:
            raise InvalidInput("The note says nothing.")
        profile = visitor.recollect.profile
        await visitor.ask(lambda tx: profile.record(tx, visitor.me.id, [note]))

    return await _change(request, work, _state_page, then="/profile")


@router.post("/profile/update")
async def update(request: Request) -> Response:
    async def work(visitor: Visitor) -> str:
        jobs = visitor.recollect.jobs
        job = await visitor.ask(
            lambda tx: jobs.enqueue(tx, UPDATE, user_id=visitor.me.id, key="on demand", last=True)
        )
        return f"/jobs/{job}"

    return await _change(request, work, _state_page, then="/profile")


@router.post("/profile/restore")
async def restore(request: Request, version: Field = "", reason: Field = "") -> Response:
    async def work(visitor: Visitor) -> None:
        profile, number, why = visitor.recollect.profile, _number(version), reason_in(reason.strip())
        await visitor.ask(lambda tx: profile.restore(tx, visitor.me.id, version=number, reason=why))

    return await _change(request, work, _history_page, then="/profile")


@router.post("/profile/undo")
async def undo(request: Request, version: Field = "", reason: Field = "") -> Response:
    async def work(visitor: Visitor) -> None:
        profile, number, why = visitor.recollect.profile, _number(version), reason_in(reason.strip())
        await visitor.ask(lambda tx: profile.undo(tx, visitor.me.id, version=number, reason=why))

    return await _change(request, work, _history_page, then="/profile/history")


@router.get("/profile/{action}")
async def look_again(action: str) -> Response:
    """Where a refused form was shown there is nothing to come back to."""
    return see_other("/profile/history" if action in {"restore", "undo"} else "/profile")


async def _guarded(show: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await show()
    except NotSignedIn:
        return see_other("/sign-in")
    except NotFound:
        return see_other("/profile")


async def _change(
    request: Request,
    work: Callable[[Visitor], Awaitable[str | None]],
    again: Callable[..., Awaitable[Response]],
    *,
    then: str,
) -> Response:
    """Do it, and go on; or show the page again, and why not."""
    try:
        try:
            visitor = await visitor_of(request, "profile:write")
            return see_other(await work(visitor) or then)
        except (InvalidInput, NotAllowed, NotFound, Conflict) as refusal:
            return await again(request, refusal=refusal)
    except NotSignedIn:
        return see_other("/sign-in")


def _number(typed: str) -> int:
    if typed.isascii() and typed.isdigit() and int(typed) <= LATEST:
        return int(typed)
    raise InvalidInput("Say which version, by its number.")


# The state


async def _state_page(
    request: Request, *, version: int | None = None, refusal: RecollectError | None = None
) -> Response:
    visitor = await visitor_of(request, "profile:read")
    profile, me = visitor.recollect.profile, visitor.me
    found = await visitor.ask(lambda tx: profile.reconstruct_memory(tx, me.id, version=version))
    steps = await _steps(visitor, before=found.version + 1, limit=PLOTTED)
    document = found.document
    return page(
        request,
        "profile/state.html",
        status=refusal.status if refusal else 200,
        me=me,
        found=found,
        is_latest=version is None,
        parts=_parts(document, steps),
        goals=_goals(document),
        triggers=_records(document.get("triggers_and_goals")),
        others={name: _written(value) for name, value in document.items() if name not in SHOWN},
        updates=await visitor.ask(lambda tx: profile.updates(tx, me.id, limit=UPDATES_SHOWN)),
        problem=refusal.detail if refusal else None,
    )


@dataclass(frozen=True)
class PartShown:
    name: str
    status: str
    scores: Mapping[str, float]
    goals: Sequence[str]
    others: str
    plots: Mapping[str, str]
    """The points of each score's line, over the versions looked at."""


def _parts(document: Document, steps: Sequence[Step]) -> list[PartShown]:
    return [
        PartShown(
            name=str(part.get("name", key)),
            status=str(part.get("status", "")),
            scores={name: score for name in SCORES if (score := _score(part.get(name))) is not None},
            goals=_goals(part),
            others=_written(rest)
            if (rest := {k: v for k, v in part.items() if k not in {"name", "status", "goals", *SCORES}})
            else "",
            plots={name: points for name in SCORES if (points := _points(key, name, steps))},
        )
        for key, part in _named(document.get("parts")).items()
    ]


def _goals(owner: Document) -> list[str]:
    return [str(each.get("goal", each)) for each in _records(owner.get("goals"))]


def _points(key: str, name: str, steps: Sequence[Step]) -> str:
    """As an SVG's polyline takes them, in a box of 100 by 20; nothing where there is nothing to see."""
    across = 100 / max(1, len(steps) - 1)
    found = [
        f"{index * across:.1f},{20 - 20 * score:.1f}"
        for index, step in enumerate(steps)
        if (score := _score(_named(step.after.get("parts")).get(key, {}).get(name))) is not None
    ]
    return " ".join(found) if len(found) > 1 else ""


def _score(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None  # type: ignore[operator,arg-type]


# A deployment's own form may call something else by these names.
def _named(value: object) -> dict[str, dict[str, Any]]:
    given = value if isinstance(value, dict) else {}
    return {key: each for key, each in given.items() if isinstance(each, dict)}


def _records(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _written(value: Any, *, indent: int | None = 2) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


# The history


async def _steps(visitor: Visitor, *, before: int | None, limit: int) -> list[Step]:
    """Versions with their documents, the oldest first."""
    profile, me = visitor.recollect.profile, visitor.me
    versions = await visitor.ask(lambda tx: profile.history(tx, me.id, before=before, limit=limit))
    if not versions:
        return []
    start = versions[-1].version - 1
    document = (await visitor.ask(lambda tx: profile.reconstruct_memory(tx, me.id, version=start))).document
    steps = []
    for version in reversed(versions):
        patch: Patch = version.patch
        if version.version == 1:
            # Stored as a patch of nothing; people begin with an empty document.
            patch = diff(document, replay({}, [patch]))
        after: Document = replay(document, [patch])
        steps.append(Step(version, patch, document, after))
        document = after
    return steps


async def _history_page(
    request: Request, *, before: int | None = None, refusal: RecollectError | None = None
) -> Response:
    visitor = await visitor_of(request, "profile:read")
    steps = (await _steps(visitor, before=before, limit=PER_PAGE))[::-1]
    return page(
        request,
        "profile/history.html",
        status=refusal.status if refusal else 200,
        me=visitor.me,
        steps=steps,
        is_first_page=before is None,
        most=CHANGES_SHOWN,
        older=steps[-1].version.version if steps and steps[-1].version.version > 1 else None,
        problem=refusal.detail if refusal else None,
    )


async def _compare_page(request: Request, wanted: CompareQuery) -> Response:
    visitor = await visitor_of(request, "profile:read")
    profile, me = visitor.recollect.profile, visitor.me
    before = await visitor.ask(lambda tx: profile.reconstruct_memory(tx, me.id, version=wanted.one))
    difference = await visitor.ask(lambda tx: profile.diff(tx, me.id, before.version, wanted.other))
    return page(
        request,
        "profile/compare.html",
        me=me,
        one=difference.from_version,
        other=difference.to_version,
        changes_found=shown(news(difference.patch, before.document)),
    )
