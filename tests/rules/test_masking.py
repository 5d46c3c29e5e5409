"""Secrets never reach what is stored: each kind is found, and what only resembles one stays."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from detect_secrets.settings import get_settings
from hypothesis import given
from hypothesis import strategies as st

from recollect.rules.masking import addresses, assignments, mask, tokens
from recollect.rules.masking import pem as private_keys
from tests.rules.planted import (
    ALNUM,
    KEPT,
    KINDS,
    LETTERS,
    LONG,
    NAMED,
    URLSAFE,
    WORD,
    pem,
    some,
)

KNOWN = [
    pytest.param(secret, kind, id=f"{name}-{n}")
    for name, rows in KINDS.items()
    for n, (secret, kind) in enumerate(rows)
]

AROUND = [
    "first line\\n{}\\nthird",
    '{{"value": "{}"}}',
    "use {} for now",
    "a\n{}\nb",
    "({}).",
    "`{}`",
    "é{}ñ",
    "x={}",
    "{}",
]


@pytest.mark.parametrize(("secret", "kind"), KNOWN)
def test_a_secret_is_known_by_its_form_wherever_it_stands(secret: str, kind: str) -> None:
    for around in AROUND:
        text = around.format(secret)
        assert mask(text) == (around.format(f"[secret: {kind}]"), (kind,)), around


STUCK_TO = [
    "\\u001b[38;5;208m{}\\u001b[0m",
    "\x1b[32m{}\x1b[0m",
    "\\u0022{}\\u0022",
    "token\\u003d{}",
    "\\x22{}",
    "\x1b[1;31m{}",
    "token%3D{}",
    "backup_{}",
    "_{}_",
]


@pytest.mark.parametrize("around", STUCK_TO)
@pytest.mark.parametrize(("secret", "kind"), [each for each in KNOWN if "card" not in str(each.id)])
def test_what_sticks_to_a_token_does_not_hide_it(secret: str, kind: str, around: str) -> None:
    masked = mask(around.format(secret))
    assert masked.kinds == (kind,)
    assert masked.text.startswith(around.partition("{}")[0] + f"[secret: {kind}]")


@pytest.mark.parametrize("name", ["GitHub", "GitLab", "Slack", "Stripe", "Anthropic", "npm", "DigitalOcean"])
def test_a_prefix_that_nothing_else_has_needs_no_border(name: str) -> None:
    for secret, kind in KINDS[name]:
        assert mask(f"OLD{secret}") == (f"OLD[secret: {kind}]", (kind,))


def test_there_are_thirty_kinds_and_more() -> None:
    assert len({kind for rows in KINDS.values() for _, kind in rows}) >= 30


@pytest.mark.parametrize(("text", "secret", "kind"), NAMED, ids=range(len(NAMED)))
def test_a_secret_is_known_by_the_name_before_it(text: str, secret: str, kind: str) -> None:
    masked = mask(text)
    assert masked.kinds == (kind,)
    assert f"[secret: {kind}]" in masked.text
    assert not secret or secret not in masked.text


@pytest.mark.parametrize("text", KEPT)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert mask(text) == (text, ())


def test_a_key_that_was_cut_off_is_masked_as_far_as_it_goes() -> None:
    whole = pem("RSA PRIVATE" + " KEY")
    masked = mask("see\n" + whole[: whole.rindex("-----END")] + "\nand then?")
    assert masked == ("see\n[secret: RSA private key]\n\nand then?", ("RSA private key",))


_LINES = [some(ALNUM + "+/", 64) for _ in range(5)]
_BEGIN, _FINISH = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
_CUTS = ([_BEGIN, *_LINES], [*_LINES, _FINISH])
CUT_OFF = [
    *(
        "\n".join(margin + line for line in cut)
        for margin in ("", "> ", " 9 | ", "   9\t", "  19→")
        for cut in _CUTS
    ),
    *(line_end.join(cut) for line_end in ("\\n", "\\\\n") for cut in _CUTS),
    "\n".join([_BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B", "", *_LINES]),
    "\n".join([*_LINES, "abc123==", _FINISH]),
    "\n".join([_LINES[0][40:], *_LINES[1:], _FINISH]),
]


@pytest.mark.parametrize("cut_off", CUT_OFF, ids=range(len(CUT_OFF)))
def test_what_is_left_of_a_key_is_masked_however_its_lines_are_written(cut_off: str) -> None:
    masked = mask(f"so:\n{cut_off}\nand then?")
    assert masked.kinds == ("RSA private key",)
    assert not any(line[40:] in masked.text for line in _LINES)
    assert masked.text.startswith("so:\n")
    assert masked.text.endswith("\nand then?")


def test_each_of_several_secrets_is_named_in_order() -> None:
    first, second = "npm" + "_" + some(ALNUM, 36), "gl" + "pat-" + some(URLSAFE, 20)
    assert mask(f"{first} {second} {first}").kinds == ("npm", "GitLab", "npm")


@pytest.mark.parametrize("before", ["", "mysql -p", "h:5432:shop:app:", "ENV DB_PASSWORD "])
def test_the_name_in_a_mask_announces_nothing(before: str) -> None:
    text = f"{before}[secret: RSA private key]={WORD}"
    assert mask(text) == (text, ())


def test_a_token_after_another_of_which_it_hides_the_end_is_masked_with_it() -> None:
    (aws, _), (github, _) = KINDS["AWS key id"][0], KINDS["GitHub"][0]
    assert mask(f"use {aws}{github} now") == ("use [secret: GitHub] now", ("GitHub",))


def test_a_value_that_only_announces_a_secret_does_not_hide_it() -> None:
    assert mask(f"PASSWORD=Authorization:SSWS {LONG}").kinds == ("passwd", "bearer")


def test_a_long_secret_in_between_does_not_hide_what_a_command_says() -> None:
    assert mask(f"curl -H 'Authorization: Bearer {LONG * 10}' -u me:{LETTERS}").kinds == ("bearer", "login")


def test_neither_files_nor_the_network_nor_settings_of_the_process_are_used() -> None:
    seen: list[str] = []
    watching = True
    sys.addaudithook(lambda event, _: seen.append(event) if watching else None)
    mask("\n".join(text for text, _, _ in NAMED))
    watching = False
    assert [
        event for event in seen if event.partition(".")[0] in {"open", "socket", "import", "subprocess"}
    ] == []
    assert get_settings.cache_info().currsize == 0


def test_half_of_a_surrogate_pair_does_no_harm() -> None:
    assert mask("\ud800 password=" + WORD).text == "\ud800 password=[secret: passwd]"


_fragments = st.one_of(
    st.sampled_from([secret for rows in KINDS.values() for secret, _ in rows]),
    st.sampled_from([text for text, _, _ in NAMED] + KEPT),
    st.sampled_from(
        [
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----END RSA PRIVATE KEY-----",
            "ALTER USER a PASSWORD '",
            "machine h login u password ",
            "name: DB_PW\n value: ",
            "getenv('PASSWORD', '",
            "curl -u a:",
            "export DB_PASSWORD=",
            "ENV DB_PASSWORD ",
            "IDENTIFIED BY '",
            "\nh:5432:a:b:",
            "<password>",
            "[secret: ",
            "Password=",
            "password",
            "--token ",
            "\x1b[32m",
            "mysql -p",
            "Cookie: ",
            "secret",
            "session=",
            "token: ",
            "Bearer ",
            "\\u0022",
            "a1" * 15,
            "host=",
            "pwd=",
            "ibm_",
            " is ",
            "://",
            "EAAA",
            "%3D",
            "\\n",
            "...",
            "12→",
            "\\",
            "\n",
            "</",
            "> ",
            "=",
            ":",
            '"',
            "'",
            " ",
            "[",
            "]",
            "@",
            "-",
            "_",
            ",",
            ";",
            "&",
            "?",
            "$",
            ">",
            "<",
            "/",
        ]
    ),
    st.text(max_size=12),
    st.text(ALNUM, min_size=6, max_size=20),
)


@given(st.lists(_fragments, max_size=12).map("".join))
def test_masking_twice_changes_nothing_and_never_doubles_the_length(text: str) -> None:
    once = mask(text)
    assert mask(once.text) == (once.text, ())
    assert len(once.text) <= 2 * len(text)


HOSTILE = [
    "-----BEGIN PRIVATE KEY-----\n" + "a" * 30,
    "-----END PRIVATE KEY-----\n" + "a" * 30,
    "DB_PASSWORD=a,",
    "-----BEGIN PRIVATE KEY-----\n1: ",
    "-----BEGIN PRIVATE KEY-----",
    "cos_hmac_secret_access_key=",
    "\\",
    "-----END PRIVATE KEY-----",
    "eyJaaaaaaaa.eyJaaaaaaaa-",
    "$" * 8 + "password=$a",
    "password\n value: ",
    "getenv('password', '",
    "session=" + "a" * 16,
    "passwordpassword_",
    "postgres://a:b/c'",
    "sk-a1b2c3d4",
    "identified by '",
    "password>abcdef",
    "password abcd ",
    "password is a",
    "a" * 30 + "\n",
    'password="',
    "ENV PASSWORD ",
    "password:'\"",
    "eyJaaaaaaaa-",
    "ibm_api_key=",
    "SG.aaaaaaaa-",
    "M" * 25 + ".",
    "://",
    "PASSWORD=a1",
    "password=1(",
    "eyJaaaaaaaa",
    ":5432:a:b:c",
    "4111 1111 ",
    "password '",
    "<password>",
    "aaaa=aaaa",
    "password=",
    "token is ",
    "[secret: ",
    "key_1" * 5,
    "_pw=ab,cd",
    ".atlasv1.",
    "secret: ",
    "--token ",
    "mysql -p",
    "curl -u ",
    "session=",
    "://a:b@",
    "Bearer ",
    "%3D4111",
    " -pabcd",
    "glpat-",
    " -ua:b",
    "://a:",
    "ghp_",
    "_sk-",
    "EAAA",
    "sk-",
    "eyJ",
    '"',
    "'",
    "/",
]


def _work(text: str) -> int:
    """How many functions are called, in Python and in C."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        mask(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("piece", HOSTILE)
