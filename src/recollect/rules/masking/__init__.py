"""Secrets in a text give way to ``[secret: <kind>]`` before the text is stored or sent to a model.

One combined pattern runs over the whole text, on RE2: in one pass, in time linear in its length. It finds
where a secret may begin. Only there do the exact patterns look, and the judgement whether a value is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import re2

from recollect.rules.masking import assignments, detectors, tokens
from recollect.rules.masking.finding import ESCAPE, MASK, Finding, Skip, Text

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
    reading = Text(data)
    for found in _findings(reading):
        pieces += data[kept : found.start], reading.mask(found)
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


def _findings(text: Text) -> Iterator[Finding]:
    """One after another: the next is looked for when the last one is masked."""
    position = 0
    while hit := _ANYTHING.search(text.data, position):
        start = hit.start()
        # Where nothing comes of a hit, another may begin inside it.
        position = start + 1
        if outcome := _token_at(text, start):
            position = outcome.end
            if isinstance(outcome, Finding):
                # The lines of a key in PEM may come before the hit, and earlier findings among them.
                yield outcome._replace(start=max(outcome.start, text.done))
        elif assigned := assignments.at(text, start):
            for found in _assigned(text, start, assigned):
                yield found
                position = found.end


def _assigned(text: Text, start: int, assigned: Finding) -> Iterator[Finding]:
    """A known form that begins inside a value says more than the name before it."""
    token = _first_token(text, assigned.start, assigned.end)
    if not token:
        yield assigned
    elif token.found.start >= assigned.end:
        # The value is only what announces it: a header, a command.
        yield assigned
        yield token.found
    elif shorter := assignments.at(text, start, before=min(token.start, token.found.start)):
        # The token itself is found next.
        yield shorter


class _Token(NamedTuple):
    start: int
    found: Finding


def _first_token(text: Text, start: int, end: int) -> _Token | None:
    """A secret of a known form that begins in there; it may end after it, as a key in PEM does."""
    end = min(end, start + assignments.LONGEST_READ)
    while (hit := _TOKENS.search(text.data, start, end + _LONGEST_TRIGGER)) and hit.start() < end:
        outcome = _token_at(text, hit.start())
        if isinstance(outcome, Finding):
            return _Token(hit.start(), outcome)
        start = outcome.end if outcome else hit.start() + 1
    return None


def _token_at(text: Text, start: int) -> Finding | Skip | None:
    if text.data.startswith(MASK, start):
        return Skip(text.data.index(b"]", start) + 1)
    outcome = tokens.at(text, start) or detectors.at(text.data, start)
    if not outcome and (escape := ESCAPE.match(text.data, start)):
        outcome = tokens.at(text, escape.end()) or detectors.at(text.data, escape.end())
    return outcome
