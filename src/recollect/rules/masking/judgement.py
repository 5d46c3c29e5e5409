"""Whether a value is a secret or only stands where one would: a placeholder, a name, a piece of code."""

from __future__ import annotations

import re

from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString

# The words are whole words of the value: in a random string they turn up by chance.
_PLACEHOLDER = re.compile(
    r"""(?ix) (?:^|[\W_])
          (?: your | my | example | sample | dummy | fake | placeholder | redacted | removed | hidden | insert
            | replace | change[-_]?me | changeit | todo | tbd | here | value | tu | dein | ihr ) (?:$|[\W_])
        | x{4} | \*\*\* | \.\.\. | … | •• | EXAMPLE | \[secret | 0{8} | 12345678[9a] | abcdef[0g]
        | ^[<{\[] | ^\$[a-z_{(] | ^%\(?\w*\)?[s%]?$ | \{[\w.]*\} """
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
_HEXADECIMAL = re.compile(r"^[0-9a-fA-F]+$")
_PARTS = re.compile(r"[-_./:]")
_FEW_CHARACTERS = 4

_hexadecimal, _base64 = HexHighEntropyString(), Base64HighEntropyString()


def is_made_up(value: str) -> bool:
    """A placeholder, or a few characters repeated."""
    return len(set(value)) <= _FEW_CHARACTERS or is_placeholder(value)


def is_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER.search(value))


def is_random(value: str) -> bool:
    """No person chose it, and it does not only identify something."""
    if len(value) < 16 or _UUID.match(value) or _INTEGRITY.match(value):
        return False
    if _HEXADECIMAL.match(value):
        return _hexadecimal.calculate_shannon_entropy(value) > _hexadecimal.entropy_limit
    return _base64.calculate_shannon_entropy(value) > 3.5 and _is_mixed(value, 8)


def is_password(value: str, *, quoted: bool) -> bool:
    """A person chose it, and code would not mean a variable by it."""
    if len(value) < 6 or not _could_be_real(value) or (_CODE.search(value) and not quoted):
        return False
    if _IDENTIFIER.match(value) and _SECRETISH.search(value) and not (quoted and _DIGIT.search(value)):
        return False
    if _DIGIT.search(value):
        return quoted or _LETTER.search(value) is not None or value.isdigit()
    return quoted or _SYMBOL.search(value) is not None


def is_key(value: str) -> bool:
    """A machine issued it."""
    if len(value) < 8 or _CODE.search(value) or _UUID.match(value):
        return False
    return _could_be_real(value) and _is_mixed(value, 6)


def is_environment_value(value: str) -> bool:
    """The right side of ``NAME=``: whatever it is, it is meant."""
    return len(value) >= 6 and _could_be_real(value) and not _CODE.search(value) and not value.isdigit()


def _could_be_real(value: str) -> bool:
    if _NOTHING.match(value) or is_made_up(value):
        return False
    return not _ADDRESS.search(value) and not _INTEGRITY.match(value)


def _is_mixed(value: str, length: int) -> bool:
    """Whether a part of it mixes digits and letters, unlike ``release-candidate-2024``."""
    return any(
        len(part) >= length and _DIGIT.search(part) and _LETTER.search(part) for part in _PARTS.split(value)
    )
