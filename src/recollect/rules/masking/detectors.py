"""The kinds that detect-secrets knows and :mod:`tokens` does not.

Its plugins are asked one by one, and only for their patterns: its scanner reads settings of the whole
process, opens files and asks the issuer over the network whether a key works.
"""

from __future__ import annotations

import re

from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector

from recollect.rules.masking.finding import WORD_START, Finding, finding
from recollect.rules.masking.judgement import is_made_up

# Its own patterns are slow, and the shortest value that any of them knows has 24 characters.
_VALUE = rb"[\"']?[:=\]][\]\"':=> ]{0,12}[\w-]{24}"
_HINTS = (
    rb"(?i:(?:ibm|cloud[_-]?iam|cos|cloudant|softlayer)[a-z_-]{0,30})" + _VALUE,
    rb"(?i:https?://api\.softlayer\.com/soap/v3)",
    rb"sq0csp-",
    rb"[0-9a-z]{32}-us[0-9]",
)
_KINDS: tuple[tuple[str, RegexBasedDetector], ...] = (
    ("Cloudant", CloudantDetector()),
    ("IBM Cloud", IbmCloudIamDetector()),
    ("IBM storage", IbmCosHmacDetector()),
    ("Mailchimp", MailchimpDetector()),
    ("SoftLayer", SoftlayerDetector()),
    ("Square", SquareOAuthDetector()),
)
TRIGGERS = tuple(WORD_START + hint for hint in _HINTS)
_HINT = re.compile(b"|".join(_HINTS))
# Some of its patterns take time that grows with the square of a line.
_WINDOW = 160


def at(data: bytes, start: int) -> Finding | None:
    if not _HINT.match(data, start):
        return None
    # Latin-1 has one character for each byte, so that places in the window are places in the data.
    window = data[start : start + _WINDOW].split(b"\n", 1)[0].decode("latin-1")
    for kind, plugin in _KINDS:
        for pattern in plugin.denylist:
            if match := pattern.match(window):
                group = match.lastindex or 0
                if not is_made_up(match[group]):
                    return finding(data, start + match.start(group), start + match.end(group), kind)
    return None
