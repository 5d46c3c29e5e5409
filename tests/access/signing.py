"""Somebody to sign in, and how it is done over HTTP."""

from __future__ import annotations

import httpx

EMAIL = "cleo@example.com"
PASSWORD = "correct horse battery staple"
COOKIE = "recollect_session"
SECURE_COOKIE = "__Host-recollect_session"
PUBLIC_NAME = "memory.example.com"


async def sign_in(
    http: httpx.AsyncClient, email: str = EMAIL, password: str = PASSWORD, **headers: str
) -> httpx.Response:
    body = {"email": email, "password": password}
    return await http.post("/api/auth/sign-in", json=body, headers=headers)
