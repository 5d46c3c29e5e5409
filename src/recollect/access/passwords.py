"""Password hashing, off the event loop and a few at a time: each takes 64 MB for a moment."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_hasher = PasswordHasher()
_at_once = asyncio.Semaphore(2)
# Verified where no user or no password exists, so that this takes as long as a wrong password.
_NOBODYS_HASH = _hasher.hash("nobody's password")


async def hashed(password: str) -> str:
    async with _at_once:
        return await asyncio.to_thread(_hasher.hash, password)


async def matches(stored: str | None, password: str) -> bool:
    async with _at_once:
        is_right = await asyncio.to_thread(_verify, stored or _NOBODYS_HASH, password)
    return is_right and stored is not None


def _verify(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
