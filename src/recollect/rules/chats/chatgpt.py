"""ChatGPT's export: ``conversations.json``, trees of messages of which one branch stands."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.rules.chats.documents import values
from recollect.rules.chats.models import Chat
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object
from recollect.rules.chats.sources import Report, Source
from recollect.rules.chats.transcript import Transcript, moment

FORMAT = "chatgpt"

# Other types are custom instructions, thoughts, and what tools were given.
_SPOKEN = (None, "text", "multimodal_text")


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file."""
    for conversation in values(source, report):
        name = a_text(conversation.get("conversation_id")) or a_text(conversation.get("id"))
        transcript = Transcript(
            source.name,
            FORMAT,
            session=name or source.stem,
            is_named=bool(name),
            title=a_text(conversation.get("title")) or None,
            started_at=moment(conversation.get("create_time")),
        )
        for message in _branch(conversation):
            _say(transcript, message)
        yield from transcript.rest()


def _branch(conversation: Json) -> list[Json]:
    """The messages from the first to the current one; other branches are answers that were replaced."""
    mapping = an_object(conversation.get("mapping"))
    at = conversation.get("current_node")
    if not isinstance(at, str) or at not in mapping:
        at = _latest(mapping)
    messages, met = [], set()
    while isinstance(at, str) and at in mapping and at not in met:
        met.add(at)
        node = an_object(mapping[at])
        messages.append(an_object(node.get("message")))
        at = node.get("parent")
    return messages[::-1]


def _latest(mapping: Json) -> str | None:
    """The newest message, for an export that does not say which is current."""
    times = {
        key: an_object(an_object(node).get("message")).get("create_time") for key, node in mapping.items()
    }
    known = {key: time for key, time in times.items() if isinstance(time, int | float)}
    return max(known, key=lambda key: known[key]) if known else None


def _say(transcript: Transcript, message: Json) -> None:
    role = an_object(message.get("author")).get("role")
    metadata = an_object(message.get("metadata"))
    if message.get("weight") == 0 or metadata.get("is_visually_hidden_from_conversation"):
        return
    if role == "assistant" and message.get("recipient") not in (None, "all"):
        transcript.did(a_text(message.get("recipient")))
        return
    content = an_object(message.get("content"))
    if role in ("user", "assistant") and content.get("content_type") in _SPOKEN:
        parts = (a_text(part) or a_text(an_object(part).get("text")) for part in a_list(content.get("parts")))
        transcript.say(role, "\n".join(part for part in parts if part), moment(message.get("create_time")))
