"""What cannot be read or stored exactly is refused with a sentence, and changes nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from recollect.settings import Settings
from tests.api.raw import RawAnswer, assert_problem, exchange, request
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

MAX_BODY_BYTES = 65_536
JSON = "Content-Type: application/json"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, max_body_bytes=MAX_BODY_BYTES, body_timeout_seconds=0.5)


@pytest.fixture(autouse=True)
async def nothing_changes(ana: Person) -> AsyncIterator[None]:
    """Around each test here: one entry is there, and stays the only one."""
    kept = {"key": "kept", "value": "as it was"}
    before = (await ana.http.post(ana.memory, json=kept)).json()["data"]
    yield
    stored = await ana.http.get(f"{ana.memory}/namespaces")
    assert [found["namespace"] for found in stored.json()["data"]] == ["default"]
    assert (await ana.http.get(ana.memory)).json()["data"] == [before]


Post = Callable[..., Awaitable[httpx.Response]]
Send = Callable[..., Awaitable[RawAnswer]]


@pytest.fixture
def post(ana: Person) -> Post:
    async def post(body: bytes, *, path: str = "", **headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/json", **headers}
        return await ana.http.post(ana.memory + path, content=body, headers=sent)

    return post


@pytest.fixture
def send(ana: Person, address: str) -> Send:
    async def send(*headers: str, body: bytes = b"", method: str = "POST", target: str = "") -> RawAnswer:
        authorization = f"Authorization: Bearer {ana.key}"
        return await exchange(
            address, request(method, target or ana.memory, authorization, *headers, body=body)
        )

    return send


async def test_a_body_that_cannot_be_taken_exactly_is_refused(post: Post, subtests: pytest.Subtests) -> None:
    for body, status, code in [
        (rb'{"key": "kept", "value": "a\u0000b"}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": {"a\u0000b": 1}}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": [[["\u0000"]]]}', 422, "unstorable_text"),
        (rb'{"key": "ke\u0000pt", "value": 1}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": 1, "namespace": "\u0000"}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": 1, "\u0000": 1}', 422, "unstorable_text"),
        (b'{"key": "kept", "value": "a\x00b"}', 400, "invalid_json"),
        (rb'{"key": "kept", "value": "\ud800"}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": "\udc00\ud800"}', 422, "unstorable_text"),
        (rb'{"key": "kept", "value": {"\udfff": 1}}', 422, "unstorable_text"),
        (rb'{"key": "\ud800", "value": 1}', 422, "unstorable_text"),
        (b'{"key": "kept", "value": "\xed\xa0\x80"}', 400, "invalid_json"),
        (b'{"key": "kept", "value": "\xff\xfe"}', 400, "invalid_json"),
        (b'{"key": "kept", "value": "\xc0\x80"}', 400, "invalid_json"),
        (b'\xef\xbb\xbf{"key": "kept", "value": 1}', 400, "invalid_json"),
        ('{"key": "kept", "value": 1}'.encode("utf-16"), 400, "invalid_json"),
        (b'{"key": "kept", "value": NaN}', 400, "invalid_json"),
        (b'{"key": "kept", "value": Infinity}', 400, "invalid_json"),
        (b'{"key": "kept", "value": [-Infinity]}', 400, "invalid_json"),
        (b'{"key": "kept", "value": 1e400}', 400, "invalid_json"),
        (b'{"key": "kept", "value": -1e400}', 400, "invalid_json"),
        (b'{"key": "kept", "value": 9223372036854775808}', 400, "invalid_json"),
        (b'{"key": "kept", "value": -9223372036854775809}', 400, "invalid_json"),
        (b'{"key": "kept", "value": ' + b"9" * 5000 + b"}", 400, "invalid_json"),
        (b'{"key": "kept", "value": 1, "value": 2}', 400, "invalid_json"),
        (b'{"key": "kept", "value": {"a": {"b": 1, "b": 2}}}', 400, "invalid_json"),
        (rb'{"key": "kept", "value": {"a": 1, "\u0061": 2}}', 400, "invalid_json"),
        (b'{"key": "kept", "value": ' + b"[" * 65 + b"]" * 65 + b"}", 400, "invalid_json"),
        (b"[" * 60_000, 400, "invalid_json"),
        (b'{"a":' * 12_000, 400, "invalid_json"),
        (b'{"key": "kept", "value": 1', 400, "invalid_json"),
        (b'{"key": "kept", "value": 1} trailing', 400, "invalid_json"),
        (b"{'key': 'kept'}", 400, "invalid_json"),
        (b"   ", 400, "invalid_json"),
        (b"", 422, "invalid_input"),
        (b"null", 422, "invalid_input"),
        (b"[]", 422, "invalid_input"),
        (b'{"key": "kept"}', 422, "invalid_input"),
        (b'{"value": 1}', 422, "invalid_input"),
        (b'{"key": null, "value": 1}', 422, "invalid_input"),
        (b'{"key": 7, "value": 1}', 422, "invalid_input"),
        (b'{"key": ["kept"], "value": 1}', 422, "invalid_input"),
        (b'{"key": "", "value": 1}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "namespace": ""}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "namespace": null}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "role": "admin"}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "userId": "x"}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "createdAt": "2020-01-01T00:00:00Z"}', 422, "invalid_input"),
        (b'{"key": "kept", "value": 1, "__proto__": {}}', 422, "invalid_input"),
    ]:
        with subtests.test(body=body):
            assert_problem(await post(body), status, code)


async def test_the_deepest_json_that_a_body_can_hold_is_refused(post: Post) -> None:
    deep = b"[" * (MAX_BODY_BYTES // 2 - 20) + b"]" * (MAX_BODY_BYTES // 2 - 20)
    assert_problem(await post(b'{"key":"kept","value":' + deep + b"}"), 400, "invalid_json")


async def test_how_many_to_keep_is_a_number_in_range(post: Post, subtests: pytest.Subtests) -> None:
    for keep in ["0", "1001", "true", '"5"', "1.5", "null", "1e400"]:
        with subtests.test(keep=keep):
            answer = await post(f'{{"key": "list", "item": 1, "keep": {keep}}}'.encode(), path="/append")
            assert answer.status_code in {400, 422}
            assert_problem(answer, answer.status_code)


async def test_a_refusal_names_the_field_and_never_the_value(post: Post) -> None:
    problem = assert_problem(await post(b'{"key": ["marker"], "value": 1, "extra": "marker"}'), 422)

    assert {error["field"] for error in problem["errors"]} == {"key", "extra"}
    assert "marker" not in json.dumps(problem)


async def test_a_query_that_is_not_text_is_refused(
    send: Send, ana: Person, subtests: pytest.Subtests
) -> None:
    for query in [
        "key=a%00b",
        "key=kept&namespace=%00",
        "key=%ff",
        "key=%ed%a0%80",
        "key=%c0%80",
    ]:
        with subtests.test(query=query):
            answer = await send(method="DELETE", target=f"{ana.memory}?{query}")
            assert_problem(answer, 400, "malformed_request")


async def test_a_path_that_is_not_text_is_refused(send: Send, subtests: pytest.Subtests) -> None:
    for path in ["/api/user/%00/memory", "/api/user/%ff/memory", "/%00", "/health%00"]:
        with subtests.test(path=path):
            assert_problem(await send(method="GET", target=path), 400, "malformed_request")


async def test_what_is_not_http_is_refused_in_the_same_form(address: str, subtests: pytest.Subtests) -> None:
    for head in [
        b"GET /api/\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: \x00\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"nonsense\r\n\r\n",
    ]:
        with subtests.test(head=head):
            assert_problem(await exchange(address, head), 400, "malformed_request")


async def test_an_endless_header_is_refused(address: str) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 400_000
    assert_problem(await exchange(address, head), 431, "head_too_large")


async def test_a_user_id_is_a_plain_uuid_or_refused(ana: Person, subtests: pytest.Subtests) -> None:
    for user_id in [
        "me",
        "1",
        "%7B11111111-1111-4111-8111-111111111111%7D",
        "urn:uuid:11111111-1111-4111-8111-111111111111",
        "11111111111141118111111111111111",
        quote("\N{FULLWIDTH DIGIT ONE}1111111-1111-4111-8111-111111111111"),
        quote("11111111-1111-4111-8111-11111111111\u200b1"),
        "11111111-1111-4111-8111-111111111111%0a",
    ]:
        with subtests.test(user_id=user_id):
            assert_problem(await ana.http.get(f"/api/user/{user_id}/memory"), 422, "invalid_input")


async def test_a_list_takes_only_what_it_knows(ana: Person, subtests: pytest.Subtests) -> None:
    for query in [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=abc",
        "limit=",
        "limit=1.0",
        "limit=1_0",
        "limit=%201",
        "limit=99999999999999999999",
        "limit=%D9%A1",
        "sort=key",
        "namespace=default&role=admin",
        "namespace=",
        "namespace=" + "n" * 257,
        "cursor=",
        "cursor=" + "c" * 4401,
    ]:
        with subtests.test(query=query):
            assert_problem(await ana.http.get(f"{ana.memory}?{query}"), 422, "invalid_input")


async def test_unknown_query_parameters_stop_a_delete(ana: Person) -> None:
    answer = await ana.http.delete(ana.memory, params={"key": "kept", "force": "true"})
    assert_problem(answer, 422, "invalid_input")


async def test_a_made_up_cursor_is_refused(ana: Person, subtests: pytest.Subtests) -> None:
    for cursor in ["bm9uc2Vuc2U", "AAAAAAAAAAAAAAAAWyJhIl0", "!", "' or 1=1 --", "é", "="]:
        with subtests.test(cursor=cursor):
            assert_problem(await ana.http.get(ana.memory, params={"cursor": cursor}), 422, "invalid_cursor")


async def test_a_key_has_at_most_256_characters(post: Post) -> None:
    key = "\N{SNOWMAN}" * 257
    assert_problem(await post(json.dumps({"key": key, "value": 1}).encode()), 422, "invalid_input")


async def test_a_value_is_measured_in_bytes(post: Post) -> None:
    value = "\N{SNOWMAN}" * 3413  # 10,239 bytes and the quotes: one too many
    body = json.dumps({"key": "big", "value": value}, ensure_ascii=False).encode()
    assert_problem(await post(body), 422, "value_too_large")


async def test_a_compressed_body_is_refused(post: Post, subtests: pytest.Subtests) -> None:
    for encoding in ["gzip", "deflate", "br", "gzip, identity"]:
        with subtests.test(encoding=encoding):
            body = gzip.compress(b'{"key": "kept", "value": 1}')
            assert_problem(await post(body, **{"Content-Encoding": encoding}), 415, "unsupported_body")


async def test_a_body_that_does_not_say_json_is_refused(post: Post, subtests: pytest.Subtests) -> None:
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "nonsense",
        "",
    ]:
        with subtests.test(content_type=content_type):
            answer = await post(b'{"key": "kept", "value": 1}', **{"Content-Type": content_type})
            assert_problem(answer, 415, "unsupported_body")


async def test_a_body_without_content_type_is_refused(send: Send) -> None:
    body = b'{"key": "kept", "value": 1}'
    answer = await send(f"Content-Length: {len(body)}", body=body)
    assert_problem(answer, 415, "unsupported_body")


async def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(send: Send) -> None:
    answer = await send(JSON, f"Content-Length: {MAX_BODY_BYTES + 1}", "Expect: 100-continue")

    assert_problem(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"


async def test_a_chunked_body_is_refused_where_it_grows_too_large(send: Send) -> None:
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    answer = await send(JSON, "Transfer-Encoding: chunked", body=chunk + chunk)
    assert_problem(answer, 413, "body_too_large")


async def test_a_body_that_does_not_arrive_in_time_is_given_up(send: Send) -> None:
    assert_problem(await send(JSON, "Content-Length: 100", body=b'{"key": '), 408, "body_too_slow")


async def test_a_body_that_trickles_in_is_given_up(ana: Person, address: str) -> None:
    target = urlsplit(address)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    writer.write(
        request("POST", ana.memory, f"Authorization: Bearer {ana.key}", JSON, "Content-Length: 1000")
    )

    async def trickle() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    try:
        async with asyncio.timeout(20):
            assert (await reader.readline()).split()[1] == b"408"
    finally:
        trickling.cancel()
        writer.close()


async def test_what_follows_a_body_is_not_part_of_it(send: Send) -> None:
    answer = await send(JSON, "Content-Length: 10", body=b'{"key": "kept", "value": 1}')
    assert_problem(answer, 400)


async def test_a_client_that_hangs_up_in_its_body_changes_nothing(ana: Person, address: str) -> None:
    target = urlsplit(address)
    _, writer = await asyncio.open_connection(target.hostname, target.port)
    head = request("POST", ana.memory, f"Authorization: Bearer {ana.key}", JSON, "Content-Length: 40")
    writer.write(head + b'{"key": "kept", "value": 1}')
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _round_trip(ana: Person, body: bytes) -> Any:
    """Store under a key, read it back as the exact text that was answered, and delete it again."""
    key = json.loads(body)["key"]
    place = {"key": key, "namespace": json.loads(body).get("namespace", "default")}
    sent = await ana.http.post(ana.memory, content=body, headers={"Content-Type": "application/json"})
    assert sent.status_code == 200, sent.text
    read = await ana.http.get(f"{ana.memory}/entry", params=place)
    assert read.json()["data"] == sent.json()["data"]
    assert read.json()["data"]["key"] == key
    assert read.json()["data"]["namespace"] == place["namespace"]
    assert (await ana.http.delete(ana.memory, params=place)).status_code == 204
    return read.json()["data"]["value"]


async def test_numbers_come_back_as_they_were(ana: Person, subtests: pytest.Subtests) -> None:
    for number in [
        *("-0", "-0.0", "0.1", "1.0", "1e5", "5e-324", "1.7976931348623157e308", "0.30000000000000004"),
        *("9223372036854775807", "-9223372036854775808", "9007199254740993", "123456789.12345679"),
    ]:
        with subtests.test(number=number):
            value = await _round_trip(ana, f'{{"key": "number", "value": {number}}}'.encode())

            wanted = -0.0 if number == "-0" else json.loads(number)
            assert (repr(value), type(value)) == (repr(wanted), type(wanted))


async def test_odd_text_is_stored_exactly_wherever_it_stands(ana: Person, subtests: pytest.Subtests) -> None:
    for text in [
        "'; drop table user_memory; --",
        "%_\\%%",
        "%(key)s %s {} $1 ::text",
        '"$.a[*] ? (@ > 1)"',
        "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
        "zero\N{ZERO WIDTH SPACE}width\N{ZERO WIDTH JOINER}",
        "\N{BYTE ORDER MARK}marked",
        "e\N{COMBINING ACUTE ACCENT} is not é",
        "\N{GRINNING FACE}\U0010ffff\ufffe",
        " leading and trailing ",
        "line\r\nbreak\ttab\x1b[31m\x7f\x85\u2028",
        "a" * 256,
        "\N{SNOWMAN}" * 256,
        "../../etc/passwd?&#",
        "reset role; set role service_role",
        "sealed:x:y",
    ]:
        with subtests.test(text=text):
            body = {"key": text, "namespace": text, "value": {text: [text]}}
            assert await _round_trip(ana, json.dumps(body).encode()) == {text: [text]}


async def test_like_metacharacters_match_nothing_but_themselves(ana: Person) -> None:
    assert (await ana.http.get(ana.memory, params={"namespace": "%"})).json() == {"data": []}
    assert_problem(await ana.http.get(f"{ana.memory}/entry", params={"key": "k_pt"}), 404, "unknown_key")
    assert_problem(await ana.http.delete(ana.memory, params={"key": "%"}), 404, "unknown_key")


async def test_a_value_of_exactly_10_kb_is_taken(ana: Person) -> None:
    value = "\N{SNOWMAN}" * 3412 + "ab"  # 10,238 bytes and the quotes
    body = json.dumps({"key": "big", "value": value}, ensure_ascii=False).encode()
    assert await _round_trip(ana, body) == value


async def test_json_of_the_greatest_depth_is_taken(ana: Person) -> None:
    body = b'{"key": "deep", "value": ' + b"[" * 63 + b"]" * 63 + b"}"
    assert await _round_trip(ana, body) == json.loads(b"[" * 63 + b"]" * 63)
