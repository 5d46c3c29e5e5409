"""Conditional requests (RFC 9110, section 13) on what has numbered versions: its entity tag is its version.

Dates are not looked at: two versions can be of the same second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Header, Request

from recollect.errors import InvalidInput
from recollect.kit.text import of_form

_TAG = r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"'
_LIST = rf"(\*|[ \t,]*({_TAG}([ \t]*,[ \t,]*|[ \t]*$))+)"
_MEANING = 'the version in quotes, such as "7"; several with commas between them; or *'
_EntityTags = Annotated[str, *of_form(rf"^{_LIST}$", _MEANING)]


def tag(version: int) -> str:
    return f'"{version}"'


@dataclass(frozen=True)
class Tags:
    """What one header lists."""

    strong: frozenset[str]
    weak: frozenset[str]
    any_version: bool

    @classmethod
    def in_header(cls, request: Request, name: str) -> Self | None:
        lines = request.headers.getlist(name)
        if not lines:
            return None
        text = ", ".join(lines)
        if not re.fullmatch(_LIST, text):
            raise InvalidInput(f"{name}: {_MEANING}.")
        found = re.findall(_TAG, text)
        return cls(
            strong=frozenset(opaque for weak, opaque in found if not weak),
            weak=frozenset(opaque for weak, opaque in found if weak),
            any_version=text == "*",
        )


@dataclass(frozen=True)
class Conditions:
    """Of which version a request is meant."""

    match: Tags | None
    none_match: Tags | None

    def allow(self, version: int) -> bool:
        """Whether a write may be done; also that the version is not one of those it must not be."""
        return self.is_matched_by(version) and not self.is_known(version)

    def is_matched_by(self, version: int) -> bool:
        """If-Match, which compares strongly."""
        return self.match is None or self.match.any_version or str(version) in self.match.strong

    def is_known(self, version: int) -> bool:
        """If-None-Match, which compares weakly: whoever asks has this version."""
        known = self.none_match
        return known is not None and (known.any_version or str(version) in known.strong | known.weak)


async def _conditions(
    request: Request,
    if_match: Annotated[
        _EntityTags | None, Header(alias="If-Match", description=f"Only at this version: {_MEANING}.")
    ] = None,
    if_none_match: Annotated[
        _EntityTags | None, Header(alias="If-None-Match", description=f"Not at this version: {_MEANING}.")
    ] = None,
) -> Conditions:
    del if_match, if_none_match  # for the description; headers may come in several lines
    return Conditions(Tags.in_header(request, "If-Match"), Tags.in_header(request, "If-None-Match"))


Conditional = Annotated[Conditions, Depends(_conditions)]
