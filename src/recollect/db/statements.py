"""Cut a migration into its statements, at the places where the Supabase CLI cuts it.

Both tools record the statements they ran, and each compares a file with what was recorded: hence
the same cuts, the CLI's simplifications (marked below) included. None of them matters to the SQL in
``supabase/migrations``, and ``tests/db/test_supabase_cli.py`` compares the records of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\r\n]* )
    | (?P<block> /\* )
    | [eE]'(?: [^'\\] | \\. | '' )*(?: ' | \Z )
    | '[^']*(?: ' | \Z )
    | "[^"]*(?: " | \Z )
    | (?P<dollar> \$\w*\$ )
    | (?P<atomic> begin\s+atomic\b )
    | (?P<word> \w[\w$]* )
    | (?P<mark> [;()] )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Statement:
    text: str
    line: int
    """Where the text begins, comments included."""
    code_line: int
    """Where the first word that is not a comment stands."""
    command: str
    """That word in lower case: "create", "grant", ..."""


def split(sql: str) -> list[Statement]:
    start = 0
    code: re.Match[str] | None = None
    depth = 0  # of "begin atomic" and the "case" inside it: both close with "end"
    in_parentheses = False  # the CLI does not count them: the first ")" closes
    found: list[Statement | None] = []
    for token in _tokens(sql):
        word = token.group().lower()
        if word == ";" and not depth and not in_parentheses:
            found.append(_statement(sql, start, token.start(), code))
            start, code = token.end(), None
            continue
        code = code or token
        if word in {"(", ")"}:
            in_parentheses = word == "("
        elif token["atomic"] or (depth and word == "case"):
            depth += 1
        elif depth and word == "end":
            depth -= 1
    found.append(_statement(sql, start, len(sql), code))
    return [statement for statement in found if statement]


def texts(sql: str) -> list[str]:
    return [statement.text for statement in split(sql)]


def _tokens(sql: str) -> Iterator[re.Match[str]]:
    """Everything that can begin, end or hide the end of a statement; comments are left out."""
    at = 0
    while token := _TOKEN.search(sql, at):
        at = token.end()
        if token["dollar"]:
            closing = sql.find(token["dollar"], at)
            at = len(sql) if closing < 0 else closing + len(token["dollar"])
        elif token["block"]:
            at = _end_of_block(sql, at)
        if not (token["comment"] or token["block"]):
            yield token


def _end_of_block(sql: str, at: int) -> int:
    depth = 1
    while edge := _BLOCK_EDGE.search(sql, at):
        at = edge.end()
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return at
    return len(sql)


def _statement(sql: str, start: int, end: int, code: re.Match[str] | None) -> Statement | None:
    text = sql[start:end].strip()
    if not text:
        return None
    line = 1 + sql.count("\n", 0, sql.index(text, start))
    return Statement(
        text=text,
        line=line,
        code_line=1 + sql.count("\n", 0, code.start()) if code else line,
        command=code.group().lower() if code else "",
    )
