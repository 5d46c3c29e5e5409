"""Secrets that are known by the name before them: ``password=...``, ``"api_key": "..."``, ``--token ...``."""

from __future__ import annotations

import re
import string
from typing import NamedTuple

from recollect.rules.masking.announcing import Announcement, is_secret
from recollect.rules.masking.finding import MASK, Finding, Text
from recollect.rules.masking.judgement import ENOUGH

# What a person chooses, and what a machine issues.
_CHOSEN = (
    r"_?(?:passwor[dt]|passwd|pass[-_]?phrase|passcode)|pwd|_pw|(?:\b|_)pass|contrase(?:ñ|Ñ|n)a|\bclave|kennwort"
    r"|senha|mot[-_ ]de[-_ ]passe"
)
_ISSUED = (
    "(?:api|auth|access|account|secret|private|encryption|signing|master|service|client|shared|storage|app)"
    "[-_ ]?key"
    "|secret|token|credentials?|secreto|geheimnis|(?:api|zugangs|geheim)[-_ ]?schl(?:ü|Ü|ue)ssel"
)
_SUFFIX = r"[\w-]{0,24}"
_QUOTE = r"(?:\\{0,3}[\"'`])"
_IS = r"(?:\s(?:is|was|ist|war|lautet|es|era)\s?:?)"
_TYPE = r"(?:\s?:\s?(?:str|string|SecretStr)\b[ |None]{0,7})"
# As in code and in Markdown; as in prose; in an entry of its own, beside its value (as Kubernetes has it);
# in a call with a default; in a tag.
_SEPARATOR = (
    rf"(?:{_QUOTE}?\]?{_TYPE}?(?:\*{{0,2}}\s{{0,3}}(?:=>|:=|={{1,3}}|:)\*{{0,2}}|{_IS})\s{{0,4}}"
    rf"|{_QUOTE}?,?(?:\\n|\s){{1,40}}{_QUOTE}?value{_QUOTE}?\s?[:=]\s?"
    rf"|{_QUOTE}\s?,\s?"
    r"|>)"
)
_PLAIN = r"[^\s\"'`,;&|<>\\]"
_UNSPACED = r"[^\s\"'`\\]"
_START = rf"(?:[furbFURB@]{{0,2}}{_QUOTE}[^\n]{{6}}|{_PLAIN}{{6}})"
_FLAG = rf"--[\w-]{{0,20}}(?:{_CHOSEN}|{_ISSUED})[ =]"

TRIGGERS = (
    rf"(?i:(?:{_CHOSEN}|{_ISSUED}){_SUFFIX}{_SEPARATOR}){_START}".encode(),
    rf"(?i:(?:{_CHOSEN}|{_ISSUED}){_SUFFIX}=){_PLAIN}{_UNSPACED}{{5}}".encode(),
    rf"(?i:{_FLAG})[^\s<-]".encode(),
)
_NAMED = rf"(?P<name>(?P<password>{_CHOSEN})|{_ISSUED})"
_NAME = re.compile(rf"(?i:{_NAMED}(?P<suffix>{_SUFFIX})(?P<separator>{_SEPARATOR}))".encode())
_FLAGGED = re.compile(rf"(?i:--[\w-]{{0,20}}?{_NAMED}(?P<suffix>)(?P<separator>[ =]))".encode())
PATTERNS = (_NAME, _FLAGGED)
_OPENING = re.compile(rf"(?:[furbFURB@]{{0,2}})({_QUOTE})".encode())
_CLOSING = {
    opening: re.compile((b"" if opening.startswith(b"\\") else rb"(?<!\\)") + re.escape(opening))
    for opening in (b"\\" * escapes + mark for escapes in range(4) for mark in (b'"', b"'", b"`"))
}
_BARE = re.compile(rf"{_PLAIN}+".encode())
_BARE_TAIL = b".:)]}"
_WORD = (string.ascii_letters + string.digits + "_").encode()
_COMMAND = re.compile(rb"\b(?:export|set|ENV|env|-e)\s\Z")
_UNSPACED_VALUE = re.compile(rf"{_UNSPACED}+".encode())
_UNSPACED_TAIL = _BARE_TAIL + b",;&|"
_NEXT_VARIABLE = re.compile(rb"[&;,|][\w.-]{1,40}=")
# Much longer than a secret that a name announces. A quotation mark further off closes something else.
LONGEST_READ = 512
_LOOK_AHEAD = 40


