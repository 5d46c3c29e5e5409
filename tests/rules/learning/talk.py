"""Chats as the tests need them: said by one person, each turn after something that the assistant did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recollect.rules.chats.models import Chat, Turn
from recollect.rules.learning.listening import score_turn
from recollect.rules.learning.scoring import fitted

BEGINNING = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def chat(
    *said: str, session: str = "monday", author: str = "ana", project: str | None = "shop", day: int = 0
) -> Chat:
    """What the user says is answered each time with the same words."""
    begun = BEGINNING + timedelta(days=day)
    turns = [Turn("user", "Let us begin with the parser.", begun, 0), Turn("assistant", "Done.", None, 1)]
    for number, text in enumerate(said, start=1):
        at = begun + timedelta(minutes=number)
        turns.append(Turn("user", text, at, 2 * number, doing="Edit src/parser.py"))
        turns.append(Turn("assistant", "Done.", None, 2 * number + 1))
    return Chat(f"{session}.jsonl", "claude-code", session, project, author, None, begun, tuple(turns))


def sounds_like_a_rule(text: str, said_before: str = "Done.") -> bool:
    turn = Turn("user", text, None, 2, doing="Edit src/parser.py")
    return score_turn(turn, Turn("assistant", said_before, None, 1)) >= fitted().threshold
