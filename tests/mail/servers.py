"""Real mail servers on loopback, with manners and without."""
# ruff: noqa: ARG002 - aiosmtpd tells a handler more than it asks

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from recollect.mail.smtp import MailServer, Security

USERNAME, PASSWORD = "recollect", "a password of the mail server"


@dataclass
class Mailbox:
    """What a mail server has received, and how it is to answer."""

    received: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    """By recipient: answers instead of its own, used up one after the other."""
    data_answers: list[str] = field(default_factory=list)
    sender_answers: list[str] = field(default_factory=list)
    hangs: bool = False
    """Whether it takes an e-mail and then says nothing."""
    took_one: asyncio.Event = field(default_factory=asyncio.Event)

    def of(self, address: str) -> list[EmailMessage]:
        return [
            message
            for message, recipient in zip(self.received, self.recipients, strict=True)
            if recipient == address
        ]

    async def handle_MAIL(  # noqa: N802 - its name in aiosmtpd
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.sender_answers:
            return self.sender_answers.pop(0)
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if prepared := self.answers.get(address):
            return prepared.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answers:
            return self.data_answers.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.received.append(message)
        self.raw.append(envelope.content)
        self.recipients.extend(envelope.rcpt_tos)
        self.took_one.set()
        if self.hangs:
            await asyncio.Event().wait()
        return "250 taken"


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    assert isinstance(data, LoginPassword)
    right = data.login == USERNAME.encode() and data.password == PASSWORD.encode()
    # A server without tact, which repeats the password.
    return AuthResult(success=right, handled=right or False, message=None if right else f"535 not {PASSWORD}")


@asynccontextmanager
async def mail_server(
    mailbox: Mailbox,
    *,
    security: Security = "none",
    certificate: Certificate | None = None,
    offers_tls: bool = True,
    seconds: float = 10,
    password: str | None = None,
) -> AsyncIterator[MailServer]:
    """A server for this mailbox, as Recollect is to reach it. With ``password`` one has to sign in."""
    loop = asyncio.get_running_loop()
    context = certificate.for_server if certificate else None

    def protocol() -> SMTP:
        with warnings.catch_warnings():
            # It does not see TLS that was there before it.
            warnings.filterwarnings("ignore", message="Requiring AUTH while not requiring TLS")
            return SMTP(
                mailbox,
                hostname="mail.test",
                loop=loop,
                tls_context=context if security == "starttls" and offers_tls else None,
                require_starttls=security == "starttls" and offers_tls,
                auth_required=password is not None,
                auth_require_tls=False,
                authenticator=_authenticate,
            )

    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if security == "tls" else None)
    try:
        yield MailServer(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            security,
            USERNAME if password is not None else None,
            password,
            seconds=seconds,
            tls=certificate.for_client if certificate else None,
        )
    finally:
        server.close()


@asynccontextmanager
async def silent_server(seconds: float) -> AsyncIterator[MailServer]:
    """Takes connections and never says a word."""
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    try:
        yield MailServer("127.0.0.1", server.sockets[0].getsockname()[1], "none", seconds=seconds)
    finally:
        ended.set()
        server.close()


@dataclass(frozen=True)
class Certificate:
    """Self-made, for 127.0.0.1."""

    for_server: ssl.SSLContext
    for_client: ssl.SSLContext

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = made.public_bytes(serialization.Encoding.PEM)
        path = folder / "mail.pem"
        path.write_bytes(
            pem
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        for_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for_server.load_cert_chain(path)
        return cls(for_server, ssl.create_default_context(cadata=pem.decode()))
