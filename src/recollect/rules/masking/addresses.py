"""Passwords in addresses: ``postgres://user:password@host``."""

from __future__ import annotations

import re

from recollect.rules.masking.finding import Finding, Skip
from recollect.rules.masking.judgement import is_placeholder

_SCHEMES = {
    "postgres": "postgres",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mongodb": "mongodb",
    "redis": "redis",
}
_SCHEME = re.compile(r"([a-z][a-z0-9]+)[a-z0-9+.-]*$")
# On the web a slash ends the host, and an @ may stand in any path.
_WEB = re.compile(r"https?$|wss?$|git$|ssh$|file$")
_LOGIN = re.compile(rb"://[^\s/:@\"'<>`]{0,100}:(?P<secret>[^\s/\"'<>`]{3,256})@[\w\[{$-]")
# With a slash or an apostrophe in it. Not a port, not up to a second address or the end of a string in code.
_UNUSUAL_LOGIN = re.compile(
    rb"://[^\s/:@\"'<>`]{1,100}:(?P<secret>(?![0-9]{1,5}[/,?])(?:(?!//|'[,)\]};:+])[^\s\"<>`]){3,100})@[\w\[{$-]"
)
_USUAL_NAMES = {"password", "passwd", "pass", "pwd", "secret", "contraseña"}

TRIGGERS = (rb"://[^\s/:@\"'<>`]{0,100}:[^\s/\"<>`][^\s\"<>`]{2}",)
PATTERNS = (_LOGIN, _UNUSUAL_LOGIN)


def is_no_login(password: str) -> bool:
    return is_placeholder(password) or password.casefold() in _USUAL_NAMES


def at(data: bytes, start: int) -> Finding | Skip | None:
    scheme = _SCHEME.search(data[max(0, start - 20) : start].decode("latin-1").lower())
    if not scheme:
        return None
    match = _LOGIN.match(data, start)
    if not match and not _WEB.match(scheme[0]):
        match = _UNUSUAL_LOGIN.match(data, start)
    if not match:
        return None
    begin, end = match.span("secret")
    if is_no_login(data[begin:end].decode("utf-8", "replace")):
        return Skip(end)
    return Finding(begin, end, _SCHEMES.get(scheme[1], "URL"))
