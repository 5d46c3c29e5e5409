"""Facts about one or many, out of a file: what saving them would change, or how saving them went."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from recollect.access.service import Access
from recollect.brain.models import Kind, NewMemory, Owner, Planned, checked_memory, slug_of
from recollect.brain.service import Brain
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import InvalidInput, NotFound
from recollect.kit.text import InvalidJson, strict_json

AT_ONCE = 1_000
COLUMNS = ("slug", "content", "category", "extra_metadata", "user", "company")


@dataclass(frozen=True, slots=True)
class Somebody:
    """Whom a file says a fact is about: a user by e-mail address or id, a company by name or id."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """A memory as it stands in a file, and where."""

    place: str
    about: Somebody | None
    memory: object
    error: str | None = None


class Placed(Planned):
    """What saving does to one memory of a file."""

    place: str
    about: str | None


class NotImported(BaseModel):
    place: str
    about: str | None
    slug: str
    error: str


@dataclass(slots=True)
class Imported:
    """How it went."""

    saved_count: int = 0
    created_count: int = 0
    errors: list[NotImported] = field(default_factory=list)

    @property
    def told(self) -> dict[str, Any]:
        return {
            "success": not self.errors,
            "saved_count": self.saved_count,
            "created_count": self.created_count,
            "failed_count": len(self.errors),
            "errors": [error.model_dump() for error in self.errors],
        }


def read_csv(data: bytes) -> list[Row]:
    """The rows of a table with the columns slug, content and, where wanted, the others."""
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        if missing := [name for name in ("slug", "content") if name not in names]:
            raise InvalidInput(f"The first line names the columns; there is none called {missing[0]}.")
        if unknown := [name for name in names if name not in COLUMNS]:
            raise InvalidInput(f'There is no column "{unknown[0]}"; there are {", ".join(COLUMNS)}.')
        reader.fieldnames = names
        return [_from_cells(f"line {reader.line_num - _breaks(cells)}", cells) for cells in reader]
    except UnicodeDecodeError as error:
        raise InvalidInput("The file is not UTF-8.") from error
    except csv.Error as error:
        raise InvalidInput(f"line {reader.line_num}: {error}.") from error


def read_json(data: bytes) -> list[Row]:
    """A list of memories, which may say whom each is about; or an object of lists, by whom they are about."""
    try:
        found = strict_json(data)
    except InvalidJson as error:
        raise InvalidInput(error.detail.replace("The body", "The file")) from error
    if isinstance(found, list):
        return [_from_object(f"item {nth}", None, given) for nth, given in enumerate(found, 1)]
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise InvalidInput(
            "The file holds neither a list of memories nor lists of them by whom they are about."
        )
    return [
        _from_object(f"item {nth} of {name}", _somebody(name), given)
        for name, memories in found.items()
        for nth, given in enumerate(memories, 1)
    ]


def _from_cells(place: str, cells: dict[str | Any, Any]) -> Row:
    if None in cells or None in cells.values():
        return Row(place, None, cells, "It has not as many cells as there are columns.")
    given = {name: value for name, value in cells.items() if value or name in {"slug", "content"}}
    try:
        if "extra_metadata" in given:
            given["extra_metadata"] = strict_json(given["extra_metadata"].encode())
    except InvalidJson as error:
        return Row(place, None, given, f"extra_metadata: {error.detail.replace('The body', 'it')}")
    return _from_object(place, None, given)


def _from_object(place: str, about: Somebody | None, given: object) -> Row:
    if not isinstance(given, dict):
        return Row(place, about, given)
    named = [Somebody(kind, str(given[kind])) for kind in ("user", "company") if given.get(kind)]
    if len(named) + (about is not None) > 1:
        return Row(place, about, given, "It is about two at once.")
    memory = {name: value for name, value in given.items() if name not in {"user", "company"}}
    return Row(place, about or next(iter(named), None), memory)


def _breaks(cells: Mapping[str, Any]) -> int:
    return sum(value.count("\n") for value in cells.values() if isinstance(value, str))


def _somebody(name: str) -> Somebody:
    kind, colon, rest = name.partition(":")
    if colon and kind == "user":
        return Somebody("user", rest)
    if colon and kind == "company":
        return Somebody("company", rest)
    return Somebody("user" if "@" in name else "company", name)


@dataclass(frozen=True, slots=True)
class Ready:
    """A memory that can be saved, and about whom."""

    row: Row
    owner: Owner
    memory: NewMemory


class Import:
    """Saves as the service. ``default`` is whom those are about that do not say it themselves."""

    def __init__(self, tenancy: Tenancy, brain: Brain, access: Access, *, default: Owner | None) -> None:
        self._tenancy = tenancy
        self._brain = brain
        self._access = access
        self._default = default
        self._owners: dict[Somebody, Owner | str] = {}

    async def plan(self, rows: Sequence[Row], advance: Callable[[int], None]) -> list[Placed]:
        """What saving these would change, without changing it; in the order of the file."""
        ready, errors = await self._judged(rows)
        placed = {error.place: Placed(change="refused", **error.model_dump()) for error in errors}
        advance(len(errors))
        for group in _by_owner(ready):
            last = {each.memory.slug: each for each in group}
            for planned in await self._planned(group[0].owner, [each.memory for each in last.values()]):
                row = last[planned.slug].row
                placed[row.place] = Placed(**planned.model_dump(), place=row.place, about=_name(row))
            advance(len(group))
        return [placed[row.place] for row in rows if row.place in placed]

    async def save(
        self, rows: Sequence[Row], advance: Callable[[int], None], *, reason: str | None = None
    ) -> Imported:
        ready, errors = await self._judged(rows)
        imported = Imported(errors=errors)
        advance(len(errors))
        for batch in _batches(ready):
            wanted = [(group[0].owner, [each.memory for each in group]) for group in batch]
            saved = await self._brain.save_for_many(self._tenancy, wanted, reason=reason)
            for group, result in zip(batch, saved, strict=True):
                failed = [
                    _refused(each.row, error)
                    for each in group
                    if (
                        error := result.failed.get(each.memory.slug) or _general(result.errors, result.failed)
                    )
                ]
                imported.errors += failed
                imported.saved_count += len(group) - len(failed)
                imported.created_count += result.created
                advance(len(group))
        return imported

    async def _planned(self, owner: Owner, memories: Sequence[NewMemory]) -> list[Planned]:
        try:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                return await self._brain.plan(tx, owner, memories)
        except NotFound as unknown:
            return [Planned(slug=each.slug, change="refused", error=unknown.detail) for each in memories]

    async def _judged(self, rows: Sequence[Row]) -> tuple[list[Ready], list[NotImported]]:
        ready: list[Ready] = []
        errors: list[NotImported] = []
        for row in rows:
            try:
                memory = _memory_in(row)
                ready.append(Ready(row, await self._owner(row.about), memory))
            except InvalidInput as error:
                errors.append(_refused(row, error.detail))
        return ready, errors

    async def _owner(self, about: Somebody | None) -> Owner:
        if about is None:
            if self._default is None:
                raise InvalidInput("It does not say whom it is about, and nobody was named.")
            return self._default
        if about not in self._owners:
            try:
                self._owners[about] = await self._found(about)
            except (NotFound, InvalidInput) as error:
                self._owners[about] = error.detail
        found = self._owners[about]
        if isinstance(found, str):
            raise InvalidInput(found)
        return found

    async def _found(self, about: Somebody) -> Owner:
        try:
            return Owner(about.kind, UUID(about.name))
        except ValueError:
            pass
        if about.kind == "user":
            return Owner("user", (await self._access.find_user(about.name)).id)
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return await self._brain.company_called(tx, about.name)


def _memory_in(row: Row) -> NewMemory:
    if row.error is not None:
        raise InvalidInput(row.error)
    return checked_memory(row.memory)


def _by_owner(ready: Sequence[Ready]) -> list[list[Ready]]:
    groups: dict[Owner, list[Ready]] = {}
    for each in ready:
        groups.setdefault(each.owner, []).append(each)
    return list(groups.values())


def _batches(ready: Sequence[Ready]) -> Iterator[list[list[Ready]]]:
    """Groups of one owner each, together no more than are saved at once; no owner twice in a batch."""
    batch: list[list[Ready]] = []
    for group in _by_owner(ready):
        for first in range(0, len(group), AT_ONCE):
            part = group[first : first + AT_ONCE]
            if first or sum(map(len, batch)) + len(part) > AT_ONCE:
                if batch:
                    yield batch
                batch = []
            batch.append(part)
    if batch:
        yield batch


def _general(errors: Sequence[str], failed: Mapping[str, str]) -> str | None:
    """What hinders all of them, as a missing configuration does."""
    return errors[0] if errors and not failed else None


def _refused(row: Row, error: str) -> NotImported:
    return NotImported(place=row.place, about=_name(row), slug=slug_of(row.memory), error=error)


def _name(row: Row) -> str | None:
    return row.about.name if row.about else None
