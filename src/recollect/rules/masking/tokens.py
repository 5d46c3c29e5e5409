"""Secrets known by their own form: tokens of vendors, keys in PEM, addresses with a password, cards."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from stdnum import luhn

from recollect.access.tokens import API_KEY_PREFIX
from recollect.rules.masking.finding import BORDER, Finding, Skip, finding
from recollect.rules.masking.judgement import is_made_up, is_placeholder


class Kind(NamedTuple):
    """``beginning`` is what the combined pattern looks for; ``exact`` is the whole of it.

    Both are bounded wherever they can still fail, so that no text makes them slow. A group ``secret`` in
    ``exact`` is what is masked.
    """

    name: str
    beginning: bytes
    exact: re.Pattern[bytes]
    made_up: Callable[[str], bool] = is_made_up


def _kind(
    name: str, start: str, rest: str, *, first: str = "", made_up: Callable[[str], bool] = is_made_up
) -> Kind:
    """``rest`` follows ``start``; ``first`` is as much of it as makes the combined pattern seldom wrong."""
    return Kind(name, f"(?:{start}){first}".encode(), re.compile(f"(?:{start}){rest}".encode()), made_up)


def _has_no_digit(secret: str) -> bool:
    return is_made_up(secret) or not any(character.isdigit() for character in secret)


def _is_no_card(digits: str) -> bool:
    number = re.sub(r"\D", "", digits)
    return not luhn.is_valid(number)


def _is_no_login(password: str) -> bool:
    return is_placeholder(password) or password.casefold() in {
        "password",
        "passwd",
        "pass",
        "pwd",
        "secret",
        "contraseña",
    }


_END = r"(?![A-Za-z0-9])"
_W = r"[A-Za-z0-9_-]"

KINDS = (
    _kind("AWS key id", "AKIA|ASIA|ABIA|ACCA", r"[A-Z2-7]{16}" + _END, first="[A-Z2-7]{8}"),
    _kind("GitHub", "gh[pousr]_", r"[A-Za-z0-9]{36,}", first="[A-Za-z0-9]{8}"),
    _kind("GitHub", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _kind(
        "GitLab",
        "gl(?:pat|dt|rt|ft|soat|ptt|cbt|imt|agent|oas|ffct)-",
        rf"{_W}{{20,}}(?:\.[A-Za-z0-9]{{2,12}}){{0,2}}",
    ),
    _kind("GitLab", "GR1348941", rf"{_W}{{20,}}"),
    _kind("Slack", "xox[abdeoprs]-|xapp-", r"[A-Za-z0-9-]{16,}"),
    _kind(
        "Slack webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/",
        r"(?P<secret>[A-Za-z0-9_/+-]{20,})",
    ),
    _kind("Stripe", "[rs]k_(?:live|test)_", r"[A-Za-z0-9]{16,}"),
    _kind("Stripe webhook", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    _kind("Anthropic", "sk-ant-", rf"{_W}{{24,}}"),
    _kind("OpenAI", "sk-(?:proj|svcacct|admin|None)-", rf"{_W}{{24,}}"),
    _kind("API key", "sk-(?:or-v1-|lf-)?", rf"{_W}{{20,}}", first="[A-Za-z0-9]{8}", made_up=_has_no_digit),
    _kind("Google", "AIza", rf"{_W}{{35}}{_END}", first=_W + "{8}"),
    _kind("Google OAuth", "GOCSPX-", rf"{_W}{{20,}}"),
    _kind("Google OAuth", r"ya29\.", r"[A-Za-z0-9_.-]{20,}"),
    _kind("Azure storage", "AccountKey=|SharedAccessKey=", r"(?P<secret>[A-Za-z0-9+/]{40,}={0,2})"),
    _kind("JWT", "eyJ", rf"{_W}{{8,1000}}\.eyJ{_W}{{8,}}(?:\.{_W}*)?", first=_W + "{8}"),
    _kind("npm", "npm_", r"[A-Za-z0-9]{36,}", first="[A-Za-z0-9]{8}"),
    _kind("npm", "_authToken=", r"(?P<secret>[A-Za-z0-9_=/+-]{20,})"),
    _kind("PyPI", "pypi-", rf"{_W}{{50,}}", first="A[A-Za-z0-9]{6}"),
    _kind("Twilio", "SK|AC", rf"[0-9a-f]{{32}}{_END}", first="[0-9a-f]{8}"),
    _kind("SendGrid", r"SG\.", rf"{_W}{{16,64}}\.{_W}{{16,}}", first=_W + "{8}"),
    _kind("Mailgun", "key-", rf"[0-9a-z]{{32}}{_END}", first="[0-9a-z]{8}", made_up=_has_no_digit),
    _kind("Discord", "[MNO][A-Za-z0-9_-]{23,27}", rf"\.{_W}{{6}}\.{_W}{{27,}}", first=r"\."),
    _kind("Telegram", "[0-9]{8,10}:", rf"A{_W}{{34}}{_END}", first="A"),
    _kind("Heroku", "HRKU-", rf"{_W}{{36,}}"),
    _kind("DigitalOcean", "do[opr]_v1_", r"[0-9a-f]{40,}"),
    _kind("Hugging Face", "hf_|api_org_", r"[A-Za-z0-9]{30,}", first="[A-Za-z0-9]{8}"),
    _kind("Databricks", "dapi", rf"[0-9a-f]{{32}}(?:-[0-9])?{_END}", first="[0-9a-f]{8}"),
    _kind("Supabase", "sb[pa]_|sb_secret_", r"[A-Za-z0-9_]{20,}", first="[A-Za-z0-9]{8}"),
    _kind("Recollect", API_KEY_PREFIX, rf"[0-9a-f]{{8}}_{_W}{{40,}}", first="[0-9a-f]{8}_"),
    _kind("Groq", "gsk_", r"[A-Za-z0-9]{40,}"),
    _kind("xAI", "xai-", r"[A-Za-z0-9]{40,}"),
    _kind("Perplexity", "pplx-", r"[A-Za-z0-9]{40,}"),
    _kind("Replicate", "r8_", r"[A-Za-z0-9]{30,}", first="[A-Za-z0-9]{8}"),
    _kind("Linear", "lin_(?:api|oauth)_", r"[A-Za-z0-9]{30,}"),
    _kind("Notion", "ntn_", r"[A-Za-z0-9]{40,}"),
    _kind("Shopify", "shp(?:at|ca|pa|ss)_", r"[0-9a-fA-F]{32,}"),
    _kind("Grafana", "glsa_|glc_", r"[A-Za-z0-9_+/=]{30,}"),
    _kind("Sentry", "sntry[su]_", r"[A-Za-z0-9_+/=-]{30,}"),
    _kind("Docker Hub", "dckr_(?:pat|oat)_", rf"{_W}{{20,}}"),
    _kind("Atlassian", "ATATT3|ATCTT3|ATBB", r"[A-Za-z0-9_=-]{20,}", first="[A-Za-z0-9]{4}"),
    _kind("Vault", r"hv[sb]\.", rf"{_W}{{24,}}"),
    _kind("Tailscale", "tskey-", rf"{_W}{{16,}}"),
    _kind("Postman", "PMAK-", rf"{_W}{{40,}}"),
    _kind("Artifactory", "AKCp", r"[A-Za-z0-9]{50,}", first="[A-Za-z0-9]{8}"),
    _kind("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{40,}"),
    _kind(
        "bearer",
        r"(?i:bearer|authorization[\"']?\s?[:=]\s?[\"']?token)",
        r"\s{1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)",
        first=r"\s{1,4}[A-Za-z0-9._~+/-]{8}",
        made_up=_has_no_digit,
    ),
    _kind(
        "basic login",
        r"(?i:authorization[\"']?\s?[:=]\s?[\"']?basic)",
        r"\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}=*)",
    ),
    _kind(
        "login",
        "u |user[ =]",
        r"(?:(?<=-u )|(?<=--user.))[\"']?[^\s:\"'/]{1,60}:(?P<secret>[^\s\"'@:]{6,})",
        made_up=_is_no_login,
    ),
    _kind(
        "card",
        r"4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|5[0-9]{2}|4[4-9][0-9])|35[0-9]{2}|3[47][0-9]{2}",
        r"(?<![0-9][.-].{4})(?<![0-9].{4})"
        r"(?:([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}|([ -]?)[0-9]{6}\2[0-9]{5})(?![\w.-]?[0-9])",
        first="[ -]?[0-9]{4}[ -]?[0-9]{2}",
        made_up=_is_no_card,
    ),
)

_PEM = re.compile(rb"-----BEGIN ((?:[A-Z0-9]{1,10} ){0,3})PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(rb"[A-Za-z0-9+/]{24}")
_PEM_CUT_OFF = re.compile(
    rb"(?:(?:\\[nrt]|[\s\"'])*[A-Za-z0-9+/=]{24,})*(?:(?:\\[nrt]|[\s\"'])*[A-Za-z0-9+/]{1,23}={1,2})?"
)
_PEM_KINDS = {"RSA", "EC", "DSA", "OPENSSH", "PGP", "ENCRYPTED"}

_LOGIN = re.compile(rb"://[^\s/:@\"'<>`]{0,100}:(?P<secret>[^\s/\"'<>`]{3,256})@[\w\[{$-]")
_SCHEMES = {
    "postgres": "postgres",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mongodb": "mongodb",
    "redis": "redis",
}
_SCHEME = re.compile(r"([a-z][a-z0-9]+)[a-z0-9+.-]*$")

TRIGGERS = (
    *(BORDER + kind.beginning for kind in KINDS),
    rb"-----BEGIN [A-Z0-9 ]{0,33}PRIVATE KEY",
    rb"://[^\s/:@\"'<>`]{0,100}:[^\s/\"'<>`]{3}",
)


_BEGINNING = re.compile(b"|".join(b"(?P<kind%d>%s)" % (n, kind.beginning) for n, kind in enumerate(KINDS)))


def at(data: bytes, start: int) -> Finding | Skip | None:
    """The secret that begins here, if one does."""
    if data.startswith(b"-----", start):
        return _private_key(data, start)
    if data.startswith(b"://", start):
        return _login(data, start)
    begun = _BEGINNING.match(data, start)
    if not begun or not begun.lastgroup:
        return None
    kind = KINDS[int(begun.lastgroup.removeprefix("kind"))]
    if not (match := kind.exact.match(data, start)):
        return None
    begin, end = match.span("secret" if "secret" in kind.exact.groupindex else 0)
    # Hyphens belong to many tokens, but these begin the next secret.
    if (pem := data.find(b"-----BEGIN", begin, end)) >= 0:
        end = pem
    return (
        Skip(end)
        if kind.made_up(data[begin:end].decode("utf-8", "replace"))
        else finding(data, begin, end, kind.name)
    )


def _private_key(data: bytes, start: int) -> Finding | None:
    """Its lines are one secret; so are those of a key that was cut off."""
    if not (head := _PEM.match(data, start)):
        return None
    end = data.find(b"-----", head.end())
    if end >= 0 and (tail := _PEM_END.match(data, end)) and _PEM_LINE.search(data, head.end(), end):
        end = tail.end()
    elif (rest := _PEM_CUT_OFF.match(data, head.end())) and _PEM_LINE.search(rest[0]):
        end = rest.end()
    else:
        return None
    algorithm = head[1].decode().strip()
    return finding(data, start, end, f"{algorithm} private key" if algorithm in _PEM_KINDS else "private key")


def _login(data: bytes, start: int) -> Finding | Skip | None:
    match = _LOGIN.match(data, start)
    scheme = _SCHEME.search(data[max(0, start - 20) : start].decode("latin-1").lower())
    if not match or not scheme:
        return None
    begin, end = match.span("secret")
    if _is_no_login(data[begin:end].decode("utf-8", "replace")):
        return Skip(end)
    return Finding(begin, end, _SCHEMES.get(scheme[1], "URL"))
