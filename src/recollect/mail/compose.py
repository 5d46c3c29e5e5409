"""From messages to an e-mail: headers, a text part and an HTML part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import getaddresses
from uuid import UUID

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from recollect.errors import Misconfigured
from recollect.kit.text import one_line
from recollect.mail.models import EVERY_KIND, Letter, shortened
from recollect.mail.tickets import Tickets

_MAX_NAME = 100

# Escaped by their names: what ends in .html is.
_templates = Environment(
    loader=PackageLoader("recollect.mail", "templates"),
    autoescape=select_autoescape(["html"], default=False),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


class BadAddress(Exception):
    """That is not an e-mail address that can be written to."""

    def __str__(self) -> str:
        return self.__doc__ or ""


@dataclass(frozen=True)
class Envelope:
    """An e-mail as it goes to the mail server."""

    sender: str
    recipient: str
    content: bytes


class Composer:
    def __init__(self, mail_from: str, base_url: str, tickets: Tickets) -> None:
        try:
            [(name, address)] = getaddresses([one_line(mail_from)])
            self._sender = _address(name or "Recollect", address)
        except (BadAddress, ValueError) as error:
            raise Misconfigured(
                "RECOLLECT_MAIL_FROM is not an address; write it as noreply@example.com "
                "or as Recollect <noreply@example.com>."
            ) from error
        self._base_url = base_url.rstrip("/")
        self._tickets = tickets
        self._text = _templates.get_template("digest.txt")
        self._html = _templates.get_template("digest.html")

    def write(self, letter: Letter) -> Envelope:
        recipient = _address(letter.full_name or "", letter.address)
        message = EmailMessage(policy=policy.SMTP)
        message["From"] = self._sender
        message["To"] = recipient
        message["Subject"] = _subject(letter)
        message["Date"] = datetime.now(UTC)
        # The same for every attempt at this letter, so that a double can be told from a second one.
        message["Message-ID"] = f"<{letter.id}@{self._sender.domain}>"
        message["Auto-Submitted"] = "auto-generated"
        content = {
            "letter": letter,
            "more": letter.total - len(letter.messages),
            "dashboard": f"{self._base_url}/mail",
            "absolute": self._absolute,
            "mute_links": [(kind, self._unsubscribe(letter.user_id, kind)) for kind in letter.kinds],
            "mute_all": self._unsubscribe(letter.user_id, EVERY_KIND),
        }
        # Quoted: every server takes it, however long the lines and whatever the letters.
        message.set_content(self._text.render(content), cte="quoted-printable")
        message.add_alternative(self._html.render(content), subtype="html", cte="quoted-printable")
        headers = self._list_headers(letter)
        return Envelope(self._sender.addr_spec, recipient.addr_spec, headers + message.as_bytes())

    def _list_headers(self, letter: Letter) -> bytes:
        """How mail programs unsubscribe with one click (RFC 8058). Put in front as they are: Python
        would encode an address longer than a line, and no mail program decodes that."""
        [kind] = letter.kinds if len(letter.kinds) == 1 else [EVERY_KIND]
        return (
            f"List-Unsubscribe: <{self._unsubscribe(letter.user_id, kind)}>\r\n"
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        ).encode("ascii")

    def _unsubscribe(self, user_id: UUID, kind: str) -> str:
        return f"{self._base_url}/unsubscribe?token={self._tickets.issue(user_id, kind)}"

    def _absolute(self, link: str) -> str:
        return f"{self._base_url}{link}" if link.startswith("/") else link


def _subject(letter: Letter) -> str:
    if letter.total == 1:
        return one_line(letter.messages[0].subject)
    return f"{letter.total} messages from Recollect"


def _address(name: str, address: str) -> Address:
    local, _, domain = address.rpartition("@")
    try:
        # Names in other scripts have an ASCII form; what stands before the @ has none.
        written = f"{local}@{domain.encode('idna').decode()}"
        if not written.isascii() or not written.isprintable() or " " in written:
            raise BadAddress
        return Address(shortened(one_line(name), _MAX_NAME), addr_spec=written)
    except (ValueError, IndexError, MessageError) as error:
        raise BadAddress from error
