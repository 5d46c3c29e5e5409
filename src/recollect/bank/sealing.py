"""Encryption of values in chosen namespaces.

A sealed value reads ``sealed:<key name>:<base64>``, which no JSON text can be, so plain and sealed
values live side by side while a namespace is being converted or a key rotated. The owner and the place
of a value are authenticated with it: a sealed value copied elsewhere does not open.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from uuid import UUID

from recollect.errors import Misconfigured
from recollect.kit.secret import UnsealError, fingerprint, seal, unseal

MARK = "sealed:"
KEY_BYTES = 32


class InvalidEncryptionKeys(Misconfigured):
    """RECOLLECT_BANK_ENCRYPTION_KEYS takes name:base64 pairs, each key of 32 bytes."""

    code = "invalid_encryption_keys"


class Sealer:
    def __init__(self, namespaces: Iterable[str], keys: Iterable[str]) -> None:
        self.namespaces = frozenset(namespaces)
        self._keys = dict(_parse(key) for key in keys)
        self._current = next(iter(self._keys), None)
        if self.namespaces and self._current is None:
            raise InvalidEncryptionKeys(
                "RECOLLECT_BANK_ENCRYPTED_NAMESPACES is set, but there is no key: put "
                "name:base64 of 32 random bytes into RECOLLECT_BANK_ENCRYPTION_KEYS."
            )

    @property
    def current_mark(self) -> str:
        """How values that are sealed with the newest key begin."""
        return f"{MARK}{self._current}:"

    def to_store(self, text: str, user_id: UUID, namespace: str, key: str) -> str:
        if namespace not in self.namespaces or self._current is None:
            return text
        sealed = seal(self._keys[self._current], text.encode(), _place(user_id, namespace, key))
        return self.current_mark + base64.b64encode(sealed).decode()

    def from_store(self, stored: str, user_id: UUID, namespace: str, key: str) -> str:
        if not stored.startswith(MARK):
            return stored
        name, _, body = stored.removeprefix(MARK).partition(":")
        if name not in self._keys:
            raise UnsealError(
                f'A value is sealed with the key "{name}", which is not in RECOLLECT_BANK_ENCRYPTION_KEYS.'
            )
        try:
            sealed = base64.b64decode(body, validate=True)
        except binascii.Error as error:
            raise UnsealError from error
        return unseal(self._keys[name], sealed, _place(user_id, namespace, key)).decode()


def _place(user_id: UUID, namespace: str, key: str) -> bytes:
    return fingerprint(user_id.bytes, namespace.encode(), key.encode())


def _parse(pair: str) -> tuple[str, bytes]:
    name, colon, encoded = pair.partition(":")
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise InvalidEncryptionKeys from error
    if not (name and colon and len(key) == KEY_BYTES):
        raise InvalidEncryptionKeys
    return name, key
