"""Tokens: ours, which are random, and Supabase's, which are signed."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import jwt
from jwt import PyJWK, PyJWKSet

from recollect.access.outside import RETRY, call
from recollect.errors import NotSignedIn, Unavailable
from recollect.settings import Settings

API_KEY_PREFIX = "rk_"
KEY_SET_REFRESH_SECONDS = 60
# A key that the project has revoked is believed no longer than this.
KEY_SET_LIFETIME_SECONDS = 600
RETRY_SECONDS = 5
_ASYMMETRIC = ("ES256", "RS256", "EdDSA")


class InvalidToken(NotSignedIn):
    """That token is not valid here, or has expired; sign in again."""

    code = "invalid_token"


def new_token() -> str:
    return secrets.token_urlsafe(32)


def new_api_key() -> tuple[str, str]:
    """A key, and the beginning of it that may be shown later."""
    prefix = API_KEY_PREFIX + secrets.token_hex(4)
    return f"{prefix}_{secrets.token_urlsafe(32)}", prefix


class Verified(NamedTuple):
    user_id: UUID
    expires_at: datetime


class SupabaseTokens:
    """Verifies tokens signed by a Supabase project, by its shared secret or by its public keys."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self._secret = settings.supabase_jwt_secret
        self._issuer = f"{str(settings.supabase_url).rstrip('/')}/auth/v1" if settings.supabase_url else None
        self._http = http
        self._keys: dict[str | None, PyJWK] | None = None
        self._next_fetch = self._good_until = float("-inf")
        self._fetching = asyncio.Lock()

    async def verified(self, token: str) -> Verified:
        try:
            key, algorithms = await self._verification_key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(algorithms),
                audience="authenticated",
                issuer=self._issuer,
                options={"require": ["exp", "sub", "aud"]},
            )
            return Verified(UUID(claims["sub"]), datetime.fromtimestamp(claims["exp"], UTC))
        except (jwt.PyJWTError, ValueError, OverflowError) as error:
            raise InvalidToken from error

    async def _verification_key(self, header: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        # The kind of key decides which algorithms count, never the token: a public key must not
        # pass for a shared secret.
        if header.get("alg") == "HS256" and self._secret is not None:
            return self._secret.get_secret_value(), ("HS256",)
        if header.get("alg") in _ASYMMETRIC and self._issuer is not None:
            return await self._public_key(header.get("kid")), _ASYMMETRIC
        raise InvalidToken

    async def _public_key(self, key_id: str | None) -> PyJWK:
        is_old = time.monotonic() > self._good_until
        if self._keys is None or key_id not in self._keys or is_old:
            await self._refresh()
        if self._keys is None:
            raise Unavailable("Supabase's keys could not be fetched; try again.", headers=RETRY)
        if key_id not in self._keys:
            raise InvalidToken
        return self._keys[key_id]

    async def _refresh(self) -> None:
        # Anybody can name a key that does not exist: that must not become a request each time.
        async with self._fetching:
            if time.monotonic() < self._next_fetch:
                return
            try:
                self._keys = await self._fetch_keys()
                self._good_until = time.monotonic() + KEY_SET_LIFETIME_SECONDS
            except Unavailable:
                # Known keys go on being good while Supabase is away; without any, nobody is known.
                if self._keys is None:
                    raise
            finally:
                pause = RETRY_SECONDS if self._keys is None else KEY_SET_REFRESH_SECONDS
                self._next_fetch = time.monotonic() + pause

    async def _fetch_keys(self) -> dict[str | None, PyJWK]:
        _, answer = await call(self._http, "GET", f"{self._issuer}/.well-known/jwks.json")
        try:
            return {key.key_id: key for key in PyJWKSet.from_dict(answer).keys}
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable("Supabase's keys could not be read; try again.", headers=RETRY) from error
