"""Whether a value is a secret or only stands where one would: a placeholder, a name, a piece of code."""

from __future__ import annotations

import re

from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString

# What is no secret does not say so further on, and hostile values are long.
ENOUGH = 100
# Whole words of the value, and only beside other words: in a random string they turn up by chance.
_PLACEHOLDER_WORDS = {
    *("your", "my", "example", "sample", "dummy", "fake", "placeholder", "redacted", "removed", "hidden"),
    *("insert", "replace", "changeme", "changeit", "todo", "tbd", "here", "value", "tu", "dein", "ihr"),
}
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_PLAIN_WORD = re.compile(r"[^\W\d_]*[0-9]{0,4}")
# For values in lower case: so the search leaps from one possible beginning to the next.
_PLACEHOLDER_MARK = re.compile(
    r"x{4}|\*\*\*|…|••|example|\[secret|change[-_]me|0{8}|12345678[9a]|abcdef[0g]|\{[\w.]*\}"
)
_PLACEHOLDER_FRAME = re.compile(r"\.\.\.|.*\.\.\.$|<.*>$|\{.*\}$|\[.*\]$|\{\{")
# A name that somebody would give to a variable: $DB_PASSWORD1, $password, $dbPassword, but not $ecretW0rd.
_VARIABLE = re.compile(
    r"""(?x) \$ (?: [{(] | \w+ (?: -> | \[ ) | env:
                  | (?: [0-9]+ | [A-Z_][A-Z0-9_]* | [a-z_]+[0-9]{0,3} | [a-z]+(?:[A-Z][a-z]+)*[0-9]{0,2} ) $ )
          | % (?: \(\w*\)[sd]?$ | [sd]?$ | \w+%$ )"""
)
_CODE = re.compile(
    r"""(?x) [(){}\[\]] | -> | :: | ^[@&*!~] | /\*
        | ^[A-Za-z_$][\w$]* (?: \??\. [A-Za-z_$][\w$]* )+ $     # settings.password"""
)
_ADDRESS = re.compile(r"^\.{0,2}/|://|^[A-Za-z]:[\\/]")
_NOTHING = re.compile(
    r"(?i)^(?:none|null|nil|true|false|undefined|string|number|boolean|bytes|object|required|optional|hidden|disabled"
    r"|enabled|invalid|missing|incorrect|expired|forbidden|default|unknown|text|input|field|label|prompt|bearer"
    r"|basic|oauth|plain|plaintext|encrypted|hashed|masked|obligatorio|requerido|oculto|erforderlich|ungültig)$"
)
_SECRETISH = re.compile(
    r"(?i)pass|pwd|secret|token|key|credential|auth|contrase|clave|kennwort|geheim|schl.{1,2}ssel|login"
)
_UUID = re.compile(r"(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_INTEGRITY = re.compile(r"^(?:sha\d{1,3}|md5|blake2[bs])[-:=]")
_IDENTIFIER = re.compile(r"^[A-Za-z_][\w-]*$")
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[^\W\d_]")
_SYMBOL = re.compile(r"[!@#$%^&*+?~]")
_UNLIKE_A_WORD = re.compile(r"[^\W\d_][0-9][^\W\d_]|[!@#$%^&*+~]")
_HEXADECIMAL = re.compile(r"^[0-9a-fA-F]+$")
_PARTS = re.compile(r"[-_./:]")
_FEW_CHARACTERS = 4

_hexadecimal, _base64 = HexHighEntropyString(), Base64HighEntropyString()


def is_made_up(value: str) -> bool:
    """A placeholder, or a few characters repeated."""
    return len(set(value)) <= _FEW_CHARACTERS or is_placeholder(value)


def is_placeholder(value: str) -> bool:
    value = value[:ENOUGH]
    lower = value.lower()
    return bool(
        _PLACEHOLDER_MARK.search(lower)
        or _PLACEHOLDER_FRAME.match(value)
        or _VARIABLE.match(value)
        or _is_placeholder_in_words(lower)
    )


def _is_placeholder_in_words(lower: str) -> bool:
    """``your_api_key_123``, but not ``my_S3cret_Pw9``."""
    words = _BETWEEN_WORDS.split(lower)
    if _PLACEHOLDER_WORDS.isdisjoint(words) or _SYMBOL.search(lower.rstrip("!?")):
        return False
    return all(_PLAIN_WORD.fullmatch(word) for word in words)


def is_random(value: str) -> bool:
    """No person chose it, and it does not only identify something."""
    value = value[:ENOUGH]
    if len(value) < 16 or _UUID.match(value) or _INTEGRITY.match(value):
        return False
    if _HEXADECIMAL.match(value):
        return _hexadecimal.calculate_shannon_entropy(value) > _hexadecimal.entropy_limit
    return _is_mixed(value, 8) and _base64.calculate_shannon_entropy(value) > 3.5


def is_password(value: str, *, quoted: bool) -> bool:
    """A person chose it, and code would not mean a variable by it."""
    value = value[:ENOUGH]
    digit = _DIGIT.search(value)
    if len(value) < 6 or not (quoted or digit or _SYMBOL.search(value)):
        return False
    if not quoted and (_CODE.search(value) or (digit and not value.isdigit() and not _LETTER.search(value))):
        return False
    return not (is_name_of_secret(value) and not (quoted and digit)) and _could_be_real(value)


def is_phrase(value: str) -> bool:
    """Several words and yet no sentence: a password with a space in it."""
    words = value[:ENOUGH].split()
    return len(words) <= 5 and any(_UNLIKE_A_WORD.search(word) for word in words) and _could_be_real(value)


def is_key(value: str) -> bool:
    """A machine issued it."""
    return not _UUID.match(value) and is_key_or_uuid(value)


def is_key_or_uuid(value: str) -> bool:
    value = value[:ENOUGH]
    return len(value) >= 8 and _is_mixed(value, 6) and not _CODE.search(value) and _could_be_real(value)


def is_environment_value(value: str) -> bool:
    """The right side of ``NAME=``: whatever it is, it is meant."""
    value = value[:ENOUGH]
    return len(value) >= 6 and not value.isdigit() and not _CODE.search(value) and _could_be_real(value)


def is_name_of_secret(value: str) -> bool:
    return bool(_IDENTIFIER.match(value) and _SECRETISH.search(value))


def _could_be_real(value: str) -> bool:
    if _NOTHING.match(value) or is_made_up(value):
        return False
    return not _ADDRESS.search(value) and not _INTEGRITY.match(value)


def _is_mixed(value: str, length: int) -> bool:
    """Whether a part of it mixes digits and letters, unlike ``release-candidate-2024``."""
    if not _DIGIT.search(value):
        return False
    return any(
        len(part) >= length and _DIGIT.search(part) and _LETTER.search(part) for part in _PARTS.split(value)
    )
