"""What a model's rules are beside those that there are: repeated, refused before, told elsewhere, or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from recollect.engine.language import terms_of
from recollect.rules.asking import Checked
from recollect.rules.candidates import Net
from recollect.rules.learning.clauses import plain_of
from recollect.rules.learning.clustering import Cluster, Statement
from recollect.rules.learning.forbidding import forbids, ruled_out
from recollect.rules.learning.known import REJECTED, Known, Told
from recollect.rules.learning.models import Evidence, Proposal
from recollect.rules.learning.pipeline import kind_of, scope_of
from recollect.rules.learning.repetition import Memory
from recollect.rules.material import Material
from recollect.rules.models import Finding, KnownRule

# More alike than what people say has to be: a model words the same rule in nearly the same way.
SAME_RULE = 0.5


@dataclass(slots=True)
class _Group:
    """Rules that are one: that of the tenant which they repeat, if it is one, and those of the model."""

    text: str
    existing: UUID | None = None
    rules: list[Checked] = field(default_factory=list)


def settle(rules: Sequence[Checked], material: Material, net: Net, made_by: str) -> list[Finding]:
    """One finding for each rule that is new or has new evidence, the surest first."""
    told = Told(material.asked.texts_of, net.rarity)
    refused = Known(material.refused, net.rarity, share=REJECTED)
    memory: Memory[_Group] = Memory(net.rarity)
    groups: list[_Group] = []
    existing = {rule_id: _Group(text, rule_id) for text, rule_id in material.existing.items()}
    for each in existing.values():
        memory.keep(_terms(each.text), each)
    for rule in sorted(rules, key=lambda each: -each.confidence):
        if not material.is_wanted(rule.category):
            continue
        same = _of_the_same_words(rule, material)
        group = _nearest(memory, rule) or (existing.get(same.id) if same else None)
        if group is None:
            projects = {statement.chat.project for statement, _ in rule.quotes}
            if same or told.says(rule.rule_text, projects) or refused.says(rule.rule_text):
                continue
            group = _Group(rule.rule_text)
            memory.keep(_terms(rule.rule_text), group)
        if not group.rules:
            groups.append(group)
        group.rules.append(rule)
    return [_finding(group, made_by) for group in groups]


def _of_the_same_words(rule: Checked, material: Material) -> KnownRule | None:
    """A rule that was drawn from the very words of this one: it is the same, however a model puts it."""
    said = [
        (str(material.turn_ids[statement.chat.source, statement.turn.number]), quote)
        for statement, quote in rule.quotes
    ]
    found = (each for each in material.known if all(each.rests_on(*words) for words in said))
    return next((each for each in found if each.id not in rule.contradicts), None)


def _nearest(memory: Memory[_Group], rule: Checked) -> _Group | None:
    alike = (
        each
        for each in memory.same(_terms(rule.rule_text), SAME_RULE)
        if forbids(each[1].text) == forbids(rule.rule_text) and each[1].existing not in rule.contradicts
    )
    return max(alike, key=lambda each: each[0], default=(0.0, None))[1]


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms_of(plain_of(text))) - ruled_out(text)


def _finding(group: _Group, made_by: str) -> Finding:
    surest = group.rules[0]
    quotes = {(_evidence(*quote)): quote[0] for rule in group.rules for quote in rule.quotes}
    cluster = Cluster(statements=list(quotes.values()))
    proposal = Proposal(
        rule_text=group.text,
        category=surest.category,
        confidence=round(surest.confidence, 3),
        scope=scope_of(cluster, surest.category),
        kind=kind_of(cluster),
        evidence=tuple(quotes),
    )
    contradicts = dict.fromkeys(
        each for rule in group.rules for each in rule.contradicts if each != group.existing
    )
    return Finding(proposal, made_by, repeats=group.existing, contradicts=tuple(contradicts))


def _evidence(statement: Statement, quote: str) -> Evidence:
    chat = statement.chat
    return Evidence(quote, chat.source, chat.session, statement.turn.number, chat.author)
