"""Secrets known by the header, the command or the statement that they stand in, and cards."""

from __future__ import annotations

import re

from stdnum import luhn

from recollect.rules.masking.addresses import is_no_login
from recollect.rules.masking.judgement import is_environment_value, is_password
from recollect.rules.masking.kinds import has_no_digit, kind

_PORTS = re.compile(r"[0-9:]+$")
_AUTHORIZATION = r"(?i:authorization[\"']?\s?[:=]\s?[\"']?"


def _is_no_card(digits: str) -> bool:
    number = re.sub(r"\D", "", digits)
    return not luhn.is_valid(number)


def _is_no_quoted_password(value: str) -> bool:
    return not is_password(value, quoted=True)


def _is_no_environment_value(value: str) -> bool:
    return not is_environment_value(value)


def _is_no_option(value: str) -> bool:
    """After -p a port may stand as well."""
    return is_no_login(value) or bool(_PORTS.match(value))


KINDS = (
    kind(
        "bearer",
        rf"(?i:bearer)|{_AUTHORIZATION}(?:token|ssws|apikey|bot))",
        r"\s{1,4}(?P<secret>(?:[0-9]{1,8}\|)?[A-Za-z0-9._~+/-]{16,}=*)",
        first=r"\s{1,4}(?:[0-9]{1,8}\|)?[A-Za-z0-9._~+/-]{8}",
        made_up=has_no_digit,
    ),
    kind("basic login", rf"{_AUTHORIZATION}basic)", r"\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}=*)"),
    kind(
        "cookie",
        r"(?i:sess[\w.-]{0,20}|sid)=",
        r"(?P<secret>[^\s;,\"'\\]{16,})",
        first=r"[^\s;,\"'\\]{16}",
        after=r"(?i:cookie)[\"']?\s?[:=][^\n]*\Z",
        made_up=has_no_digit,
    ),
    kind(
        "login",
        r"\s(?:-u ?|--user[ =])",
        r"[\"']?[^\s:\"'/]{1,60}:(?P<secret>[^\s\"']{6,})",
        first=r"[\"']?[^\s:\"'/]{1,60}:",
        after=r"(?:curl|wget|http)(?:[^\n\\]|\\[\s\S])*\Z",
        made_up=is_no_login,
    ),
    kind(
        "passwd",
        r"\s-p",
        r"[\"']?(?P<secret>[^\s\"']{4,})",
        first=r"[\"']?[^\s\"'-]{4}",
        after=r"mysql[a-z]{0,8}(?:\s[^\n|;]*)?\Z",
        made_up=_is_no_option,
    ),
    kind("passwd", r"sshpass\s{1,4}-p\s?", r"[\"']?(?P<secret>[^\s\"']{4,})", made_up=is_no_login),
    kind(
        "passwd",
        r"(?i:password)\s{1,3}E?'",
        r"(?P<secret>[^'\n]{4,100})'",
        after=r"(?i:\b(?:user|role|login)\b[^;]*\Z)",
        made_up=_is_no_quoted_password,
    ),
    kind(
        "passwd",
        r"(?i:identified\s{1,3}(?:with\s[\w'\"]{1,40}\s)?by)\s{1,3}['\"]",
        r"(?P<secret>[^'\"\n]{4,100})['\"]",
        made_up=_is_no_quoted_password,
    ),
    # The file .netrc.
    kind(
        "passwd",
        r"password\s{1,4}",
        r"(?P<secret>[^\s'\"\\]{4,})",
        first=r"[^\s'\"\\]{4}",
        after=r"\bmachine\s{1,4}\S{1,100}\s{1,8}login\s{1,4}\S{1,200}\s{1,8}\Z",
        made_up=is_no_login,
    ),
    # The file .pgpass: host:port:database:user:password.
    kind(
        "passwd",
        r":(?:543[0-9]|6432|\*):[^\s:/]{1,60}:[^\s:/]{1,60}:",
        r"(?P<secret>[^\s:\"'\\]{4,})",
        first=r"[^\s:\"'\\]{4}",
        after=r"(?:\A|\n|\\n)[\w.*-]{1,80}\Z",
        made_up=is_no_login,
    ),
    # A Dockerfile.
    kind(
        "passwd",
        "ENV [A-Z0-9_]{0,30}(?:PASSWORD|PASSWD|PASSPHRASE|_PASS|PWD|_PW) ",
        r"(?P<secret>[^\s\"'\\]{6,})",
        first=r"[^\s\"'\\]{6}",
        made_up=_is_no_environment_value,
    ),
    kind(
        "key",
        "ENV [A-Z0-9_]{0,30}(?:SECRET|TOKEN|API_?KEY|(?:ACCESS|PRIVATE|SECRET)_KEY) ",
        r"(?P<secret>[^\s\"'\\]{6,})",
        first=r"[^\s\"'\\]{6}",
        made_up=_is_no_environment_value,
    ),
    kind(
        "card",
        r"4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|5[0-9]{2}|4[4-9][0-9])|35[0-9]{2}|3[47][0-9]{2}",
        r"(?<![0-9][.-].{4})(?<![0-9].{4})"
        r"(?:([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}|([ -]?)[0-9]{6}\2[0-9]{5})(?![\w.-]?[0-9])",
        first="[ -]?[0-9]{4}[ -]?[0-9]{2}",
        border=True,
        made_up=_is_no_card,
    ),
)
