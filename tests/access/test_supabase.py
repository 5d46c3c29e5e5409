"""With a Supabase project: its tokens are believed if they are right, and it makes the users."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from recollect.access.directory import SupabaseDirectory
from recollect.access.models import NewUser
from recollect.access.service import Access
from recollect.access.tokens import InvalidToken, SupabaseTokens
from recollect.bootstrap import Services
from recollect.errors import Conflict, InvalidInput, Misconfigured, RecollectError, Unavailable
from recollect.settings import Settings
from tests.access.loopback import Answer, Loopback, Request
from tests.api.raw import assert_problem
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

SECRET = "the shared secret of the project, long enough"
KEYS = "/auth/v1/.well-known/jwks.json"


class Project:
    """A Supabase project's keys, and tokens signed with them."""

    def __init__(self) -> None:
        self.elliptic = ec.generate_private_key(ec.SECP256R1())
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.stranger = ec.generate_private_key(ec.SECP256R1())
        self.answer: Answer | bytes | None = (200, {"keys": self.public_keys()})
        self.server = Loopback(self._answer)

    def public_keys(self) -> list[dict[str, Any]]:
        return [
            {**ECAlgorithm.to_jwk(self.elliptic.public_key(), as_dict=True), "kid": "ec", "alg": "ES256"},
            {**RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True), "kid": "rsa", "alg": "RS256"},
        ]

    async def _answer(self, request: Request) -> Answer | bytes | None:
        assert request.path == KEYS
        return self.answer

    def claims(self, user_id: UUID, **changes: Any) -> dict[str, Any]:
        claims = {
            "sub": str(user_id),
            "aud": "authenticated",
            "role": "authenticated",
            "iss": f"{self.server.url}/auth/v1",
            "iat": int(time.time()),
            "exp": int(time.time()) + 600,
        }
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}

    def signed(self, user_id: UUID, key: Any = SECRET, alg: str = "HS256", **changes: Any) -> str:
        kid = changes.pop("kid", None)
        headers = {"kid": kid} if kid else None
        return jwt.encode(self.claims(user_id, **changes), key, alg, headers=headers)


@pytest.fixture
async def project() -> AsyncIterator[Project]:
    made = Project()
    async with made.server.running():
        yield made


@pytest.fixture
def settings(home: Path, database_url: str, project: Project) -> Settings:
    return make_settings(home, database_url, supabase_url=project.server.url, supabase_jwt_secret=SECRET)


async def me(person: Person, token: str) -> httpx.Response:
    return await person.http.get("/api/auth/me", headers={"Authorization": f"Bearer {token}"})


async def test_tokens_signed_by_the_project_are_believed(project: Project, ana: Person) -> None:
    for token in (
        project.signed(ana.id),
        project.signed(ana.id, project.elliptic, "ES256", kid="ec"),
        project.signed(ana.id, project.rsa, "RS256", kid="rsa"),
        project.signed(ana.id, aud=["authenticated", "other"]),
    ):
        answer = await me(ana, token)
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == str(ana.id)
    assert len(project.server.requests) == 1, "keys are fetched once"


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


