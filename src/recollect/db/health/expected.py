"""Which tables are ours and which policies they should have, according to the migrations.

Not according to the database: a table that lost its policies must still be known as ours, and the
tables of somebody else's project, which lie beside ours on Supabase, must not be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from recollect.db.migrate import Migration

_STATEMENT = re.compile(
    r"""
      create\ table\s+(?P<shared>if\ not\ exists\s+)?(?P<created>TABLE)
    | drop\ table\s+(?:if\ exists\s+)?(?P<dropped>TABLE)
    | create\ policy\s+"(?P<policy>[^"]+)"\s+on\s+(?P<policy_on>TABLE)
    | drop\ policy\s+(?:if\ exists\s+)?"(?P<lost>[^"]+)"\s+on\s+(?P<lost_on>TABLE)
    | call\s+private\.(?P<shape>\w+)\(\s*'(?P<shaped>TABLE)'
    """.replace("TABLE", r"(?:public|private|jobs|events|mail|mem0)\.\w+"),
    re.VERBOSE | re.IGNORECASE,
)
# What the procedures of the migration "row_security" make.
_OF_SERVICE = {"the service does everything"}
_OF_SHAPES = _OF_SERVICE | {f"who may {verb}" for verb in ("select", "insert", "update", "delete")}


@dataclass
class Expected:
    policies: dict[str, set[str]] = field(default_factory=dict)
    """By table."""
    shared: set[str] = field(default_factory=set)
    """Tables that a project may have had before us, with policies of its own."""


def expected(migrations: Iterable[Migration]) -> Expected:
    found = Expected()
    for migration in migrations:
        for statement in _STATEMENT.finditer(migration.sql):
            _follow(statement, found)
    return found


def _follow(statement: re.Match[str], found: Expected) -> None:
    if table := statement["created"]:
        found.policies.setdefault(table, set())
        if statement["shared"]:
            found.shared.add(table)
    elif table := statement["dropped"]:
        found.policies.pop(table, None)
    elif table := statement["policy_on"]:
        found.policies.setdefault(table, set()).add(statement["policy"])
    elif table := statement["lost_on"]:
        found.policies.setdefault(table, set()).discard(statement["lost"])
    elif table := statement["shaped"]:
        is_closed = statement["shape"] == "close_to_all_but_service"
        found.policies.setdefault(table, set()).update(_OF_SERVICE if is_closed else _OF_SHAPES)
