"""What can be done about users and their credentials."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from recollect.access import store
from recollect.access.directory import Directory
from recollect.access.models import (
    ApiKey,
    IssuedKey,
    Me,
    NewKey,
    NewSession,
    NewUser,
    PasswordChange,
    Session,
    User,
)
from recollect.access.passwords import Passwords
from recollect.access.store import queries
from recollect.access.tokens import new_api_key, new_token
from recollect.db.tenancy import SERVICE, Principal, Tenancy, Transaction
from recollect.errors import NotAllowed, NotFound, NotSignedIn, TooManyAttempts
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings

LINK_LIFETIME = timedelta(hours=1)
ATTEMPT_WINDOW = timedelta(minutes=15)
# One client may guess at many accounts: it gets more attempts than an account, but not endlessly.
CLIENT_FACTOR = 5
FIRST_ADMIN = "admin@localhost"
MOST_REMEMBERED = 100_000


class WrongCredentials(NotSignedIn):
    """E-mail address and password do not match."""

    code = "wrong_credentials"


class WrongPassword(NotAllowed):
    """The current password is not right."""

    code = "wrong_password"


class SpentLink(NotSignedIn):
    """That sign-in link was used already or has expired; ask for a new one."""

    code = "spent_link"


class UnknownUser(NotFound):
    """There is no user with that e-mail address."""

    code = "unknown_user"


class Access:
    def __init__(
        self, tenancy: Tenancy, secret: ServerSecret, settings: Settings, directory: Directory
    ) -> None:
        self._tenancy = tenancy
        self._secret = secret
        self._settings = settings
        self._directory = directory
        self._passwords = Passwords()
        self._welcomed: set[UUID] = set()

    # Users

    async def create_user(self, wanted: NewUser) -> User:
        hashed = await self._passwords.hashed(wanted.password) if wanted.password else None
        # Where another service keeps the users, it is asked before our transaction begins.
        made_elsewhere = await self._directory.add(wanted)
        async with self._tenancy.acting_as(SERVICE) as tx:
            if made_elsewhere is None:
                user_id = await store.add_user(tx, wanted.email, wanted.full_name)
            else:
                user_id = made_elsewhere
                await tx.run(queries.welcome_user, {"user_id": user_id, "full_name": wanted.full_name})
            if wanted.is_admin:
                await tx.run(queries.make_admin, {"user_id": user_id})
            if hashed:
                await tx.run(queries.put_password, {"user_id": user_id, "hash": hashed})
            return await self._user(tx, user_id=user_id)

    async def find_user(self, email: str) -> User:
        async with self._tenancy.acting_as(SERVICE) as tx:
            return await self._user(tx, email=email)

    async def list_users(self, *, after: str = "", limit: int = 100) -> list[User]:
        async with self._tenancy.acting_as(SERVICE) as tx:
            return await store.list_users(tx, after, limit)

    async def remove_user(self, email: str) -> None:
        async with self._tenancy.acting_as(SERVICE) as tx:
            user = await self._user(tx, email=email)
            await tx.one(queries.remove_user, {"user_id": user.id})

    async def welcome(self, user_id: UUID) -> None:
        """Give a user who signed up elsewhere a profile and a personal workspace, once."""
        if user_id in self._welcomed:
            return
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.welcome_user, {"user_id": user_id, "full_name": None})
        # Forgetting costs a statement that changes nothing; remembering everybody costs memory.
        if len(self._welcomed) >= MOST_REMEMBERED:
            self._welcomed.clear()
        self._welcomed.add(user_id)

    async def set_admin(self, email: str, *, is_admin: bool) -> User:
        """Let a user act for all others, or no longer."""
        async with self._tenancy.acting_as(SERVICE) as tx:
            user = await self._user(tx, email=email)
            query = queries.make_admin if is_admin else queries.unmake_admin
            await tx.run(query, {"user_id": user.id})
            return await self._user(tx, user_id=user.id)

    async def ensure_first_admin(self) -> User | None:
        """The deployment's first admin, made if there is none and the users are ours to make."""
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.lock_first_admin)
            admin = await store.first_admin(tx)
            if admin is not None or self._directory.is_elsewhere:
                return admin
            user_id = await store.add_user(tx, FIRST_ADMIN, "Admin")
            await tx.run(queries.make_admin, {"user_id": user_id})
            return await self._user(tx, user_id=user_id)

    async def _user(self, tx: Transaction, *, email: str | None = None, user_id: UUID | None = None) -> User:
        user = await store.find_user(tx, email=email, user_id=user_id)
        if user is None:
            raise UnknownUser
        return user

    # Signing in and out

    async def sign_in(
        self, email: str, password: str, *, client: str, user_agent: str | None = None
    ) -> NewSession:
        account = self._secret.digest(f"account:{email.lower()}")
        from_client = self._secret.digest(f"client:{client}")
        # The client first: who has used up their own attempts must not use up other people's.
        noted = await self._count_attempt(from_client, self._settings.sign_in_attempts * CLIENT_FACTOR)
        await self._count_attempt(account, self._settings.sign_in_attempts)
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.maybe(queries.find_password, {"email": email})
        if not await self._passwords.matches(row["hash"] if row else None, password) or row is None:
            raise WrongCredentials
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.forget_attempts, {"subject": account})
            # Only its own attempt: one right password must not buy a client more wrong ones.
            await tx.run(queries.forget_attempt, {"subject": from_client, "moment": noted})
            return await self._start_session(tx, row["id"], user_agent)

    async def make_link(self, email: str) -> str:
        """A token that signs its bearer in, once, within the hour."""
        token = new_token()
        async with self._tenancy.acting_as(SERVICE) as tx:
            user = await self._user(tx, email=email)
            await tx.run(
                queries.add_link,
                {
                    "digest": self._secret.digest(token),
                    "user_id": user.id,
                    "lifetime": LINK_LIFETIME,
                },
            )
        return token

    async def sign_in_by_link(self, token: str, *, user_agent: str | None = None) -> NewSession:
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.maybe(queries.use_link, {"digest": self._secret.digest(token)})
            if row is None:
                raise SpentLink
            return await self._start_session(tx, row["user_id"], user_agent)

    async def sign_out(self, token: str) -> None:
        async with self._tenancy.acting_as(SERVICE) as tx:
            digest = self._secret.digest(token)
            await tx.run(queries.drop_session_by_digest, {"digest": digest})

    async def change_password(self, principal: Principal, change: PasswordChange) -> None:
        """Set a password, and sign the user out everywhere else."""
        # A key may have fewer scopes than its owner's session, and must not become one this way.
        if principal.session_id is None:
            raise NotAllowed("A password is changed by its owner, signed in; a key cannot do it.")
        account = self._secret.digest(f"password of:{principal.user_id}")
        await self._count_attempt(account, self._settings.sign_in_attempts)
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.maybe(queries.find_password_of, {"user_id": principal.user_id})
        if row and not await self._passwords.matches(row["hash"], change.current_password or ""):
            raise WrongPassword
        await self.set_password(principal.user_id, change.new_password, keeping=principal.session_id)
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.forget_attempts, {"subject": account})

    async def set_password(self, user_id: UUID, password: str, *, keeping: UUID | None = None) -> None:
        hashed = await self._passwords.hashed(password)
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.put_password, {"user_id": user_id, "hash": hashed})
            await tx.run(queries.drop_links, {"user_id": user_id})
            await tx.run(queries.end_other_sessions, {"user_id": user_id, "except_id": keeping})

    async def _start_session(self, tx: Transaction, user_id: UUID, user_agent: str | None) -> NewSession:
        token = new_token()
        expires_at = await store.add_session(
            tx,
            user_id=user_id,
            digest=self._secret.digest(token),
            user_agent=user_agent,
            idle=timedelta(hours=self._settings.session_idle_hours),
            lifetime=timedelta(days=self._settings.session_max_days),
        )
        await tx.run(queries.record_sign_in, {"user_id": user_id})
        return NewSession(token=token, user_id=user_id, expires_at=expires_at)

    async def _count_attempt(self, subject: bytes, allowed: int) -> datetime:
        # Counted before the password is looked at, in a transaction of its own: a failure must not
        # undo the count, and parallel guesses must not slip past it.
        async with self._tenancy.acting_as(SERVICE) as tx:
            noted, wait = await store.count_attempt(tx, subject, ATTEMPT_WINDOW, allowed)
        if noted is None:
            minutes = -(-wait // 60)
            raise TooManyAttempts(
                f"Too many attempts; try again in {minutes} minute{'s' if minutes > 1 else ''}.",
                headers={"Retry-After": str(wait)},
            )
        return noted

    # The caller's own sessions and keys, in the caller's own transaction

    async def me(self, tx: Transaction) -> Me:
        row = await tx.maybe(queries.whoami, last=True)
        principal = tx.principal
        return Me(
            id=principal.user_id,
            email=principal.email,
            full_name=row["full_name"] if row else None,
            is_admin="admin" in principal.scopes,
            scopes=sorted(principal.scopes),
        )

    async def sessions(self, tx: Transaction) -> list[Session]:
        return await store.list_sessions(tx)

    async def end_session(self, tx: Transaction, session_id: UUID) -> None:
        if not await tx.run(queries.end_session, {"id": session_id}):
            raise NotFound

    async def create_key(self, tx: Transaction, wanted: NewKey) -> IssuedKey:
        key, prefix = new_api_key()
        stored = await store.add_key(tx, wanted, prefix, self._secret.digest(key))
        return IssuedKey(**stored.model_dump(), key=key)

    async def keys(
        self, tx: Transaction, *, before: tuple[datetime, UUID] | None = None, limit: int = 100
    ) -> list[ApiKey]:
        return await store.list_keys(tx, before=before, limit=limit)

    async def revoke_key(self, tx: Transaction, key_id: UUID) -> ApiKey:
        return await store.revoke_key(tx, key_id)

    async def purge_expired(self) -> int:
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.one(queries.purge_expired)
            purged: int = row["purged"]
            return purged