async def test_all_other_tokens_are_refused(project: Project, ana: Person) -> None:
    now = int(time.time())
    public_pem = project.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    good = project.signed(ana.id)
    wrong = {
        "alg none": unsigned({"alg": "none", "typ": "JWT"}, project.claims(ana.id)),
        "alg None": unsigned({"alg": "None"}, project.claims(ana.id)),
        "alg list": unsigned({"alg": ["HS256"]}, project.claims(ana.id)),
        "no alg": unsigned({"typ": "JWT"}, project.claims(ana.id)),
        "another secret": project.signed(ana.id, "some other secret, just as long as it"),
        "another algorithm": project.signed(ana.id, SECRET * 2, "HS512"),
        "another key": project.signed(ana.id, project.stranger, "ES256", kid="ec"),
        "key of another kind": project.signed(ana.id, project.stranger, "ES256", kid="rsa"),
        "public key as secret": _hmac_with(public_pem, project.claims(ana.id), kid="rsa"),
        "no kid": project.signed(ana.id, project.elliptic, "ES256"),
        "wrong audience": project.signed(ana.id, aud="anon"),
        "no audience": project.signed(ana.id, aud=None),
        "wrong issuer": project.signed(ana.id, iss="https://evil.example/auth/v1"),
        "no issuer": project.signed(ana.id, iss=None),
        "expired": project.signed(ana.id, exp=now - 60),
        "no expiry": project.signed(ana.id, exp=None),
        "not yet valid": project.signed(ana.id, nbf=now + 600),
        "from the future": project.signed(ana.id, iat=now + 600),
        "no subject": project.signed(ana.id, sub=None),
        "subject is no id": project.signed(ana.id, sub="ana"),
        "unknown user": project.signed(uuid4()),
        "cut off": good[:-4],
        "altered": good.replace(".", ".e", 1),
        "two parts": good.rpartition(".")[0],
        "endless header": base64.urlsafe_b64encode(b"[" * 20_000).decode() + ".e30.x",
        "deep header": base64.urlsafe_b64encode(b'{"alg":' + b"[" * 20_000).decode() + ".e30.x",
        "not base64": "!.!.!",
        "empty": "..",
    }
    for name, token in wrong.items():
        answer = await me(ana, token)
        assert answer.status_code == 401, f"{name}: {answer.text}"
        assert_problem(answer, 401)
    assert (await me(ana, good)).status_code == 200


def _hmac_with(secret: bytes, claims: dict[str, Any], kid: str) -> str:
    # By hand, since the library refuses to sign with a public key.
    header = {"alg": "HS256", "typ": "JWT", "kid": kid}
    message = unsigned(header, claims).rpartition(".")[0]
    signature = hmac.digest(secret, message.encode(), hashlib.sha256)
    return f"{message}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


async def test_a_deleted_users_token_is_refused(project: Project, ana: Person, services: Services) -> None:
    token = project.signed(ana.id)
    assert (await me(ana, token)).status_code == 200
    await services.access.remove_user(ana.email)
    assert_problem(await me(ana, token), 401, "not_signed_in")


async def test_a_key_that_does_not_exist_is_asked_for_once(project: Project, ana: Person) -> None:
    tokens = [project.signed(ana.id, project.stranger, "ES256", kid=f"k{n}") for n in range(50)]
    answers = await asyncio.gather(*(me(ana, token) for token in tokens))
    assert {answer.status_code for answer in answers} == {401}
    assert len(project.server.requests) == 1


