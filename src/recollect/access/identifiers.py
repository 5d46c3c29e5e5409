"""The number by which a person or a company is known outside: a RUT, or what the settings say instead."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any
from uuid import UUID

from stdnum import exceptions
from stdnum.util import get_module_name

from recollect.errors import InvalidInput, Misconfigured

UUIDS = "uuid"
"""The scheme of those who have no such numbers."""


class InvalidIdentifier(InvalidInput):
    """That is no valid number of this server's scheme for people and companies."""

    code = "invalid_identifier"


class Identifiers:
    """``scheme`` is a module of python-stdnum, such as cl.rut; or uuid, which checks nothing."""

    def __init__(self, scheme: str) -> None:
        self._numbers = None if scheme == UUIDS else _module(scheme)

    def checked(self, given: str) -> str:
        """What a person entered, as the scheme writes it."""
        if self._numbers is None:
            return given
        try:
            number: str = self._numbers.validate(given)
            if hasattr(self._numbers, "format"):
                number = self._numbers.format(number)
        # A few modules let pass what is too short for them to write.
        except (exceptions.ValidationError, IndexError) as error:
            name = get_module_name(self._numbers)
            raise InvalidIdentifier(f'"{given}" is not a valid {name}: {_wrong(error)}.') from error
        return number

    def normalised(self, given: str) -> str:
        """The same for every way of writing a number, valid or not: digits, and letters in lower case."""
        if self._numbers is not None:
            with suppress(exceptions.ValidationError):
                given = self._numbers.compact(given)
        return "".join(filter(str.isalnum, given)).lower()

    def entity_id(self, identifier: str | None, owner_id: UUID) -> str:
        """How a memory engine knows somebody: by their number, or by our id where there is none."""
        if self._numbers is None or identifier is None:
            return str(owner_id)
        return self.normalised(identifier) or str(owner_id)


def _module(scheme: str) -> Any:
    package, _, name = f"stdnum.{scheme}".rpartition(".")
    try:
        # Some names, such as cl.vat, are no module's own.
        found = getattr(import_module(package), name, None) or import_module(f"{package}.{name}")
    except ImportError:
        found = None
    if not (hasattr(found, "validate") and hasattr(found, "compact")):
        raise Misconfigured(
            f'RECOLLECT_ENTITY_ID_SCHEME is "{scheme}"; set it to uuid, or to a module of python-stdnum such'
            " as cl.rut, es.nif or br.cnpj."
        )
    return found


def _wrong(error: Exception) -> str:
    match error:
        case exceptions.InvalidLength() | IndexError():
            return "its length is wrong"
        case exceptions.InvalidChecksum():
            return "its check digit is wrong"
        case exceptions.InvalidComponent():
            return "a part of it stands for nothing"
        case _:
            return "its form is wrong"
