"""The way to the mail server, and what its answers mean: sent, refused for good, or not now."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import aiosmtplib
from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPSenderRefused,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)

from recollect.errors import Misconfigured, Unavailable
from recollect.kit.text import one_line
from recollect.mail.compose import Envelope
from recollect.mail.models import shortened

Security = Literal["starttls", "tls", "none"]

ANSWER_SECONDS = 20
_CLOSING = 421
_MAX_ANSWER = 300
# Our own links have no place in what is kept of an answer that quotes the e-mail.
_OUR_TOKENS = re.compile(r"token=[\w-]+")


class MailServerAway(Unavailable):
    """The mail server cannot be reached or is not taking e-mail at present; it is tried again."""

    code = "mail_server_away"


class MailServerRefuses(Misconfigured):
    """The mail server does not let us send; look at the RECOLLECT_SMTP_... settings."""

    code = "mail_server_refuses"


class Refused(Exception):
    """The mail server will never take this e-mail; the message is its answer."""


@dataclass
class Postponed(Exception):
    """The mail server did not take this e-mail now."""

    answer: str
    may_have_arrived: bool = False
    """The connection broke before the answer."""
    is_about_all: bool = False
    """It says nothing about this e-mail: the next one may fare the same."""


@dataclass(frozen=True)
class MailServer:
    host: str
    port: int = 587
    security: Security = "starttls"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    seconds: float = ANSWER_SECONDS
    """How long each of its answers may take; a whole e-mail may take three times as long."""
    tls: ssl.SSLContext | None = None
    """Whom to trust, where that is not what the system trusts."""

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        opened = Session(self)
        try:
            yield opened
        finally:
            await opened.close()

    def client(self) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            username=self.username,
            password=self.password,
            timeout=self.seconds,
            use_tls=self.security == "tls",
            # Never "if the server offers it": whoever sits in between could hide the offer.
            start_tls=self.security == "starttls",
            tls_context=self.tls if self.security != "none" else None,
        )


class Session:
    """Sends one e-mail after the other, over one connection as long as that lasts."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._client: aiosmtplib.SMTP | None = None

    async def send(self, envelope: Envelope) -> None:
        client = await self._connected()
        try:
            async with asyncio.timeout(3 * self._server.seconds):
                await client.sendmail(envelope.sender, [envelope.recipient], envelope.content)
        except SMTPRecipientsRefused as error:
            raise _judged(error.recipients[0]) from error
        except SMTPSenderRefused as error:
            if error.code >= 500:
                raise MailServerRefuses(
                    f"The mail server does not take e-mail from RECOLLECT_MAIL_FROM: {_answer(error)}"
                ) from error
            raise Postponed(_answer(error), is_about_all=True) from error
        except SMTPResponseException as error:
            raise _judged(error) from error
        except ValueError as error:
            raise Refused("That is not an e-mail address.") from error
        except (SMTPServerDisconnected, SMTPTimeoutError, TimeoutError, OSError) as error:
            self._drop()
            reason = "did not answer in time" if isinstance(error, TimeoutError) else "hung up"
            raise Postponed(f"The mail server {reason}.", may_have_arrived=True, is_about_all=True) from error

    async def close(self) -> None:
        if self._client is None:
            return
        try:
            async with asyncio.timeout(self._server.seconds):
                if self._client.is_connected:
                    await self._client.quit()
        except (SMTPException, TimeoutError, OSError):
            pass  # it has our e-mails; a farewell is not needed
        finally:
            self._drop()

    async def _connected(self) -> aiosmtplib.SMTP:
        if self._client is not None and self._client.is_connected:
            return self._client
        client = self._server.client()
        try:
            async with asyncio.timeout(3 * self._server.seconds):
                await client.connect()
        except SMTPAuthenticationError as error:
            # Without its words: some servers repeat what they were sent.
            if error.code >= 500:
                raise MailServerRefuses(
                    f"The mail server refused RECOLLECT_SMTP_USERNAME and _PASSWORD ({error.code})."
                ) from error
            raise MailServerAway(f"The mail server could not check our password ({error.code}).") from error
        except SMTPResponseException as error:
            raise MailServerAway(f"The mail server answered {_answer(error)}") from error
        except (SMTPConnectError, SMTPServerDisconnected, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        except SMTPException as error:
            # What is left: it lacks STARTTLS, or a way to sign in.
            raise MailServerRefuses(
                f"{error.message} Look at RECOLLECT_SMTP_SECURITY and RECOLLECT_SMTP_PORT."
            ) from error
        self._client = client
        return client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _unreachable(error: Exception) -> MailServerAway | MailServerRefuses:
    found = error if isinstance(error, ssl.SSLError) else error.__cause__
    if not isinstance(found, ssl.SSLError):
        return MailServerAway()
    return MailServerRefuses(
        f"There is no safe connection to the mail server ({found.reason}): is RECOLLECT_SMTP_HOST the name "
        "in its certificate, and does RECOLLECT_SMTP_SECURITY fit the port?"
    )


def _judged(error: SMTPResponseException) -> Refused | Postponed:
    if error.code >= 500:
        return Refused(_answer(error))
    return Postponed(_answer(error), is_about_all=error.code == _CLOSING)


def _answer(error: SMTPResponseException) -> str:
    """The server's words, for people to read."""
    words = _OUR_TOKENS.sub("token=…", one_line(error.message))
    return shortened(f"{error.code} {words}", _MAX_ANSWER)
