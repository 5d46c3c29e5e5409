"""JSON pointers (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.errors import InvalidInput
from recollect.kit.text import MAX_DEPTH
from recollect.profile.canonical import MAX_BYTES

# The keys on the way to a place, and the indices, as they are written.
Tokens = tuple[str, ...]

_NO_ESCAPE = re.compile(r"~(?![01])")
# No list here has as many elements as a number of ten digits says.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class InvalidPatch(InvalidInput):
    """The patch is not a JSON patch (RFC 6902) that this server takes."""

    code = "invalid_patch"


def parse(pointer: str) -> Tokens:
    if pointer and not pointer.startswith("/"):
        raise InvalidPatch(f'A JSON pointer is empty or starts with "/", unlike {shortened(pointer)}.')
    # No pointer into a document is longer, even if all of its keys consist of escapes.
    if len(pointer) > 2 * MAX_BYTES:
        raise InvalidPatch("A JSON pointer is longer than any document.")
    if pointer.count("/") > MAX_DEPTH:
        raise InvalidPatch(f"A JSON pointer leads more than {MAX_DEPTH} levels deep.")
    tokens = pointer.split("/")[1:]
    if "~" in pointer:
        if _NO_ESCAPE.search(pointer):
            raise InvalidPatch(f'In a JSON pointer "~" is written "~0", unlike in {shortened(pointer)}.')
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    return tuple(tokens)


def written(tokens: Iterable[str]) -> str:
    return "".join("/" + escaped(token) for token in tokens)


def escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def as_index(token: str) -> int | None:
    return int(token) if _INDEX.fullmatch(token) else None


def shortened(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
