"""Tokens: ours, which are random, and Supabase's, which are signed."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any
from uuid import UUID

import httpx
import jwt
from jwt import PyJWKSet

from recollect.errors import NotSignedIn, Unavailable
from recollect.settings import Settings

API_KEY_PREFIX = "rk_"
KEY_SET_REFRESH_SECONDS = 60
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


class SupabaseTokens:
    """Verifies tokens signed by a Supabase project, by its shared secret or by its public keys."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self._secret = settings.supabase_jwt_secret
        self._issuer = f"{str(settings.supabase_url).rstrip('/')}/auth/v1" if settings.supabase_url else None
        self._http = http
        self._keys: PyJWKSet | None = None
        self._fetched_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def user_of(self, token: str) -> UUID:
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
            return UUID(claims["sub"])
        except (jwt.PyJWTError, ValueError) as error:
            raise InvalidToken from error

    async def _verification_key(self, header: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        # The kind of key decides which algorithms count, never the token: a public key must not
        # pass for a shared secret.
        if header.get("alg") == "HS256" and self._secret is not None:
            return self._secret.get_secret_value(), ("HS256",)
        if header.get("alg") in _ASYMMETRIC and self._issuer is not None:
            return await self._public_key(header.get("kid")), _ASYMMETRIC
        raise InvalidToken

    async def _public_key(self, key_id: str | None) -> Any:
        async with self._fetching:
            is_known = self._keys is not None and any(k.key_id == key_id for k in self._keys.keys)
            if not is_known and time.monotonic() - self._fetched_at > KEY_SET_REFRESH_SECONDS:
                self._keys = await self._fetch_keys()
                self._fetched_at = time.monotonic()
        for key in self._keys.keys if self._keys else ():
            if key.key_id == key_id:
                return key.key
        raise InvalidToken

    async def _fetch_keys(self) -> PyJWKSet:
        try:
            answer = await self._http.get(f"{self._issuer}/.well-known/jwks.json")
            answer.raise_for_status()
            return PyJWKSet.from_dict(answer.json())
        except (httpx.HTTPError, ValueError, jwt.PyJWTError) as error:
            raise Unavailable("Supabase's keys could not be fetched; try again.") from error
