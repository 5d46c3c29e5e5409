"""What can be done with mail; the only door to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import ValidationError

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import InvalidInput, Misconfigured, NotFound
from recollect.kit.logs import logger
from recollect.kit.secret import ServerSecret
from recollect.kit.text import one_line, plain
from recollect.mail import store
from recollect.mail.compose import BadAddress, Composer
from recollect.mail.models import (
    MAX_BODY,
    MAX_SUBJECT,
    Delivered,
    Letter,
    Message,
    NewMessage,
    Preferences,
    shortened,
)
from recollect.mail.smtp import MailServer, MailServerAway, MailServerRefuses, Postponed, Refused, Session
from recollect.mail.tickets import Ticket, Tickets

PAGE = 1_000
SHOWN = 50
PURGE_BATCH = 5_000
KEPT_FOR = timedelta(days=90)
# Who sets SMTP up does not want last month's messages sent.
HELD_FOR = timedelta(days=1)
# A sender has at most two minutes to hand a letter over; later than this it is dead.
LEASE = timedelta(minutes=10)
# One e-mail can upset a mail server; after this many in a row it is the server.
MAX_FAILURES_IN_A_ROW = 3
# How long a letter waits each time that it was not taken; after five days it has failed.
DELAYS = (
    timedelta(minutes=15),
    timedelta(hours=1),
    timedelta(hours=4),
    *(timedelta(days=1) for _ in range(5)),
)
_LOWEST_ID = UUID(int=0)

log = logger("mail")

Step = Callable[[], AbstractAsyncContextManager[Transaction]]


class UnknownMessage(NotFound):
    """There is no such message."""

    code = "unknown_message"


class Mail:
    """Without a mail server and an address to send from, messages are kept for the dashboard."""

    def __init__(
        self,
        secret: ServerSecret,
        *,
        server: MailServer | None = None,
        mail_from: str | None = None,
        base_url: str = "http://localhost:8000",
        lease: timedelta = LEASE,
    ) -> None:
        if server is not None and not mail_from:
            raise Misconfigured("Set RECOLLECT_MAIL_FROM to the address that e-mails are to come from.")
        self._tickets = Tickets(secret)
        self._server = server
        self._composer = Composer(mail_from, base_url, self._tickets) if mail_from else None
        self._lease = lease

    @property
    def can_send(self) -> bool:
        return self._server is not None and self._composer is not None

    async def send(
        self,
        tx: Transaction,
        user_id: UUID,
        kind: str,
        subject: str,
        text: str,
        *,
        link: str | None = None,
    ) -> UUID:
        """Leave a message for a user, if and only if the caller's transaction stands. With a user's own
        rights a message can be left for that user alone."""
        try:
            wanted = NewMessage(
                kind=kind,
                subject=shortened(one_line(subject), MAX_SUBJECT),
                body=shortened(plain(text), MAX_BODY),
                link=link,
            )
        except ValidationError as error:
            found = error.errors()[0]
            raise InvalidInput(f"{found['loc'][0]}: {found['msg']}.") from error
        return await store.send(tx, user_id, wanted, hold=not self.can_send)

    async def messages(
        self, tx: Transaction, *, before: tuple[datetime, UUID] | None = None, limit: int = PAGE
    ) -> list[Message]:
        """The caller's messages, newest first."""
        return await store.messages(tx, before=before, limit=limit)

    async def unread(self, tx: Transaction) -> int:
        """How many messages the caller has not read."""
        return await store.count_unread(tx)

    async def mark_read(self, tx: Transaction, message_id: UUID) -> Message:
        found = await store.mark_read(tx, message_id)
        if found is None:
            raise UnknownMessage
        return found

    async def mark_all_read(self, tx: Transaction, until: datetime) -> int:
        """Mark as read what is not newer than that; says how many."""
        return await store.mark_all_read(tx, until)

    async def delete(self, tx: Transaction, message_id: UUID) -> None:
        if not await store.delete(tx, message_id):
            raise UnknownMessage

    async def preferences(self, tx: Transaction) -> Preferences:
        """What the caller wants no e-mail about."""
        return await store.preferences(tx)

    async def set_preferences(self, tx: Transaction, wanted: Preferences) -> Preferences:
        return await store.replace_preferences(tx, wanted)

    def ticket(self, token: str) -> Ticket:
        """What an unsubscribe link says; an error if it is not one of ours."""
        return self._tickets.read(token)

    async def is_unsubscribed(self, tx: Transaction, ticket: Ticket) -> bool:
        return await store.is_muted(tx, ticket.user_id, ticket.kind)

    async def unsubscribe(self, tx: Transaction, ticket: Ticket) -> None:
        """As the service: the link is the proof, and whoever follows it need not be signed in."""
        await store.mute(tx, ticket.user_id, ticket.kind)

    async def resubscribe(self, tx: Transaction, ticket: Ticket) -> None:
        await store.unmute(tx, ticket.user_id, ticket.kind)

    async def deliver(self, tenancy: Tenancy, step: Step | None = None) -> Delivered:
        """Send each user one e-mail with all that is waiting for them.

        A letter is claimed in a transaction, sent outside of any, and its outcome recorded in another.
        Between the last two a crash has it sent again, as the same e-mail (same Message-ID): each
        message is sent at least once. ``step`` opens the transactions that claim, a job's for instance.
        """
        step = step or (lambda: tenancy.acting_as(SERVICE))
        if self._server is None or self._composer is None:
            async with step() as tx:
                await store.hold_waiting(tx, lease=self._lease)
            return Delivered()
        async with step() as tx:
            await store.settle(tx, lease=self._lease)
        async with self._server.session() as session:
            return await _Round(tenancy, step, self._composer, session, self._lease).walk()

    async def purge(self, tenancy: Tenancy) -> int:
        """Delete messages past their time, a bounded batch per transaction."""
        purged = 0
        while True:
            async with tenancy.acting_as(SERVICE) as tx:
                gone = await store.purge(tx, age=KEPT_FOR, batch=PURGE_BATCH)
            purged += gone
            if gone < PURGE_BATCH:
                return purged


