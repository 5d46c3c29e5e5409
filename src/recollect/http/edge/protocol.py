"""HTTP as uvicorn reads it, with bounds on a request's head, and refusals in the API's own form."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from recollect.http.problems import MEDIA_TYPE, problem_response

HANG_UP = "recollect.hang_up"
"""In a request's scope: cuts the connection at once, with whatever the client has not read yet."""
MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_SECONDS = 20


class WebSocketProtocol(WebSocketsSansIOProtocol):
    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        self.scope[HANG_UP] = self.transport.abort  # type: ignore[literal-required]  # ours


class Protocol(HttpToolsProtocol):
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _is_head_complete = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._is_head_complete = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_head_complete = True
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()
        self.scope[HANG_UP] = self.transport.abort  # type: ignore[literal-required]  # ours

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_head_complete or self.transport.is_closing():
            return
        self._wait_for_head()
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"A request's address and headers may be at most {MAX_HEAD_BYTES:,} bytes.",
            )

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        self._refuse(HTTPStatus.BAD_REQUEST, "This is not an HTTP request that can be read.")

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        code = "malformed_request" if status is HTTPStatus.BAD_REQUEST else "head_too_large"
        body = bytes(problem_response(code, status, detail).body)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait_for_head(self) -> None:
        # Once per request: bytes that trickle in do not start the clock again.
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
