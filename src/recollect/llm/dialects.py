"""Two ways to speak to a model's server: Anthropic's Messages, and OpenAI's chat completions, which most
others understand too. Neither knows anything of time, tries or budgets."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from recollect.llm.models import Question, Reply, Usage
from recollect.llm.schema import enforceable, schema_of

_MAX_TOKENS = 10**9
_OF_OPENAI = "api.openai.com"


class Form(Enum):
    """How the server is to keep the model to the schema, the surest way first."""

    SCHEMA = "the server holds the model to it"
    OBJECT = "the server holds the model to JSON, and the schema is in the instructions"
    WORDS = "the schema is in the instructions"


class NotOurProtocol(Exception):
    """What came is no answer of such a server."""


class Dialect(Protocol):
    provider: str
    model: str
    url: str
    key_setting: str
    forms: tuple[Form, ...]

    def headers(self) -> dict[str, str]: ...

    def request(self, question: Question, form: Form) -> dict[str, Any]: ...

    def reply(self, body: Any) -> Reply: ...


class Anthropic:
    """https://platform.claude.com/docs/en/api/messages. Neither sampling parameters nor a forced tool are
    sent: current models take neither."""

    provider = "anthropic"
    key_setting = "ANTHROPIC_API_KEY"
    forms: tuple[Form, ...] = (Form.SCHEMA, Form.WORDS)

    def __init__(self, model: str, key: SecretStr, base_url: str) -> None:
        self.model = model
        self.url = f"{base_url.rstrip('/')}/v1/messages"
        self._key = key

    def headers(self) -> dict[str, str]:
        return {"x-api-key": self._key.get_secret_value(), "anthropic-version": "2023-06-01"}

    def request(self, question: Question, form: Form) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": question.max_tokens,
            "system": _instructions(question, form),
            "messages": _turns(question),
        }
        if form is Form.SCHEMA:
            schema = enforceable(schema_of(question.answer))
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return body

    def reply(self, body: Any) -> Reply:
        match body:
            case {"content": list(blocks), "stop_reason": reason}:
                # Thoughts come first, in blocks of their own.
                text = "".join(block["text"] for block in blocks if _is_text(block))
            case _:
                raise NotOurProtocol
        usage = _usage(
            body.get("usage"),
            ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            "output_tokens",
        )
        match reason:
            case "refusal":
                return Reply(text, usage, "refused")
            case "max_tokens" | "model_context_window_exceeded":
                return Reply(text, usage, "cut off")
            case _:
                return Reply(text, usage)


class ChatCompletions:
    """As OpenAI's API does, and Ollama, vLLM, llama.cpp, LM Studio and many more. Some of them take no
    schema, and some not even the wish for JSON."""

    key_setting = "RECOLLECT_MODEL_API_KEY"
    forms: tuple[Form, ...] = (Form.SCHEMA, Form.OBJECT, Form.WORDS)

    def __init__(self, model: str, key: SecretStr | None, base_url: str) -> None:
        self.model = model
        self.url = f"{base_url.rstrip('/')}/chat/completions"
        self.provider = urlsplit(base_url).hostname or "unknown"
        self._key = key

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key.get_secret_value()}"} if self._key else {}

    def request(self, question: Question, form: Form) -> dict[str, Any]:
        # OpenAI's own models refuse the older name, and others do not know the newer one.
        limit = "max_completion_tokens" if self.provider == _OF_OPENAI else "max_tokens"
        body: dict[str, Any] = {
            "model": self.model,
            limit: question.max_tokens,
            "messages": [{"role": "system", "content": _instructions(question, form)}, *_turns(question)],
        }
        if form is Form.SCHEMA:
            name = re.sub(r"\W", "_", question.answer.__name__)[:64]
            schema = enforceable(schema_of(question.answer))
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        elif form is Form.OBJECT:
            body["response_format"] = {"type": "json_object"}
        return body

    def reply(self, body: Any) -> Reply:
        match body:
            case {"choices": [{"message": dict(message), **rest}, *_]}:
                reason = rest.get("finish_reason")
            case _:
                raise NotOurProtocol
        text = _content(message)
        usage = _usage(body.get("usage"), ("prompt_tokens",), "completion_tokens")
        if message.get("refusal") or reason == "content_filter":
            return Reply(text, usage, "refused")
        return Reply(text, usage, "cut off" if reason == "length" else "whole")


def _instructions(question: Question, form: Form) -> str:
    if form is Form.SCHEMA:
        return question.system
    return (
        f"{question.system}\n\nAnswer with one JSON object and nothing else: no explanation, no code fence. "
        f"It has to fit this JSON schema:\n{question.schema}"
    )


def _turns(question: Question) -> list[dict[str, str]]:
    turns = [{"role": "user", "content": question.prompt}]
    if question.complaint:
        # An empty turn would be refused.
        turns.append({"role": "assistant", "content": question.wrong.strip() or "{}"})
        turns.append({"role": "user", "content": question.complaint})
    return turns


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _content(message: dict[str, Any]) -> str:
    match message.get("content"):
        case str(text):
            return text
        case list(parts):
            return "".join(part["text"] for part in parts if _is_text(part))
        case None:
            return ""
        case _:
            raise NotOurProtocol


def _usage(given: Any, names_in: tuple[str, ...], name_out: str) -> Usage | None:
    if not isinstance(given, dict):
        return None
    counts: list[Any] = [given.get(name_out), given.get(names_in[0])]
    counts += [given.get(name) or 0 for name in names_in[1:]]
    if not all(type(count) is int and 0 <= count <= _MAX_TOKENS for count in counts):
        return None
    return Usage(input=sum(counts[1:]), output=counts[0])
