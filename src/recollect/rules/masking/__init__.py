"""Secrets in a text give way to ``[secret: <kind>]`` before the text is stored or sent to a model.

One combined pattern runs over the whole text, on RE2: in one pass, in time linear in its length. It finds
where a secret may begin. Only there do the exact patterns look, and the judgement whether a value is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import re2

from recollect.rules.masking import assignments, detectors, tokens
from recollect.rules.masking.finding import Finding, Skip

_MASK = b"[secret: "
_MASKED = rb"\[secret: [A-Za-z0-9 ]{2,40}\]"


class Masked(NamedTuple):
    text: str
    # One for each secret, in the order of the text.
    kinds: tuple[str, ...]


def mask(text: str) -> Masked:
    # Half of a surrogate pair cannot be stored, but it is not for this function to refuse it.
    data = text.encode("utf-8", "surrogatepass")
    pieces: list[bytes] = []
    kinds: list[str] = []
    kept = 0
    for found in _findings(data):
        pieces += data[kept : found.start], b"[secret: %s]" % found.kind.encode()
        kinds.append(found.kind)
        kept = found.end
    if not kinds:
        return Masked(text, ())
    pieces.append(data[kept:])
    return Masked(b"".join(pieces).decode("utf-8", "surrogatepass"), tuple(kinds))


def _combined(triggers: tuple[bytes, ...]) -> re2._Regexp[bytes]:
    options = re2.Options()
    # With less the automaton is thrown away and built anew all the time.
    options.max_mem = 64 << 20
    options.log_errors = False
    options.never_capture = True
    return re2.compile(b"|".join(triggers), options)


_LONGEST_TRIGGER = 200
_TOKENS = _combined((_MASKED, *tokens.TRIGGERS, *detectors.TRIGGERS))
_ANYTHING = _combined((_MASKED, *tokens.TRIGGERS, *detectors.TRIGGERS, *assignments.TRIGGERS))


def _findings(data: bytes) -> Iterator[Finding]:
    position = 0
    while hit := _ANYTHING.search(data, position):
        start = hit.start()
        # Where nothing comes of a hit, another may begin inside it.
        position = start + 1
        if outcome := _token_at(data, start):
            position = outcome.end
            if isinstance(outcome, Finding):
                yield outcome
        elif assigned := assignments.at(data, start):
            # A known form inside a value says more than the name before it, and is found next.
            token = _first_token(data, assigned.start, assigned.end)
            if token is not None:
                assigned = assignments.at(data, start, before=token)
            if assigned:
                yield assigned
                position = assigned.end


def _first_token(data: bytes, start: int, end: int) -> int | None:
    """Where a secret of a known form begins in there; it may end after it, as a key in PEM does."""
    end = min(end, start + assignments.LONGEST_READ)
    while (hit := _TOKENS.search(data, start, end + _LONGEST_TRIGGER)) and hit.start() < end:
        outcome = _token_at(data, hit.start())
        if isinstance(outcome, Finding):
            return int(hit.start())
        start = outcome.end if outcome else hit.start() + 1
    return None


def _token_at(data: bytes, start: int) -> Finding | Skip | None:
    if data.startswith(_MASK, start):
        return Skip(data.index(b"]", start) + 1)
    if data.startswith(b"\\", start):
        start += 2
    return tokens.at(data, start) or detectors.at(data, start)
