"""Whether what a name announces is a secret: how much it takes depends on the name and on what ties them."""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.rules.masking.judgement import (
    is_environment_value,
    is_key,
    is_key_or_uuid,
    is_made_up,
    is_name_of_secret,
    is_password,
    is_phrase,
    is_random,
)

_HARMLESS_SUFFIX = re.compile(
    r"(?i)^s?(?:[-_]?(?:\d++|prod(?:uction)?|dev|test|live|staging|local|old|new|value|raw|plain|b64|base64"
    r"|access[-_]?key|key|token|secret))*+$"
)
_IDENTIFYING_SUFFIX = re.compile(
    r"(?i)id$|ids$|name$|url$|uri$|path$|file$|hash(?:es)?$|type$|count$|version$|arn$|iz(?:er|ed|ation)$"
)
_SPACE = re.compile(r"\s")
_PROSE = re.compile(rb"[\"'`\\\]]*\s[a-zA-Z]")
_CALL = re.compile(rb"(?i:define|env|environ\.(?:get|setdefault))\(\s?\\{0,3}[\"'`][\w.-]*\Z")
_TAG = re.compile(rb"<[\w:.-]*\Z")
# A parser's token, and a chart's secret that only has a name here.
_OTHER_MEANING = re.compile(rb"(?i:(?:unexpected|invalid|illegal|unknown) \w*\Z|(?<!\w)existing\w*\Z)")
# In a connection string, as .NET and libpq read them; in lower case.
_CONNECTION = re.compile(rb"(?:server|data source|host|user(?: id|name)?|uid|database|dbname)=[^\n]*\Z")
_SETTING = re.compile(rb"\s(?:dbname|host|user|port|sslmode)=")


class Announcement(NamedTuple):
    """``name`` is in lower case, and part of ``word``; ``lead`` comes before it, ``after`` after all."""

    name: bytes
    suffix: str
    word: bytes
    separator: bytes
    lead: bytes
    after: bytes
    is_password: bool
    is_flag: bool
    is_quoted: bool

    @property
    def is_variable(self) -> bool:
        return self.word.isupper() and (self.separator == b"=" or b"value" in self.separator)


def is_secret(said: Announcement, value: str) -> bool:
    if (said.suffix and _IDENTIFYING_SUFFIX.search(said.suffix)) or not _is_tied(said):
        return False
    if _SPACE.search(value) and not _may_have_spaces(said, value):
        return False
    if (said.suffix and not _HARMLESS_SUFFIX.match(said.suffix)) or _is_doubtful(said):
        return is_random(value) and not is_made_up(value)
    if _PROSE.match(said.separator):
        return is_password(value, quoted=False) and not value.isdigit()
    if _is_meant(said, value) and is_environment_value(value):
        return True
    return _is_password(said, value) if said.is_password else _is_key(said, value)


def _is_password(said: Announcement, value: str) -> bool:
    return is_password(value, quoted=said.is_quoted or said.separator == b">")


def _is_key(said: Announcement, value: str) -> bool:
    """An API key may be a UUID; a token that is one may as well only identify something."""
    return is_key_or_uuid(value) if said.is_quoted and b"key" in said.name else is_key(value)


def _is_tied(said: Announcement) -> bool:
    """Two strings in a list and a > have other meanings nearly always."""
    if said.separator == b">":
        return said.after.startswith(b"</") and bool(_TAG.search(said.lead))
    if b"," in said.separator and b"value" not in said.separator:
        return said.is_quoted and bool(_CALL.search(said.lead))
    return True


def _may_have_spaces(said: Announcement, value: str) -> bool:
    return b"phrase" in said.name or (said.is_variable and said.is_quoted and is_phrase(value))


def _is_doubtful(said: Announcement) -> bool:
    """Words with other meanings: tests pass, a key to success, the key of an entry in a store."""
    if said.name == b"pass":
        return not (said.is_quoted or said.is_flag or said.separator == b"=")
    if said.is_password:
        return said.name == b"clave" and bool(_PROSE.match(said.separator))
    return (
        b" " in said.name
        or said.name.startswith(b"storage")
        or bool(_PROSE.match(said.separator) or _OTHER_MEANING.search(said.lead[-12:] + said.word))
    )


def _is_meant(said: Announcement, value: str) -> bool:
    """Whether it is a value and nothing else, so that it needs neither a digit nor quotation marks."""
    if said.is_variable:
        return True
    if not said.is_password or said.separator != b"=":
        return False
    return (said.is_flag or _is_setting(said)) and not is_name_of_secret(value)


def _is_setting(said: Announcement) -> bool:
    """One of several, as in an address or in a connection string."""
    if said.lead.endswith((b"?", b"&")) or _SETTING.match(said.after):
        return True
    if said.lead.endswith(b";") and said.after.startswith(b";"):
        return True
    return said.lead.endswith((b";", b" ")) and bool(_CONNECTION.search(said.lead[-80:].lower()))