def test_twice_the_hostile_text_is_at_most_twice_the_work(piece: str) -> None:
    text = piece * (10_000 // len(piece))
    mask(text)
    assert _work(text + text) <= 2.1 * _work(text) + 100


PATTERNS = [
    *(kind.exact for kind in tokens.KINDS),
    *assignments.PATTERNS,
    *addresses.PATTERNS,
    *private_keys.PATTERNS,
]


def _retries(parts: Any, *, last: bool = True) -> bool:
    """Whether something without a bound is followed by what may fail."""
    followed = not last
    for operation, argument in reversed(list(parts)):
        name = str(operation)
        if name == "BRANCH":
            if any(_retries(branch, last=not followed) for branch in argument[1]):
                return True
        elif name == "SUBPATTERN":
            if _retries(argument[3], last=not followed):
                return True
        elif name == "MAX_REPEAT":
            least, most, inner = argument
            unbounded = most is re._constants.MAXREPEAT
            if (unbounded and followed) or _retries(inner, last=not followed and not unbounded):
                return True
            followed = followed or least > 0
            continue
        followed = True
    return False


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:24].decode())
def test_no_pattern_goes_over_the_same_text_again(pattern: re.Pattern[bytes]) -> None:
    """What has no bound comes last: nothing after it can fail and make it try a shorter one."""
    assert not _retries(re._parser.parse(pattern.pattern))