async def test_while_keys_cannot_be_fetched_callers_are_told_to_wait(project: Project, ana: Person) -> None:
    token = project.signed(ana.id, project.elliptic, "ES256", kid="ec")
    broken: Answer
    for broken in ((500, {}), (200, []), (200, {"keys": "no"}), (200, {"keys": [{"kty": "odd"}]}), (200, {})):
        project.answer = broken
        tokens = SupabaseTokens(_settings_of(project), httpx.AsyncClient(timeout=5))
        with pytest.raises(Unavailable):
            await tokens.verified(token)
    project.answer = (503, {})
    before = len(project.server.requests)
    answers = await asyncio.gather(*(me(ana, token) for _ in range(20)))
    for answer in answers:
        assert_problem(answer, 503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
    assert len(project.server.requests) == before + 1
    assert (await me(ana, project.signed(ana.id))).status_code == 200, "the shared secret needs no keys"


async def test_a_keys_endpoint_that_never_finishes_is_given_up(project: Project) -> None:
    token = project.signed(uuid4(), project.elliptic, "ES256", kid="ec")
    for endless in (None, b" ", b" " * 100_000):
        project.answer = endless
        async with httpx.AsyncClient(timeout=0.3) as http:
            tokens = SupabaseTokens(_settings_of(project), http)
            async with asyncio.timeout(10):
                with pytest.raises(Unavailable):
                    await tokens.verified(token)


async def test_without_a_project_no_token_is_believed() -> None:
    async with httpx.AsyncClient() as http:
        tokens = SupabaseTokens(Settings(_env_file=None), http)
        for alg, key in (("HS256", SECRET), ("ES256", ec.generate_private_key(ec.SECP256R1()))):
            with pytest.raises(InvalidToken):
                await tokens.verified(jwt.encode({"sub": str(uuid4())}, key, alg))


def _settings_of(project: Project) -> Settings:
    return Settings(supabase_url=project.server.url, supabase_jwt_secret=SECRET, _env_file=None)


# Making users


@pytest.fixture
def auth_service(database_url: str) -> Callable[[Any], Loopback]:
    """Makes Supabase's admin endpoint, which keeps users in auth.users or answers as told."""

    def make(answer: Answer | bytes | None) -> Loopback:
        async def respond(request: Request) -> Answer | bytes | None:
            assert request.path == "/auth/v1/admin/users"
            assert request.headers["apikey"] == SECRET
            assert request.headers["authorization"] == f"Bearer {SECRET}"
            assert request.body["email_confirm"] is True
            if answer != (200, "make"):
                return answer
            async with await psycopg.AsyncConnection.connect(database_url) as connection:
                made = await connection.execute(
                    "insert into auth.users (email) values (%s) returning id", [request.body["email"]]
                )
                [user_id] = await made.fetchone() or [None]
            return 200, {"id": str(user_id), "email": request.body["email"]}

        return Loopback(respond)

    return make


def with_directory(services: Services, url: str, key: str, http: httpx.AsyncClient) -> Access:
    return Access(services.tenancy, services.secret, services.settings, SupabaseDirectory(url, key, http))


async def test_a_user_made_by_supabase_gets_a_profile_and_a_workspace(
    services: Services, auth_service: Callable[[Any], Loopback], database_url: str
) -> None:
    async with auth_service((200, "make")).running() as supabase, httpx.AsyncClient() as http:
        access = with_directory(services, supabase.url, SECRET, http)
        user = await access.create_user(NewUser(email="dora@example.com", full_name="Dora"))

    assert (user.email, user.full_name) == ("dora@example.com", "Dora")
    assert [request.body["email"] for request in supabase.requests] == ["dora@example.com"]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        found = await connection.execute("select personal_to from public.workspaces")
        assert await found.fetchall() == [(user.id,)]


async def test_what_supabase_refuses_is_told(
    services: Services, auth_service: Callable[[Any], Loopback]
) -> None:
    expected: list[tuple[Answer | bytes | None, type[RecollectError]]] = [
        ((422, {"code": 422, "error_code": "email_exists", "msg": "..."}), Conflict),
        ((409, {}), Conflict),
        ((422, {"error_code": "weak_password", "msg": "..."}), InvalidInput),
        ((401, {"msg": "invalid token"}), Misconfigured),
        ((403, {}), Misconfigured),
        ((500, {}), Unavailable),
        ((200, {}), Unavailable),
        ((200, {"id": 7}), Unavailable),
        ((200, ["id"]), Unavailable),
        (None, Unavailable),
        (b"x", Unavailable),
    ]
    for answer, error in expected:
        async with auth_service(answer).running() as supabase, httpx.AsyncClient(timeout=0.5) as http:
            access = with_directory(services, supabase.url, SECRET, http)
            async with asyncio.timeout(10):
                with pytest.raises(error) as refused:
                    await access.create_user(NewUser(email="dora@example.com"))
        assert SECRET not in refused.value.detail
    assert await services.access.list_users() == []


async def test_supabase_being_away_is_told(services: Services) -> None:
    async with httpx.AsyncClient(timeout=0.5) as http:
        access = with_directory(services, "http://127.0.0.1:9", SECRET, http)
        with pytest.raises(Unavailable):
            await access.create_user(NewUser(email="dora@example.com"))


async def test_who_signed_up_at_supabase_has_a_profile_and_a_workspace_at_the_first_request(
    project: Project, address: str, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        cursor = await connection.execute(
            "insert into auth.users (email) values ('new@example.com') returning id"
        )
        row = await cursor.fetchone()
    assert row is not None
    headers = {"Authorization": f"Bearer {project.signed(row[0])}"}
    async with httpx.AsyncClient(base_url=address, headers=headers) as http:
        assert (await http.get("/api/profile")).json()["email"] == "new@example.com"
        assert [each["name"] for each in (await http.get("/api/workspaces")).json()["data"]] == ["Personal"]


async def test_without_its_key_no_user_is_made_behind_supabases_back(services: Services) -> None:
    with pytest.raises(Misconfigured, match="SUPABASE_SERVICE_ROLE_KEY"):
        await services.access.create_user(NewUser(email="new@example.com"))
    assert await services.access.ensure_first_admin() is None
