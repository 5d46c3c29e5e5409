"""What was said in several places, in nearly the same words, is one rule; so is a chore in whatever words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recollect.engine.language import terms_of
from recollect.rules.chats.models import Chat, Turn
from recollect.rules.learning.chores import chores_in
from recollect.rules.learning.clauses import plain_of
from recollect.rules.learning.features import Heard
from recollect.rules.learning.forbidding import forbids, ruled_out
from recollect.rules.learning.listening import Scored
from recollect.rules.learning.repetition import ALIKE, Memory, Rarity

# A rule of more words says more of a chore than that it is to be done.
_WORDS_OF_A_CHORE = 4


Words = tuple[str, int, str]
"""Something said: the source of its chat, the number of its turn, and the words."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause that is likely to state a rule, and where it was said."""

    chat: Chat
    turn: Turn
    scored: Scored

    @property
    def quote(self) -> str:
        clause = self.scored.heard.clause
        return self.turn.text[clause.start : clause.end]

    @property
    def words(self) -> Words:
        return self.chat.source, self.turn.number, self.quote


@dataclass(slots=True)
class Cluster:
    existing: str | None = None
    """The rule that these statements repeat, if there is one already."""
    forbids: bool = False
    statements: list[Statement] = field(default_factory=list)

    @property
    def projects(self) -> set[str | None]:
        return {each.chat.project for each in self.statements}


def clustered(
    statements: Iterable[Statement], existing: Iterable[str], drawn: Mapping[Words, str], rarity: Rarity
) -> list[Cluster]:
    """Each statement with the existing rule that was ``drawn`` from these very words, or with what it is most
    like; the existing rules come first."""
    memory: Memory[Cluster] = Memory(rarity)
    clusters: list[Cluster] = []
    of_rules = {rule: Cluster(existing=rule, forbids=forbids(rule)) for rule in existing}
    for rule, cluster in of_rules.items():
        plain = plain_of(rule)
        terms = frozenset(terms_of(plain)) - ruled_out(rule)
        memory.keep(terms, cluster)
        if len(terms) <= _WORDS_OF_A_CHORE:
            memory.keep(_named(chores_in(plain)), cluster)
    for statement in statements:
        subjects = _subjects(statement.scored.heard)
        forbidding = forbids(statement.scored.heard.clause.text)
        found = (_nearest(memory, subject, forbidding=forbidding) for subject in subjects)
        cluster = (
            of_rules.get(drawn.get(statement.words, ""))
            or next((each for each in found if each), None)
            or Cluster(forbids=forbidding)
        )
        if not cluster.statements:
            clusters.append(cluster)
        cluster.statements.append(statement)
        for subject in subjects:
            memory.keep(subject, cluster)
    return clusters


def _subjects(heard: Heard) -> list[frozenset[str]]:
    """What it is known by: its words; a chore, if it is nothing more, by its name as well."""
    wanted = heard.terms - ruled_out(heard.clause.text)
    return [wanted, _named(heard.chores)] if heard.is_chore else [wanted]


def _named(chores: frozenset[str]) -> frozenset[str]:
    # As no word is spelt.
    return frozenset(f"#{chore}" for chore in chores)


def _nearest(memory: Memory[Cluster], subject: frozenset[str], *, forbidding: bool) -> Cluster | None:
    # Who forbids what others ask for talks of the same and wants the opposite.
    alike = (each for each in memory.same(subject, ALIKE) if each[1].forbids == forbidding)
    nearest = max(alike, key=lambda each: each[0], default=None)
    return nearest[1] if nearest else None
