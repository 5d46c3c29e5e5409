"""Secrets that are known by the name before them: ``password=...``, ``"api_key": "..."``, ``--token ...``."""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.rules.masking.finding import Finding
from recollect.rules.masking.judgement import is_environment_value, is_key, is_made_up, is_password, is_random

_PASSWORD = (
    "_?(?:passwor[dt]|passwd|pass[-_]?phrase|passcode)|pwd|(?:\\b|_)pass|contrase(?:ñ|Ñ|n)a|\\bclave|kennwort|senha"
    "|mot[-_ ]de[-_ ]passe"
)
_KEY = (
    "(?:api|auth|access|account|secret|private|encryption|signing|master|service|client|shared|storage|app)[-_ ]?key"
    "|secret|token|credentials?|secreto|geheimnis|(?:api|zugangs|geheim)[-_ ]?schl(?:ü|Ü|ue)ssel"
)
_SUFFIX = r"[\w-]{0,24}"
_QUOTE = r"(?:\\{0,3}[\"'`])"
_IS = r"(?:\s(?:is|ist|lautet|es)\s?:?)"
_SEPARATOR = rf"{_QUOTE}?\]?(?:\s?:\s?(?:str|string|SecretStr)\b[ |None]{{0,7}})?(?:\s{{0,3}}(?:=>|:=|={{1,3}}|:)|{_IS})\s{{0,4}}"
_FLAG = rf"--[\w-]{{0,20}}(?:{_PASSWORD}|{_KEY})[ =]"

TRIGGERS = (
    rf"(?i:(?:{_PASSWORD}|{_KEY}){_SUFFIX}{_SEPARATOR})[^\s,;<>]".encode(),
    rf"(?i:{_FLAG})[^\s<-]".encode(),
)
_NAME = re.compile(
    rf"(?i:(?:(?P<password>{_PASSWORD})|{_KEY})(?P<suffix>{_SUFFIX})(?P<separator>{_SEPARATOR}))".encode()
)
_FLAGGED = re.compile(
    rf"(?i:--[\w-]{{0,20}}?(?:(?P<password>{_PASSWORD})|{_KEY})(?P<suffix>)(?P<separator>[ =]))".encode()
)
_OPENING = re.compile(rf"(?:[furbFURB@]{{0,2}})({_QUOTE})".encode())
_BARE = re.compile(rb"[^\s\"'`,;&|<>\\]+")
_BARE_TAIL = b".:)]}"
# More than a key with its certificate would take; a quotation mark further off closes something else.
_LONGEST_QUOTED = 4096
_HARMLESS_SUFFIX = re.compile(
    r"(?i)^s?(?:[-_]?\d{1,3}|[-_]?(?:prod|production|dev|test|live|staging|local|old|new|value|raw|plain|b64|base64|key|token|secret|access[-_]?key))*$"
)
_IDENTIFYING_SUFFIX = re.compile(
    r"(?i)id$|ids$|name$|url$|uri$|path$|file$|hash(?:es)?$|type$|count$|version$|arn$"
)
_PROSE = re.compile(_IS.encode())
_ENVIRONMENT = re.compile(rb"(?<![a-z])[A-Z][A-Z0-9_]*=$")


class Value(NamedTuple):
    """What is assigned, from where to look on, and whether it is itself a secret."""

    start: int
    end: int
    resume: int
    findings: list[Finding]


def at(data: bytes, start: int) -> Value | None:
    name = _NAME.match(data, start) or _FLAGGED.match(data, start)
    if not name:
        return None
    begin, end, quoted = _value(data, name.end())
    value = data[begin:end].decode("utf-8", "replace")
    if _is_secret(data, name, value, quoted=quoted):
        return Value(begin, end, end, [Finding(begin, end, "passwd" if name["password"] else "key")])
    # What is no secret may still have one in it. A long one is not looked at over and over.
    return Value(begin, end, begin if end - begin <= _LONGEST_QUOTED else end, [])


def _value(data: bytes, start: int) -> tuple[int, int, bool]:
    """Where a value begins and ends, and whether it is quoted."""
    if opening := _OPENING.match(data, start):
        start = opening.end()
        line_end = data.find(b"\n", start, start + _LONGEST_QUOTED)
        last = line_end if line_end >= 0 else start + _LONGEST_QUOTED
        closing = re.compile(rb"(?<!\\)" + re.escape(opening[1])).search(data, start, last)
        if closing:
            return start, closing.start(), True
    bare = _BARE.match(data, start)
    return start, start + len(bare[0].rstrip(_BARE_TAIL)) if bare else start, False


def _is_secret(data: bytes, name: re.Match[bytes], value: str, *, quoted: bool) -> bool:
    suffix = name["suffix"].decode()
    spaced = any(character.isspace() for character in value)
    if _IDENTIFYING_SUFFIX.search(suffix) or (spaced and b"phrase" not in name[0].lower()):
        return False
    if not _HARMLESS_SUFFIX.match(suffix) or (_PROSE.search(name["separator"]) and not name["password"]):
        return is_random(value) and not is_made_up(value)
    if _PROSE.search(name["separator"]):
        return is_password(value, quoted=False) and not value.isdigit()
    if _ENVIRONMENT.search(data[max(0, name.start() - 40) : name.end()]) and is_environment_value(value):
        return True
    return is_password(value, quoted=quoted) if name["password"] else is_key(value)
