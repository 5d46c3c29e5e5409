"""Password hashing, off the event loop and a few at a time: each takes 64 MB for a moment."""

from __future__ import annotations

import asyncio
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

AT_ONCE = 2


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def hashed(self, password: str) -> str:
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def matches(self, stored: str | None, password: str) -> bool:
        async with self._turns:
            is_right = await asyncio.to_thread(self._verify, stored, password)
        return is_right and stored is not None

    @cached_property
    def _nobodys_hash(self) -> str:
        """Verified where no user or no password exists, so that this takes as long as a wrong one."""
        return self._hasher.hash("nobody's password")

    def _verify(self, stored: str | None, password: str) -> bool:
        try:
            return self._hasher.verify(stored or self._nobodys_hash, password)
        except (VerificationError, InvalidHashError):
            return False
