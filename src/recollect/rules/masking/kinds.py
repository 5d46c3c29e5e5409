"""One kind of secret that is known by its own form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from recollect.rules.masking.finding import BORDER, WORD_START
from recollect.rules.masking.judgement import is_made_up


class Kind(NamedTuple):
    """``trigger`` is what the combined pattern looks for, ``beginning`` the same without what comes before.

    ``exact`` is the whole of it; a group ``secret`` in it is what is masked. All are bounded wherever they
    can still fail, so that no text makes them slow. ``after`` is searched in what comes before.
    """

    name: str
    trigger: bytes
    beginning: bytes
    exact: re.Pattern[bytes]
    after: re.Pattern[bytes] | None
    made_up: Callable[[str], bool]


def kind(
    name: str,
    start: str,
    rest: str,
    *,
    first: str = "",
    border: bool = False,
    after: str = "",
    made_up: Callable[[str], bool] = is_made_up,
) -> Kind:
    """``rest`` follows ``start``; ``first`` is as much of it as makes the combined pattern seldom wrong.

    ``border`` is for what a longer word could contain; the combined pattern is faster with it, too.
    """
    beginning = f"(?:{start}){first}".encode()
    return Kind(
        name,
        (WORD_START if border else b"") + beginning,
        beginning,
        re.compile((BORDER if border else b"") + f"(?:{start}){rest}".encode()),
        re.compile(after.encode()) if after else None,
        made_up,
    )


def has_no_digit(secret: str) -> bool:
    return is_made_up(secret) or not any(character.isdigit() for character in secret)
