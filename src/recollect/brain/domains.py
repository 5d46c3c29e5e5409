"""What becomes of a form or a row: the facts in it, each as a memory.

Each domain is a file in ``domains/``. In a text ``{name}`` stands for a field, and what stands in square
brackets is left out where one of its fields is empty. A memory of which another field is empty is not made.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from recollect.brain.models import Category, Kind, Slug
from recollect.engine.models import MAX_TEXT
from recollect.errors import InvalidInput, NotFound

FALLBACK = "en"

_FIELD = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*")

Words = dict[str, str]
"""The same in each language."""


class UnknownDomain(NotFound):
    """There is no such domain."""

    code = "unknown_domain"


class UnknownField(InvalidInput):
    """The domain has no such field."""

    code = "unknown_field"


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Told):
    """How a field is written: as it is, as a day, or by what its codes mean."""

    format: Literal["text", "date"] = "text"
    codes: dict[str, Words] = {}


class Entry(_Told):
    """A fact that a domain tells."""

    slug: Slug
    owner: Kind
    category: Category
    text: Words

    # mypy has no notion of a decorated property, which is how pydantic wants it.
    @computed_field  # type: ignore[prop-decorator]
    @property
    def fields(self) -> list[str]:
        return list(dict.fromkeys(_FIELD.findall(self.text[FALLBACK])))


class Domain(_Told):
    name: str
    purpose: str
    fields: dict[str, Source] = {}
    """Those that are not written as they are."""
    entries: list[Entry]

    @property
    def field_names(self) -> list[str]:
        return list(dict.fromkeys(name for entry in self.entries for name in entry.fields))


@dataclass(frozen=True)
class Built:
    """A memory to be saved for a user or a company."""

    owner: Kind
    slug: str
    category: str
    content: str


def domains() -> list[Domain]:
    """All there are, by name."""
    return list(_all().values())


def domain(name: str) -> Domain:
    try:
        return _all()[name]
    except KeyError:
        raise UnknownDomain(f"There is no such domain; there are: {', '.join(_all())}.") from None


def build(domain_name: str, fields: Mapping[str, Any], *, language: str) -> list[Built]:
    """The memories in a form or a row; an entry that does not know the language is in English."""
    found = domain(domain_name)
    _check_names(found, fields)
    built = (_built(found, entry, fields, language) for entry in found.entries)
    return [each for each in built if each is not None]


@cache
def _all() -> dict[str, Domain]:
    folder = files(__package__) / "domains"
    names = sorted(file.name.removesuffix(".toml") for file in folder.iterdir())
    return {name: _read(name, (folder / f"{name}.toml").read_text("utf-8")) for name in names}


def _read(name: str, text: str) -> Domain:
    told = tomllib.loads(text)
    entries = [{"slug": slug, **entry} for slug, entry in told.pop("entries").items()]
    return Domain.model_validate({"name": name, **told, "entries": entries})


def _check_names(found: Domain, fields: Mapping[str, Any]) -> None:
    unknown = [name for name in fields if name not in found.field_names]
    if unknown:
        # Only the first, cut short: whoever sent them knows the rest.
        raise UnknownField(
            f'"{unknown[0][:80]}" is no field of {found.name}; it has: {", ".join(found.field_names)}.'
        )


def _built(found: Domain, entry: Entry, fields: Mapping[str, Any], language: str) -> Built | None:
    language = language if language in entry.text else FALLBACK
    values = {name: _written(name, fields.get(name), found, language) for name in entry.fields}
    content = _filled(entry.text[language], {name: value for name, value in values.items() if value})
    if content is None:
        return None
    if len(content) > MAX_TEXT:
        names = " and ".join(entry.fields)
        raise InvalidInput(f"{names}: too long; {entry.slug} has room for {MAX_TEXT:,} characters.")
    return Built(entry.owner, entry.slug, entry.category, content)


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    """The text with its values, which are never looked into; None where one is missing."""
    text = _OPTIONAL.sub(lambda part: part[1] if values.keys() >= _fields_of(part[1]) else "", text)
    if not values.keys() >= _fields_of(text):
        return None
    return _FIELD.sub(lambda field: values[field[1]], text)


def _fields_of(text: str) -> set[str]:
    return set(_FIELD.findall(text))


def _written(name: str, value: Any, found: Domain, language: str) -> str:
    source = found.fields.get(name, Source())
    each = value if isinstance(value, list | tuple) else (value,)
    return ", ".join(filter(None, (_one_written(name, one, source, language) for one in each)))


def _one_written(name: str, value: Any, source: Source, language: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            plain = str(value).lower()  # as JSON writes it
        case datetime() if source.format == "date":
            plain = value.date().isoformat()
        case str() | int() | float() | Decimal() | date():
            plain = str(value).strip()
        case _:
            raise InvalidInput(f"{name}: text, a number, true or false, a day, or a list of these.")
    if source.format == "date" and _MOMENT.fullmatch(plain):
        plain = plain[:10]
    meaning = source.codes.get(plain)
    return plain if meaning is None else meaning.get(language, meaning[FALLBACK])
