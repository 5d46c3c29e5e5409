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

    def prepare_as(self, name: str) -> str:
        numbered = self.text
        for number, parameter in enumerate(self._parameters, 1):
            numbered = numbered.replace(f"%({parameter})s", f"${number}")
        return f"prepare {name} as {numbered}"

    def execute_as(self, name: str) -> str:
        arguments = ", ".join(f"%({parameter})s" for parameter in self._parameters)
        return f"execute {name}({arguments})" if arguments else f"execute {name}"

    @cached_property
    def _parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(re.findall(r"%\((\w+)\)s", self.text)))


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
