"""A stand-in for a model's server: real HTTP on loopback, in Anthropic's protocol and in OpenAI's, saying
what a test wants it to say. It refuses what the real ones refuse.

    async with ModelServer().running() as server:
        server.will(Says({"facts": []}), Fails(529), Hangs())
        settings = make_settings(home, database_url, **server.as_anthropic())
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

KEY = "sk-the-key-of-the-tests-7391"
MODEL = "claude-haiku-5-5"


@dataclass(frozen=True)
class Says:
    """An answer, as text or as what becomes JSON; ``tokens`` None: without a report of them."""

    content: Any
    tokens: tuple[int, int] | None = (100, 20)
    ended: Literal["whole", "cut off", "refused"] = "whole"
    thoughts: str | None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else json.dumps(self.content)


@dataclass(frozen=True)
class Fails:
    """An error; ``says`` is what a server would say with it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    says: str = "Something is wrong."
    kind: str = "api_error"


@dataclass(frozen=True)
class Hangs:
    """Takes the question and says nothing."""


@dataclass(frozen=True)
class HangsUp:
    """Takes the question and closes the connection."""


@dataclass(frozen=True)
class Sends:
    """These bytes, whatever they are, with status 200."""

    body: bytes


Behaviour = Says | Fails | Hangs | HangsUp | Sends


