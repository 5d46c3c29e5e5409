"""SQL lives in files. Each statement has a name, a line of purpose, and its text:

-- put_entry
-- Insert or replace one entry and return it.
insert into ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import LiteralString

_HEADING = re.compile(r"^-- (?P<name>[a-z_]+)\n-- (?P<purpose>.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Query:
    name: str
    purpose: str
    # It comes from a file of ours, which is as trusted as a literal in the code.
    text: LiteralString

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(re.findall(r"%\((\w+)\)s", self.text)))

    @cached_property
    def numbered(self) -> bytes:
        """The text as Postgres itself takes it, with $1 for the first parameter."""
        numbers = {name: number for number, name in enumerate(self.parameters, 1)}
        text = re.sub(r"%\((\w+)\)s", lambda found: f"${numbers[found[1]]}", self.text)
        return text.replace("%%", "%").encode()


class Queries:
    """The statements of one ``queries.sql``, as attributes."""

    def __init__(self, package: str) -> None:
        source = resources.files(package).joinpath("queries.sql").read_text()
        self._queries = {query.name: query for query in _parse(source)}

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"there is no query named {name}") from None

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())


def _parse(source: str) -> Iterator[Query]:
    headings = list(_HEADING.finditer(source))
    ends = [heading.start() for heading in headings[1:]] + [len(source)]
    for heading, end in zip(headings, ends, strict=True):
        yield Query(heading["name"], heading["purpose"], source[heading.end() : end].strip())
