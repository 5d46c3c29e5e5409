"""The deployment's secret, and all that is derived from it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from recollect.errors import Misconfigured

NONCE_BYTES = 12


class UnsealError(Misconfigured):
    """A sealed value could not be opened: its key is missing or it was altered."""

    code = "cannot_unseal"


class ServerSecret:
    """One secret per deployment. Each use gets a key of its own, so that none reveals another."""

    def __init__(self, root: bytes) -> None:
        self._root = root

    @classmethod
    def load(cls, home: Path, configured: str | None) -> ServerSecret:
        if configured is not None:
            return cls(configured.encode())
        path = home / "secret.key"
        try:
            if not path.exists():
                _write_once(path, secrets.token_urlsafe(48))
            return cls(path.read_bytes().strip())
        except OSError as error:
            raise Misconfigured(
                f"{path} cannot be read or made ({error.strerror}): run as the user who owns it, or set "
                "RECOLLECT_HOME to a directory of yours."
            ) from error

    def key_for(self, purpose: str) -> bytes:
        return hmac.digest(self._root, purpose.encode(), "sha256")

    @property
    def fingerprint(self) -> str:
        """Tells one secret from another, and nothing more."""
        return f"recollect {self.key_for('fingerprint').hex()[:16]}"

    def password_for(self, login: str) -> str:
        """The database password of one of the server's own logins."""
        return base64.urlsafe_b64encode(self.key_for(f"login:{login}")).decode().rstrip("=")

    def digest(self, token: str) -> bytes:
        """What is stored of an API key, a session or a link. Fast, since tokens are random."""
        return hmac.digest(self._token_key, token.encode(), "sha256")

    def sign(self, message: bytes) -> bytes:
        return hmac.digest(self._signing_key, message, "sha256")[:12]

    def seal(self, plain: bytes, context: bytes) -> bytes:
        return seal(self._sealing_key, plain, context)

    def unseal(self, sealed: bytes, context: bytes) -> bytes:
        return unseal(self._sealing_key, sealed, context)

    @cached_property
    def _token_key(self) -> bytes:
        return self.key_for("tokens")

    @cached_property
    def _signing_key(self) -> bytes:
        return self.key_for("signatures")

    @cached_property
    def _sealing_key(self) -> bytes:
        return self.key_for("sealing")


def seal(key: bytes, plain: bytes, context: bytes) -> bytes:
    """AES-GCM. The context is authenticated, so that a sealed value cannot be moved elsewhere."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError) as error:
        raise UnsealError from error


def fingerprint(*parts: bytes) -> bytes:
    """A hash in which no part can pass for a piece of its neighbour."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def _write_once(path: Path, text: str) -> None:
    # Linked into place whole: two processes that start at once end up with one and the same secret.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
