"""Secrets known by their own form: tokens of vendors, keys in PEM, addresses with a password, cards."""

from __future__ import annotations

import re

from recollect.rules.masking import addresses, forms, pem, vendors
from recollect.rules.masking.finding import MASK, Finding, Skip, Text, finding
from recollect.rules.masking.kinds import Kind

KINDS = (*vendors.KINDS, *forms.KINDS)
TRIGGERS = (*(kind.trigger for kind in KINDS), *pem.TRIGGERS, *addresses.TRIGGERS)
# Without groups it says no much faster, and no is the answer wherever a name announces a secret.
_ANY_BEGINNING = re.compile(b"|".join(kind.beginning for kind in KINDS))
_BEGINNING = re.compile(b"|".join(b"(?P<kind%d>%s)" % (n, kind.beginning) for n, kind in enumerate(KINDS)))


def at(text: Text, start: int) -> Finding | Skip | None:
    """The secret that begins here, if one does."""
    if text.data.startswith(b"-----", start):
        return pem.at(text.data, start)
    if text.data.startswith(b"://", start):
        return addresses.at(text.data, start)
    if not _ANY_BEGINNING.match(text.data, start):
        return None
    begun = _BEGINNING.match(text.data, start)
    return (
        _whole(text, start, KINDS[int(begun.lastgroup.removeprefix("kind"))])
        if begun and begun.lastgroup
        else None
    )


def _whole(text: Text, start: int, kind: Kind) -> Finding | Skip | None:
    data = text.data
    # First, because it is bounded: the whole of a kind may be as long as the text.
    if kind.after and not kind.after.search(text.before(start)):
        return None
    if not (match := kind.exact.match(data, start)):
        return None
    begin, end = match.span("secret" if "secret" in kind.exact.groupindex else 0)
    # A mask is looked at as a whole, or its last word would announce what follows it.
    if (mask := data.find(MASK, begin, end + len(MASK))) >= 0:
        return Skip(mask)
    # Hyphens belong to many tokens, but these begin the next secret.
    if (dashes := data.find(b"-----BEGIN", begin, end)) >= 0:
        end = dashes
    return (
        Skip(end)
        if kind.made_up(data[begin:end].decode("utf-8", "replace"))
        else finding(data, begin, end, kind.name)
    )
