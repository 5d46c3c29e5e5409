"""What was said in several places, in nearly the same words, is one rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from recollect.engine.language import terms_of
from recollect.rules.chats.models import Chat, Turn
from recollect.rules.learning.clauses import plain_of
from recollect.rules.learning.known import forbids
from recollect.rules.learning.listening import Scored
from recollect.rules.learning.repetition import ALIKE, Memory, Rarity


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause that is likely to state a rule, and where it was said."""

    chat: Chat
    turn: Turn
    scored: Scored


@dataclass(slots=True)
class Cluster:
    existing: str | None = None
    """The rule that these statements repeat, if there is one already."""
    statements: list[Statement] = field(default_factory=list)


def clustered(statements: Iterable[Statement], existing: Iterable[str], rarity: Rarity) -> list[Cluster]:
    """Each statement with those it is most like; the existing rules come first."""
    memory: Memory[Cluster] = Memory(rarity)
    clusters: list[Cluster] = []
    for rule in existing:
        memory.keep(frozenset(terms_of(plain_of(rule))), Cluster(existing=rule))
    for statement in statements:
        terms = statement.scored.heard.terms
        alike = (each for each in memory.alike(terms, ALIKE) if _agree(each[1].existing, statement))
        nearest = max(alike, key=lambda each: each[0], default=None)
        cluster = nearest[1] if nearest else Cluster()
        if not cluster.statements:
            clusters.append(cluster)
        cluster.statements.append(statement)
        memory.keep(terms, cluster)
    return clusters


def _agree(existing: str | None, statement: Statement) -> bool:
    """Whether it does not forbid what the existing rule asks for, or the other way round."""
    return existing is None or forbids(existing) == forbids(statement.scored.heard.clause.text)
