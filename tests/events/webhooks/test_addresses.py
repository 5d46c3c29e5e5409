"""Where webhooks go: to public addresses, and to the very address that was checked."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from recollect.events.webhooks.addresses import AddressRefused, Resolver, checked, is_public
from recollect.events.webhooks.sending import Sender, new_secret
from tests.events.webhooks.receiving import OK, receiving, status

pytestmark = pytest.mark.anyio

PUBLIC = "93.184.215.14"

# Addresses that lead inside, in every dress that some library undresses.
INSIDE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104 - to be refused
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
]


def found(*addresses: str) -> Resolver:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolver


async def never(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.parametrize("address", INSIDE)
async def test_what_leads_inside_is_refused_by_name_and_by_number(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused):
        await checked("https://hooks.example/", allow_private=False, resolver=found(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(AddressRefused):
        await checked(f"https://{host}/", allow_private=False, resolver=found(PUBLIC))


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:800::200e"])
async def test_public_addresses_are_taken(address: str) -> None:
    assert is_public(address)
    target = await checked("https://hooks.example/a?b=c", allow_private=False, resolver=found(address))
    assert target.addresses == (address,)
    host = f"[{address}]" if ":" in address else address
    literal = await checked(f"https://{host}:8443/", allow_private=False, resolver=never)
    assert ip_address(literal.addresses[0]) == ip_address(address)


@pytest.mark.parametrize("allow_private", [False, True])
@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0",
        "134744072",
        "010.8.8.8",
        "127.0.0.1.",
        "foo.0x7f",
        "[::1%25lo]",
        "[1.2.3]",
    ],
)
async def test_numbers_that_only_some_read_as_an_address_are_refused(host: str, allow_private: bool) -> None:
    with pytest.raises(AddressRefused):
        await checked(f"https://{host}/", allow_private=allow_private, resolver=never)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example",
        "//hooks.example/",
        "https://",
        "https:///path",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "gopher://hooks.example/",
        "javascript:alert(1)",
        "https://user@hooks.example/",
        "https://user:password@hooks.example/",
        "https://@hooks.example/",
        "https://hooks.example\\@127.0.0.1/",
        "https://hooks.example:99999/",
        "https://hooks.example:x/",
        "https://hooks example/",
        "https://hooks.example/\r\nX-Injected: 1",
        "https://hooks.example/" + "x" * 2_000,
    ],
)
@pytest.mark.parametrize("allow_private", [False, True])
async def test_what_is_no_plain_web_address_is_refused(url: str, allow_private: bool) -> None:
    with pytest.raises(AddressRefused):
        await checked(url, allow_private=allow_private, resolver=never)


async def test_http_is_for_private_networks_alone() -> None:
    with pytest.raises(AddressRefused, match="https"):
        await checked("http://hooks.example/", allow_private=False, resolver=found(PUBLIC))
    assert await checked("http://hooks.example/", allow_private=True, resolver=found("10.0.0.1"))


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(AddressRefused) as refused:
        await checked("https://hooks.example/", allow_private=False, resolver=found(PUBLIC, "10.1.2.3"))
    assert "10.1.2.3" not in refused.value.detail


async def test_a_name_that_is_not_found_is_told() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    for resolver in (unknown, found()):
        with pytest.raises(AddressRefused, match=r"nowhere\.example is not found"):
            await checked("https://nowhere.example/", allow_private=False, resolver=resolver)


async def test_the_real_look_up_is_checked_too() -> None:
    with pytest.raises(AddressRefused):
        await checked("https://localhost/", allow_private=False)
    assert "127.0.0.1" in (await checked("https://localhost/", allow_private=True)).addresses


async def test_nothing_is_sent_to_a_name_that_leads_inside() -> None:
    async with (
        receiving() as receiver,
        Sender(allow_private=False, resolver=found("127.0.0.1")) as sender,
    ):
        for url in (
            f"https://hooks.example:{receiver.port}/",
            f"http://hooks.example:{receiver.port}/",
            receiver.url,
            f"https://[::ffff:127.0.0.1]:{receiver.port}/",
        ):
            outcome = await sender.send(url, "id", {}, [new_secret()])
            assert (outcome.status, outcome.is_delivered) == (None, False)
            assert outcome.error
        assert receiver.connections == 0


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that leads elsewhere at every look-up: there is only one, and what it gave is used."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    async with (
        receiving() as checked_one,
        receiving(host="127.0.0.2", port=checked_one.port) as other,
        Sender(allow_private=True, resolver=rebinding) as sender,
    ):
        url = f"http://hooks.example:{checked_one.port}/"
        assert (await sender.send(url, "id", {}, [new_secret()])).is_delivered
        assert (checked_one.connections, other.connections) == (1, 0)
        assert checked_one.received[0].headers["host"] == f"hooks.example:{checked_one.port}"
        assert (await sender.send(url, "id", {}, [new_secret()])).is_delivered
        assert (checked_one.connections, other.connections) == (1, 1)


async def test_a_name_that_was_public_and_leads_inside_now_gets_nothing() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    async with receiving() as receiver, Sender(allow_private=False, resolver=rebinding) as sender:
        url = f"https://hooks.example:{receiver.port}/"
        assert await checked(url, allow_private=False, resolver=rebinding)
        outcome = await sender.send(url, "id", {}, [new_secret()])
        assert "public address" in (outcome.error or "")
        assert receiver.connections == 0


async def test_a_dead_address_is_passed_over_for_the_next() -> None:
    async with (
        receiving(host="127.0.0.2") as receiver,
        Sender(allow_private=True, resolver=found("127.0.0.1", "127.0.0.2")) as sender,
    ):
        assert (
            await sender.send(f"http://a.example:{receiver.port}/", "id", {}, [new_secret()])
        ).is_delivered


async def test_a_redirect_is_not_followed() -> None:
    async with receiving() as inside:
        moved = status(302, b"", f"Location: {inside.url}")
        async with receiving(moved) as receiver, Sender(allow_private=True) as sender:
            outcome = await sender.send(receiver.url, "id", {}, [new_secret()])
        assert (outcome.status, outcome.is_delivered) == (302, False)
        assert inside.connections == 0


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with Sender(allow_private=True) as sender:
            assert (await sender.send(receiver.url, "id", {}, [new_secret()])).is_delivered
        assert (proxy.connections, receiver.connections) == (0, 1)


# TLS


def _certificate_for(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server, and for clients that trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(chain, secret)
    return serving, ssl.create_default_context(cafile=str(chain))


async def test_tls_verifies_the_name_although_the_connection_goes_to_a_number(tmp_path: Path) -> None:
    serving, trusting = _certificate_for("hooks.example", tmp_path)
    names: list[str | None] = []
    serving.sni_callback = lambda _, name, __: names.append(name)
    async with (
        receiving(OK, tls=serving) as receiver,
        Sender(allow_private=True, resolver=found("127.0.0.1"), trust=trusting) as sender,
        Sender(allow_private=True, resolver=found("127.0.0.1")) as distrusting,
    ):
        url = f"https://hooks.example:{receiver.port}/"
        assert (await sender.send(url, "id", {}, [new_secret()])).is_delivered
        assert names == ["hooks.example"]
        for outcome in (
            await sender.send(f"https://other.example:{receiver.port}/", "id", {}, [new_secret()]),
            await distrusting.send(url, "id", {}, [new_secret()]),
        ):
            assert outcome.error == "The certificate of the receiver is not valid for this address."
        assert len(receiver.received) == 1
