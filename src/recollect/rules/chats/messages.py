"""Arrays of messages as the APIs of OpenAI and Anthropic take them: bare, in objects, or one in each line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recollect.rules.chats.documents import values
from recollect.rules.chats.models import Chat
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object, spoken
from recollect.rules.chats.sources import Report, Source, json_lines, json_value
from recollect.rules.chats.transcript import Transcript, moment, named_action

FORMAT = "messages"
LINES = "messages-lines"
APPLICATION = "api"


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file that is one JSON value."""
    yield from _chats(source, values(source, report))


def read_lines(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file with one JSON value in each line."""
    yield from _chats(source, json_lines(source, report, lambda line: not line.isspace()))


def _chats(source: Source, entries: Iterable[Json]) -> Iterator[Chat]:
    """An entry with messages is a chat; entries that are messages themselves are one chat together."""
    together = Transcript(source.name, FORMAT, session=source.stem, is_named=False)
    for number, entry in enumerate(entries):
        if "messages" not in entry:
            _say(together, entry)
            yield from together.full_part()
            continue
        name = _first(entry, "session_id", "conversation_id", "id", "uuid")
        transcript = Transcript(
            source.name,
            FORMAT,
            session=name or f"{source.stem}-{number}",
            is_named=bool(name),
            title=_first(entry, "title", "name") or None,
            started_at=moment(entry.get("created_at") or entry.get("timestamp")),
        )
        for message in a_list(entry.get("messages")):
            _say(transcript, an_object(message))
        yield from transcript.rest()
    yield from together.rest()


def from_application(
    session: str,
    messages: Iterable[Json],
    *,
    project: str | None = None,
    title: str | None = None,
    author: str | None = None,
) -> Iterator[Chat]:
    """The chat that an application tells of, if a human says anything in it."""
    transcript = Transcript(APPLICATION, APPLICATION, session, project, author, title)
    for message in messages:
        _say(transcript, message)
    yield from transcript.rest()


def _first(entry: Json, *keys: str) -> str:
    return next((text for key in keys if (text := a_text(entry.get(key)))), "")


def _say(transcript: Transcript, message: Json) -> None:
    content = message.get("content")
    at = moment(message.get("at") or message.get("created_at") or message.get("timestamp"))
    match message.get("role"):
        case "user":
            transcript.author = transcript.author or a_text(message.get("name")) or None
            transcript.say("user", spoken(content), at)
        case "assistant":
            transcript.say("assistant", spoken(content), at)
            for block in map(an_object, a_list(content)):
                if block.get("type") == "tool_use":
                    transcript.did(named_action(block.get("name"), block.get("input")))
            for call in map(an_object, a_list(message.get("tool_calls"))):
                function = an_object(call.get("function"))
                transcript.did(named_action(function.get("name"), arguments(function.get("arguments"))))


def arguments(written: object) -> Json:
    """The arguments of a call, which OpenAI's API writes as JSON in a string."""
    try:
        return an_object(json_value(a_text(written)))
    except (ValueError, RecursionError):
        return {}