class _Value(NamedTuple):
    """Where a value begins and ends, as far as it is read, and whether it is quoted."""

    begin: int
    end: int
    is_quoted: bool


def at(text: Text, start: int, before: int | None = None) -> Finding | None:
    """The secret that is assigned to the name that begins here, if it is one; no further than ``before``."""
    data = text.data
    name = _NAME.match(data, start) or _FLAGGED.match(data, start)
    if not name:
        return None
    word, lead = _word(text.before(start), name)
    begin, end, is_quoted = _value(
        data, name.end(), unspaced=_is_line_of_variable(word, lead, name["separator"])
    )
    if before is not None:
        # What comes before :// only says how an address is read.
        end = begin if data.startswith(b"://", before) else max(begin, before)
    announcement = Announcement(
        name["name"].lower(),
        name["suffix"].decode(),
        word,
        name["separator"],
        lead,
        data[end : end + _LOOK_AHEAD],
        is_password=bool(name["password"]),
        is_flag=name.re is _FLAGGED,
        is_quoted=is_quoted,
    )
    if not is_secret(announcement, data[begin : min(end, begin + ENOUGH)].decode("utf-8", "replace")):
        return None
    if _reaches_mask(data, begin, end):
        return None
    if end == begin + ENOUGH and not is_quoted and before is None and (rest := _BARE.match(data, end)):
        end = rest.end()
    return Finding(begin, end, "passwd" if name["password"] else "key")


def _reaches_mask(data: bytes, begin: int, end: int) -> bool:
    """What is masked inside a value had a known form, and then the rest of the value has been judged."""
    mask = data.find(MASK, begin, begin + LONGEST_READ)
    if mask <= end:
        return mask >= 0
    rest = _BARE.match(data, end, mask)
    return bool(rest and rest.end() == mask)


def _word(before: bytes, name: re.Match[bytes]) -> tuple[bytes, bytes]:
    """The whole word that the name is part of, and what stands before it."""
    lead = before.rstrip(_WORD)
    word = before[len(lead) :] + name["name"] + name["suffix"]
    # The letter in \\n is no part of it.
    return (word[1:], lead + word[:1]) if lead.endswith(b"\\") else (word, lead)


def _is_line_of_variable(word: bytes, lead: bytes, separator: bytes) -> bool:
    """Whether the value goes on to the next space: a shell reads it so, and so do files of variables."""
    if separator != b"=":
        return False
    if not lead or lead.endswith((b"\n", b"\\n")):
        return True
    if not lead.endswith((b" ", b"\t", b'"', b"'", b"`")):
        return False
    return word.isupper() or bool(_COMMAND.search(lead[-8:]))


def _value(data: bytes, start: int, *, unspaced: bool) -> _Value:
    opening = _OPENING.match(data, start)
    if opening:
        start = opening.end()
        last = start + LONGEST_READ
        line_end = data.find(b"\n", start, last)
        closing = _CLOSING[opening[1]].search(data, start, line_end if line_end >= 0 else last)
        if closing:
            return _Value(start, closing.start(), is_quoted=True)
    unspaced = unspaced and not opening
    last = start + ENOUGH
    found = (_UNSPACED_VALUE if unspaced else _BARE).match(data, start, last)
    if not found:
        return _Value(start, start, is_quoted=False)
    if unspaced and (following := _NEXT_VARIABLE.search(data, start, found.end())):
        return _Value(start, following.start(), is_quoted=False)
    if found.end() == last:
        return _Value(start, last, is_quoted=False)
    tail = _UNSPACED_TAIL if unspaced else _BARE_TAIL
    return _Value(start, start + len(found[0].rstrip(tail)), is_quoted=False)
