"""Secrets known by their own form: tokens of vendors, keys in PEM, addresses with a password, cards."""

from __future__ import annotations

import re

from recollect.rules.masking import addresses, forms, pem, vendors
from recollect.rules.masking.finding import Finding, Skip, Text, finding

KINDS = (*vendors.KINDS, *forms.KINDS)
TRIGGERS = (*(kind.trigger for kind in KINDS), *pem.TRIGGERS, *addresses.TRIGGERS)
_BEGINNING = re.compile(b"|".join(b"(?P<kind%d>%s)" % (n, kind.beginning) for n, kind in enumerate(KINDS)))


def at(text: Text, start: int) -> Finding | Skip | None:
    """The secret that begins here, if one does."""
    data = text.data
    if data.startswith(b"-----", start):
        return pem.at(data, start)
    if data.startswith(b"://", start):
        return addresses.at(data, start)
    begun = _BEGINNING.match(data, start)
    if not begun or not begun.lastgroup:
        return None
    kind = KINDS[int(begun.lastgroup.removeprefix("kind"))]
    # First, because it is bounded: the whole of a kind may be as long as the text.
    if kind.after and not kind.after.search(text.before(start)):
        return None
    if not (match := kind.exact.match(data, start)):
        return None
    begin, end = match.span("secret" if "secret" in kind.exact.groupindex else 0)
    # Hyphens belong to many tokens, but these begin the next secret.
    if (dashes := data.find(b"-----BEGIN", begin, end)) >= 0:
        end = dashes
    return (
        Skip(end)
        if kind.made_up(data[begin:end].decode("utf-8", "replace"))
        else finding(data, begin, end, kind.name)
    )