class _Round:
    """A sender on its way from user to user."""

    def __init__(
        self, tenancy: Tenancy, step: Step, composer: Composer, session: Session, lease: timedelta
    ) -> None:
        self._tenancy = tenancy
        self._step = step
        self._composer = composer
        self._session = session
        self._lease = lease
        self._done = Delivered()
        self._failures_in_a_row = 0
        self._last_answer = ""

    async def walk(self) -> Delivered:
        after = _LOWEST_ID
        while letter := await self._claim(after):
            after = letter.user_id
            await self._hand_over(letter)
            if self._failures_in_a_row == MAX_FAILURES_IN_A_ROW:
                break
        if any(vars(self._done).values()):
            log.info("mail delivered", **vars(self._done))
        if self._failures_in_a_row == MAX_FAILURES_IN_A_ROW:
            raise MailServerAway(
                f"{self._done.postponed} e-mails could not be sent now ({self._done.letters} were): "
                f"{self._last_answer}"
            )
        return self._done

    async def _claim(self, after: UUID) -> Letter | None:
        async with self._step() as tx:
            return await store.claim(tx, after=after, lease=self._lease, held_for=HELD_FOR, shown=SHOWN)

    async def _hand_over(self, letter: Letter) -> None:
        try:
            await self._session.send(self._composer.write(letter))
        except BadAddress as error:
            await self._fail(letter, str(error))
        except Refused as error:
            await self._fail(letter, str(error))
        except Postponed as error:
            self._done.postponed += 1
            self._last_answer = error.answer
            self._failures_in_a_row = self._failures_in_a_row + 1 if error.is_about_all else 0
            async with self._recording() as tx:
                await store.postpone(
                    tx, letter.id, error.answer, delays=DELAYS, may_have_arrived=error.may_have_arrived
                )
        except (MailServerAway, MailServerRefuses) as error:
            async with self._recording() as tx:
                await store.release(tx, letter.id, error.detail)
            raise
        else:
            self._failures_in_a_row = 0
            self._done.letters += 1
            async with self._recording() as tx:
                self._done.messages += await store.mark_sent(tx, letter.id)

    async def _fail(self, letter: Letter, answer: str) -> None:
        self._failures_in_a_row = 0
        self._done.refused += 1
        async with self._recording() as tx:
            await store.mark_failed(tx, letter.id, answer)

    def _recording(self) -> Transaction:
        # Not a job's step: what has been sent is recorded even if the job was cancelled meanwhile.
        return self._tenancy.acting_as(SERVICE, for_one_call=True)
