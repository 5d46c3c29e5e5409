"""Claude.ai's export: ``conversations.json`` with the messages of each conversation."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.rules.chats.documents import values
from recollect.rules.chats.models import Chat
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object, spoken
from recollect.rules.chats.sources import Report, Source
from recollect.rules.chats.transcript import Transcript, moment, named_action

FORMAT = "claude-ai"


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file."""
    for conversation in values(source, report):
        name = a_text(conversation.get("uuid"))
        transcript = Transcript(
            source.name,
            FORMAT,
            session=name or source.stem,
            is_named=bool(name),
            project=a_text(an_object(conversation.get("project")).get("name")) or None,
            author=a_text(an_object(conversation.get("account")).get("uuid")) or None,
            title=a_text(conversation.get("name")) or None,
            started_at=moment(conversation.get("created_at")),
        )
        for message in _branch(conversation):
            _say(transcript, message)
        yield from transcript.rest()


def _branch(conversation: Json) -> list[Json]:
    """The messages in order; where they name their parents, those of the branch that stands."""
    messages = [an_object(message) for message in a_list(conversation.get("chat_messages"))]
    known = {a_text(message.get("uuid")): message for message in messages}
    parents = {a_text(message.get("parent_message_uuid")) for message in messages}
    if not parents & known.keys() - {""}:
        return messages
    at = a_text(conversation.get("current_leaf_message_uuid"))
    if at not in known:
        at = a_text(messages[-1].get("uuid"))
    branch = []
    while message := known.pop(at, None):
        branch.append(message)
        at = a_text(message.get("parent_message_uuid"))
    return branch[::-1]


def _say(transcript: Transcript, message: Json) -> None:
    content = message.get("content")
    # The plain text has notes on blocks that it cannot show; older exports have nothing else.
    text = spoken(content) or a_text(message.get("text"))
    at = moment(message.get("created_at"))
    match message.get("sender"):
        case "human" | "user":
            transcript.say("user", text, at)
        case "assistant":
            transcript.say("assistant", text, at)
            for block in map(an_object, a_list(content)):
                if block.get("type") == "tool_use":
                    transcript.did(named_action(block.get("name"), block.get("input")))