@dataclass(frozen=True)
class Asked:
    """A question as it arrived, whichever protocol it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/v1/messages")

    @property
    def system(self) -> str:
        system: str = self.body["system"] if self.is_anthropic else self.body["messages"][0]["content"]
        return system

    @property
    def turns(self) -> list[tuple[str, str]]:
        return [(turn["role"], turn["content"]) for turn in self.body["messages"] if turn["role"] != "system"]

    @property
    def prompt(self) -> str:
        return self.turns[0][1]

    @property
    def schema(self) -> dict[str, Any] | None:
        """What the server was to hold the model to."""
        if self.is_anthropic:
            wanted = self.body.get("output_config", {}).get("format", {})
        else:
            wanted = self.body.get("response_format", {}).get("json_schema", {})
        schema: dict[str, Any] | None = wanted.get("schema")
        return schema

    @property
    def form(self) -> str | None:
        if self.is_anthropic:
            return "json_schema" if self.schema else None
        form: str | None = self.body.get("response_format", {}).get("type")
        return form


class ModelServer:
    """Behaves as scripted, in turn; with nothing left, as ``otherwise`` says of the question."""

    def __init__(self, *, takes: tuple[str | None, ...] = ("json_schema", "json_object", None)) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self.takes = takes
        """The forms of a schema that it knows."""
        self.otherwise: Callable[[Asked], Behaviour] = lambda _: Fails(500, says="Nothing is scripted.")
        self.before_answering: Callable[[], Awaitable[Any]] | None = None
        """To be waited for, by tests that hold it up."""
        self.most_at_once = 0
        self._at_work = 0
        self._script: list[Behaviour] = []

    def will(self, *behaviours: Behaviour) -> None:
        self._script.extend(behaviours)

    def as_anthropic(self, **more: Any) -> dict[str, Any]:
        """Settings by which it is asked in Anthropic's protocol."""
        return {"anthropic_api_key": KEY, "anthropic_base_url": self.url, **more}

    def as_openai(self, **more: Any) -> dict[str, Any]:
        """Settings by which it is asked in OpenAI's protocol."""
        return {"model_url": f"{self.url}/v1", "model_api_key": KEY, "model": "tiny-llama", **more}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ModelServer]:
        connections: set[asyncio.Task[Any]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await self._exchange(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                return
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            self.url = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
            yield self
        finally:
            server.close()
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await _received(reader)
        self.asked.append(asked)
        self._at_work += 1
        self.most_at_once = max(self.most_at_once, self._at_work)
        try:
            await self._answer(asked, writer)
        finally:
            self._at_work -= 1

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if self.before_answering is not None:
            await self.before_answering()
        match behaviour := self._behaviour(asked):
            case Hangs():
                await asyncio.Event().wait()
            case HangsUp():
                return
            case Sends(body):
                await _send(writer, 200, {}, body)
            case Says():
                said = _anthropic(behaviour) if asked.is_anthropic else _openai(behaviour)
                await _send(writer, 200, {}, json.dumps(said).encode())
            case Fails(status, headers, says, kind):
                error = {"type": "error", "error": {"type": kind, "message": says}}
                await _send(writer, status, headers, json.dumps(error).encode())

    def _behaviour(self, asked: Asked) -> Behaviour:
        wrong = _wrong_with(asked)
        if wrong is not None:
            return wrong
        if asked.form not in self.takes:
            says = f"This response_format type is unavailable now: {asked.form}"
            return Fails(400, says=says, kind="invalid_request_error")
        return self._script.pop(0) if self._script else self.otherwise(asked)


async def _received(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(head[0].split()[1], headers, json.loads(body))


async def _send(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes) -> None:
    lines = {
        "Content-Type": "application/json",
        "Connection": "close",
        "Content-Length": len(body),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
    await writer.drain()


def _wrong_with(asked: Asked) -> Fails | None:
    """What the real servers answer to requests that they do not take."""
    body = asked.body
    key = asked.headers.get("x-api-key") if asked.is_anthropic else asked.headers.get("authorization")
    if key not in {KEY, f"Bearer {KEY}"}:
        return Fails(401, says=f"Incorrect API key provided: {key}", kind="authentication_error")
    if not asked.is_anthropic and not asked.path.endswith("/v1/chat/completions"):
        return Fails(404, says="Not found", kind="not_found_error")
    unknown = body.keys() & {"temperature", "top_p", "top_k", "tool_choice"}
    lacking = {"model", "max_tokens", "messages"} - body.keys()
    is_blank = any(not turn["content"] for turn in body.get("messages", ()))
    is_unversioned = asked.is_anthropic and "anthropic-version" not in asked.headers
    is_prefilled = asked.is_anthropic and body["messages"][-1]["role"] != "user"
    if unknown or lacking or is_blank or is_unversioned or is_prefilled:
        return Fails(400, says="Not such a request.", kind="invalid_request_error")
    if asked.schema is not None and not _is_enforceable(asked.schema):
        return Fails(400, says="That schema is not supported.", kind="invalid_request_error")
    return None


def _is_enforceable(schema: dict[str, Any]) -> bool:
    """Closed objects whose fields are all there, and no keyword that the strictest of servers refuses."""
    known = {"type", "enum", "const", "$ref", "$defs", "anyOf", "allOf", "description"}
    if schema.get("type") == "object":
        known |= {"properties", "required", "additionalProperties"}
        if schema["additionalProperties"] is not False or set(schema["required"]) != set(
            schema["properties"]
        ):
            return False
    if schema.get("type") == "array":
        known |= {"items"}
    inner = [*schema.get("$defs", {}).values(), *schema.get("properties", {}).values()]
    inner += [*schema.get("anyOf", ()), *schema.get("allOf", ()), *filter(None, [schema.get("items")])]
    return schema.keys() <= known and all(map(_is_enforceable, inner))


def _anthropic(answer: Says) -> dict[str, Any]:
    blocks = [{"type": "text", "text": answer.text}]
    if answer.thoughts is not None:
        blocks.insert(0, {"type": "thinking", "thinking": answer.thoughts, "signature": "x"})
    ends = {"whole": "end_turn", "cut off": "max_tokens", "refused": "refusal"}
    body: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": ends[answer.ended],
        "stop_sequence": None,
    }
    if answer.tokens is not None:
        body["usage"] = {
            "input_tokens": answer.tokens[0],
            "cache_creation_input_tokens": None,
            "output_tokens": answer.tokens[1],
        }
    return body


def _openai(answer: Says) -> dict[str, Any]:
    is_refused = answer.ended == "refused"
    text = answer.text if answer.thoughts is None else f"<think>{answer.thoughts}</think>\n{answer.text}"
    message = {
        "role": "assistant",
        "content": None if is_refused else text,
        "refusal": "I would rather not." if is_refused else None,
    }
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "tiny-llama",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "length" if answer.ended == "cut off" else "stop",
            }
        ],
    }
    if answer.tokens is not None:
        given, made = answer.tokens
        body["usage"] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return body
