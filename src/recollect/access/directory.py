"""Where users are kept: in our own auth.users, or by Supabase's auth service."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

import httpx

from recollect.access.models import NewUser
from recollect.access.outside import RETRY, call
from recollect.errors import Conflict, InvalidInput, Misconfigured, Unavailable
from recollect.settings import Settings

_TAKEN = {"email_exists", "user_already_exists"}


class Directory(Protocol):
    is_elsewhere: bool
    """Whether another service keeps the users."""

    async def add(self, wanted: NewUser) -> UUID | None:
        """Make a user and return its id, or None if auth.users is ours to write."""


class OwnDirectory:
    is_elsewhere = False

    async def add(self, wanted: NewUser) -> UUID | None:  # noqa: ARG002 - the protocol's signature
        return None


class SupabaseDirectory:
    """Makes users through Supabase's admin API, since auth.users is not ours there."""

    is_elsewhere = True

    def __init__(self, base_url: str, service_key: str | None, http: httpx.AsyncClient) -> None:
        self._users = f"{base_url.rstrip('/')}/auth/v1/admin/users"
        self._service_key = service_key
        self._http = http

    async def add(self, wanted: NewUser) -> UUID | None:
        if self._service_key is None:
            raise Misconfigured("Users are made by Supabase: set SUPABASE_SERVICE_ROLE_KEY for that.")
        body = {"email": wanted.email, "email_confirm": True}
        if wanted.password:
            body["password"] = wanted.password
        headers = {"apikey": self._service_key, "Authorization": f"Bearer {self._service_key}"}
        status, answer = await call(self._http, "POST", self._users, json=body, headers=headers)
        if status == 409 or answer.get("error_code") in _TAKEN:
            raise Conflict("There is a user with that e-mail address already.")
        if status in {401, 403}:
            raise Misconfigured("Supabase refused SUPABASE_SERVICE_ROLE_KEY; check it.")
        if status in {400, 422}:
            raise InvalidInput("Supabase refused that e-mail address or password; try another.")
        try:
            return UUID(answer["id"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"Supabase answered {status} and no user; try again.", headers=RETRY) from error


def directory_for(settings: Settings, http: httpx.AsyncClient) -> Directory:
    if settings.supabase_url is None:
        return OwnDirectory()
    key = settings.service_key.get_secret_value() if settings.service_key else None
    return SupabaseDirectory(str(settings.supabase_url), key, http)
