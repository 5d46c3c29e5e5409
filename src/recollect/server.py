"""Serves the application with uvicorn, and stops when told to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from recollect.errors import Misconfigured
from recollect.http.edge.protocol import Protocol, WebSocketProtocol


class UnusableAddress(Misconfigured):
    """That address cannot be listened on."""

    code = "unusable_address"


def listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started, so that a second server fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Told that it is TCP, asyncio sends what it has at once; else a body waits 40 ms for the client.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        # It is the port, if somebody else has it or it takes root; else it is the address.
        is_port = error.errno in {errno.EADDRINUSE, errno.EACCES}
        remedy = "--port or RECOLLECT_PORT" if is_port else "--host or RECOLLECT_HOST"
        raise UnusableAddress(
            f"{host}:{port} cannot be used ({error.strerror}); choose another by {remedy}."
        ) from error
    listener.set_inheritable(False)
    return listener


class Server(uvicorn.Server):
    """uvicorn, but signals only ask it to stop: whoever runs it has more to clean up than it knows."""

    def __init__(
        self,
        app: Callable[..., object],
        *,
        on_started: Callable[[], None],
        on_stopping: Callable[[], None],
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws=WebSocketProtocol,
                # What clients have to say fits into little, and compression would be a bomb's fuse.
                ws_max_size=4096,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                # Anybody can say that a request came from elsewhere: only these are believed.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_keep_alive=30,
                timeout_graceful_shutdown=10,
            )
        )
        self._on_started = on_started
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Live connections never end by themselves.
        self._on_stopping()
        await super().shutdown(sockets=sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        # A second Ctrl-C does not wait for open connections.
        self.force_exit = self.should_exit
        self.should_exit = True
