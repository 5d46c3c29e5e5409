"""Secrets that are known by the name before them: ``password=...``, ``"api_key": "..."``, ``--token ...``."""

from __future__ import annotations

import re

from recollect.rules.masking.finding import Finding
from recollect.rules.masking.judgement import is_environment_value, is_key, is_made_up, is_password, is_random

# What a person chooses, and what a machine issues.
_CHOSEN = (
    r"_?(?:passwor[dt]|passwd|pass[-_]?phrase|passcode)|pwd|(?:\b|_)pass|contrase(?:ñ|Ñ|n)a|\bclave|kennwort|senha"
    r"|mot[-_ ]de[-_ ]passe"
)
_ISSUED = (
    "(?:api|auth|access|account|secret|private|encryption|signing|master|service|client|shared|storage|app)"
    "[-_ ]?key"
    "|secret|token|credentials?|secreto|geheimnis|(?:api|zugangs|geheim)[-_ ]?schl(?:ü|Ü|ue)ssel"
)
_SUFFIX = r"[\w-]{0,24}"
_QUOTE = r"(?:\\{0,3}[\"'`])"
_IS = r"(?:\s(?:is|ist|lautet|es)\s?:?)"
_TYPE = r"(?:\s?:\s?(?:str|string|SecretStr)\b[ |None]{0,7})"
_SEPARATOR = rf"{_QUOTE}?\]?{_TYPE}?(?:\s{{0,3}}(?:=>|:=|={{1,3}}|:)|{_IS})\s{{0,4}}"
_PLAIN = r"[^\s\"'`,;&|<>\\]"
_START = rf"(?:[furbFURB@]{{0,2}}{_QUOTE}[^\n]{{6}}|{_PLAIN}{{6}})"
_FLAG = rf"--[\w-]{{0,20}}(?:{_CHOSEN}|{_ISSUED})[ =]"

TRIGGERS = (
    rf"(?i:(?:{_CHOSEN}|{_ISSUED}){_SUFFIX}{_SEPARATOR}){_START}".encode(),
    rf"(?i:{_FLAG})[^\s<-]".encode(),
)
_NAME = re.compile(
    rf"(?i:(?:(?P<password>{_CHOSEN})|{_ISSUED})(?P<suffix>{_SUFFIX})(?P<separator>{_SEPARATOR}))".encode()
)
_FLAGGED = re.compile(
    rf"(?i:--[\w-]{{0,20}}?(?:(?P<password>{_CHOSEN})|{_ISSUED})(?P<suffix>)(?P<separator>[ =]))".encode()
)
_OPENING = re.compile(rf"(?:[furbFURB@]{{0,2}})({_QUOTE})".encode())
_CLOSING = {
    opening: re.compile((b"" if opening.startswith(b"\\") else rb"(?<!\\)") + re.escape(opening))
    for opening in (b"\\" * escapes + mark for escapes in range(4) for mark in (b'"', b"'", b"`"))
}
_BARE = re.compile(rf"{_PLAIN}+".encode())
_BARE_TAIL = b".:)]}"
# Much longer than a secret that a name announces. A quotation mark further off closes something else.
LONGEST_READ = 512
_HARMLESS_SUFFIX = re.compile(
    r"(?i)^s?(?:[-_]?(?:\d++|prod(?:uction)?|dev|test|live|staging|local|old|new|value|raw|plain|b64|base64"
    r"|access[-_]?key|key|token|secret))*+$"
)
_IDENTIFYING_SUFFIX = re.compile(
    r"(?i)id$|ids$|name$|url$|uri$|path$|file$|hash(?:es)?$|type$|count$|version$|arn$|iz(?:er|ed|ation)$"
)
_PROSE = re.compile(_IS.encode())
_ENVIRONMENT = re.compile(rb"(?<![a-z])[A-Z][A-Z0-9_]*=$")


def at(data: bytes, start: int, before: int | None = None) -> Finding | None:
    """The secret that is assigned to the name that begins here, if it is one; no further than ``before``."""
    name = _NAME.match(data, start) or _FLAGGED.match(data, start)
    if not name:
        return None
    begin, end, quoted = _value(data, name.end())
    if before is not None:
        # What comes before :// only says how an address is read.
        end = begin if data.startswith(b"://", before) else before
    if not _is_secret(data, name, data[begin:end].decode("utf-8", "replace"), quoted=quoted):
        return None
    if end == begin + LONGEST_READ and (rest := _BARE.match(data, end)):
        end = rest.end()
    return Finding(begin, end, "passwd" if name["password"] else "key")


def _value(data: bytes, start: int) -> tuple[int, int, bool]:
    """Where a value begins and ends, as far as it is read, and whether it is quoted."""
    if opening := _OPENING.match(data, start):
        start = opening.end()
    last = start + LONGEST_READ
    if opening:
        line_end = data.find(b"\n", start, last)
        closing = _CLOSING[opening[1]].search(data, start, line_end if line_end >= 0 else last)
        if closing:
            return start, closing.start(), True
    bare = _BARE.match(data, start, last)
    if not bare:
        return start, start, False
    return start, bare.end() if bare.end() == last else start + len(bare[0].rstrip(_BARE_TAIL)), False


def _is_secret(data: bytes, name: re.Match[bytes], value: str, *, quoted: bool) -> bool:
    suffix = name["suffix"].decode()
    spaced = re.search(r"\s", value)
    if _IDENTIFYING_SUFFIX.search(suffix) or (spaced and b"phrase" not in name[0].lower()):
        return False
    if not _HARMLESS_SUFFIX.match(suffix) or (_PROSE.search(name["separator"]) and not name["password"]):
        return is_random(value) and not is_made_up(value)
    if _PROSE.search(name["separator"]):
        return is_password(value, quoted=False) and not value.isdigit()
    if _ENVIRONMENT.search(data[max(0, name.start() - 40) : name.end()]) and is_environment_value(value):
        return True
    return is_password(value, quoted=quoted) if name["password"] else is_key(value)
