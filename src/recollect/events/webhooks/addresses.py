"""Where a webhook may be sent: to addresses on the public internet, looked up once.

A name can lead elsewhere the moment after it was checked, so the connection goes to the very address
that was checked, while TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from recollect.errors import InvalidInput
from recollect.events.webhooks.models import MAX_URL_LENGTH

# A name may have many addresses; a dead one costs a part of the time that a delivery has.
MAX_TRIED = 3
LOOK_UPS_AT_ONCE = 6

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Address = IPv4Address | IPv6Address

# The rest of IPv6 is local, unassigned, or a wrapping of IPv4 addresses.
_GLOBAL_UNICAST = ip_network("2000::/3")
# What ipaddress calls global, or once did, and yet leads inside.
_NEVER = tuple(
    ip_network(block)
    for block in (
        "168.63.129.16/32",  # metadata of Azure, under a public address
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays from IPv6 to IPv4
        "2001::/23",  # Teredo wraps IPv4
        "2001:db8::/32",
        "2002::/16",  # 6to4 wraps IPv4
        "3fff::/20",
    )
)
# What the C library takes for an IPv4 address in other clothes: 2130706433, 0x7f.1, 0177.0.0.1.
_NUMERIC_END = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)$", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
_AUTHORITY = re.compile(r"^[^/?#]*//([^/?#]*)")


class AddressRefused(InvalidInput):
    """Webhooks go to public https addresses; give one such as https://example.com/hooks."""

    code = "address_refused"


@dataclass(frozen=True)
class Target:
    """A URL, and the addresses that its host was found to have and may have."""

    url: httpx.URL
    addresses: tuple[str, ...]


class LookUps:
    """Looks names up, a few at a time, on threads that nothing else waits for: whoever owns a name decides
    how long it takes."""

    def __init__(self, at_once: int = LOOK_UPS_AT_ONCE) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="look-up")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses_of, host, port)


def _addresses_of(host: str, port: int) -> Sequence[str]:
    return [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


resolve = LookUps()


async def checked(url: str, *, allow_private: bool, resolver: Resolver = resolve) -> Target:
    """The URL with its addresses, or an error that says why nothing is sent there."""
    parsed = _parsed(url, allow_private=allow_private)
    host = parsed.raw_host.decode("ascii").strip("[]")
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    literal = _literal(host)
    try:
        found = [host] if literal else list(dict.fromkeys(await resolver(host, port)))
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"The name {host} is not found; check the address.") from error
    if not found:
        raise AddressRefused(f"The name {host} is not found; check the address.")
    # Every one, not any one: the next look-up may give another of them first.
    if not allow_private and not all(is_public(address) for address in found):
        # Without the address itself, which would map a private network.
        raise AddressRefused(f"{host} does not lead to a public address; webhooks go nowhere else.")
    return Target(parsed, tuple(found))


def is_public(text: str) -> bool:
    """Whether this is an address of the public internet, and of nothing else."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and (address.scope_id or address not in _GLOBAL_UNICAST):
        return False
    if any(address in block for block in _NEVER if block.version == address.version):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _parsed(url: str, *, allow_private: bool) -> httpx.URL:
    if len(url) > MAX_URL_LENGTH:
        raise AddressRefused(f"An address has at most {MAX_URL_LENGTH:,} characters.")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise AddressRefused(f"That is not an address. {AddressRefused.title()}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise AddressRefused
    # As it was written: an empty user name leaves no trace in what was parsed.
    authority = _AUTHORITY.match(url)
    if authority is None or "@" in authority[1]:
        raise AddressRefused("An address with a name or password in it is not taken; deliveries are signed.")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise AddressRefused("A port is a number from 1 to 65535.")
    if parsed.scheme == "http" and not allow_private:
        raise AddressRefused("Webhooks are sent over https; give an address that begins with https://.")
    return parsed


def _literal(host: str) -> Address | None:
    if _NAME.fullmatch(host) and not _NUMERIC_END.search(host):
        return None
    try:
        literal = ip_address(host)
    except ValueError as error:
        raise AddressRefused("Give a host by its name, or by its address in full.") from error
    if isinstance(literal, IPv6Address) and literal.scope_id:
        raise AddressRefused("An address that holds on one network alone is not taken.")
    return literal


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends each request to an address that was checked a moment before, and looks nothing up again."""

    def __init__(
        self, *, allow_private: bool, resolver: Resolver = resolve, trust: ssl.SSLContext | None = None
    ) -> None:
        self._allow_private = allow_private
        self._resolver = resolver
        self._trust = trust
        self._opened: httpx.AsyncHTTPTransport | None = None

    @property
    def _inner(self) -> httpx.AsyncHTTPTransport:
        # When first needed: reading the world's certificates takes longer than most commands.
        if self._opened is None:
            self._opened = httpx.AsyncHTTPTransport(
                verify=self._trust or True,
                trust_env=False,
                # No connection is kept: on one that was verified for another name, ours was not.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._opened

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = await checked(str(request.url), allow_private=self._allow_private, resolver=self._resolver)
        extensions = {**request.extensions, "sni_hostname": target.url.raw_host.decode("ascii").strip("[]")}
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"connection"]
        unreachable: httpx.ConnectError | None = None
        for address in target.addresses[:MAX_TRIED]:
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=[*headers, (b"Connection", b"close")],
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx.ConnectError as error:
                unreachable = error
        raise unreachable or httpx.ConnectError("There is no address to connect to.")

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
