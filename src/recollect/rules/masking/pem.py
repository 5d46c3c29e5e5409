"""Private keys in PEM: whole, cut off at the end, and what is left of one that has lost its beginning."""

from __future__ import annotations

import re

from recollect.rules.masking.finding import Finding, finding

_HEAD = re.compile(rb"-----BEGIN ((?:[A-Z0-9]{1,10} ){0,3})PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END ((?:[A-Z0-9]{1,10} ){0,3})PRIVATE KEY(?: BLOCK)?-----")
_LINE = re.compile(rb"[A-Za-z0-9+/]{24}")
# A line ends in JSON, in JSON inside JSON, or really; the next may be quoted (>) or have a number.
_BREAK = rb"(?:\\{1,4}[nrt]|[\s\"'>|])"
_NUMBER = rb"[0-9]{1,6}(?:\xe2\x86\x92|[:.)|\t ])"
_MARGIN = rb"(?:%s*+%s){0,3}%s*+" % (_BREAK, _NUMBER, _BREAK)
_NEXT_LINE = re.compile(
    _MARGIN
    + rb"(?:[A-Za-z0-9+/]{24,}+={0,2}|(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):[^\n\\]{0,100})"
)
_LAST_LINE = re.compile(_MARGIN + rb"[A-Za-z0-9+/]{1,23}={1,2}")

_LONGEST_LINE = 200
_BEFORE = rb"(?:\A|[\s\"'>|:.)\x92]|\\n)(?P<line>[A-Za-z0-9+/]{%s}={0,2})" + rb"(?:%s|%s)*+\Z" % (
    _BREAK,
    _NUMBER,
)
_LINE_BEFORE = re.compile(_BEFORE % b"24,")
_SHORT_LINE_BEFORE = re.compile(_BEFORE % b"1,23")
_ALGORITHMS = {"RSA", "EC", "DSA", "OPENSSH", "PGP", "ENCRYPTED"}

TRIGGERS = (rb"-----(?:BEGIN|END) [A-Z0-9 ]{0,33}PRIVATE KEY",)
PATTERNS = (_HEAD, _END)


def at(data: bytes, start: int) -> Finding | None:
    """Its lines are one secret."""
    if head := _HEAD.match(data, start):
        end = _end(data, head.end())
        return finding(data, start, end, _name(head)) if end else None
    if tail := _END.match(data, start):
        begin = _begin(data, start)
        return finding(data, begin, tail.end(), _name(tail)) if begin < start else None
    return None


def _name(label: re.Match[bytes]) -> str:
    algorithm = label[1].decode().strip()
    return f"{algorithm} private key" if algorithm in _ALGORITHMS else "private key"


def _end(data: bytes, start: int) -> int | None:
    dashes = data.find(b"-----", start)
    if dashes >= 0 and (tail := _END.match(data, dashes)) and _LINE.search(data, start, dashes):
        return tail.end()
    end = start
    while line := _NEXT_LINE.match(data, end):
        end = line.end()
    if last := _LAST_LINE.match(data, end):
        end = last.end()
    return end if _LINE.search(data, start, end) else None


def _begin(data: bytes, end: int) -> int:
    """Where the lines before the last one begin; the last of them may be short."""
    begin = end - _length_before(_SHORT_LINE_BEFORE, data, end)
    whole = begin
    while length := _length_before(_LINE_BEFORE, data, whole):
        whole -= length
    return whole if whole < begin else end


def _length_before(pattern: re.Pattern[bytes], data: bytes, end: int) -> int:
    before = data[max(0, end - _LONGEST_LINE) : end]
    line = pattern.search(before)
    return len(before) - line.start("line") if line else 0
