"""From chats to proposals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from recollect.engine.language import uncommon, words_of
from recollect.rules.chats.models import Chat
from recollect.rules.learning.clustering import Cluster, Statement, Words, clustered
from recollect.rules.learning.features import Heard
from recollect.rules.learning.known import REJECTED, Known, TextsOf, Told, no_texts
from recollect.rules.learning.listening import Listener, speaker_of
from recollect.rules.learning.models import Evidence, Kind, Proposal, Scope
from recollect.rules.learning.scoring import chance, fitted
from recollect.rules.learning.wording import category_of, is_plain, rule_text

# What another session and another author add to the log-odds of what was said once.
_PER_SESSION = 0.5
_PER_AUTHOR = 0.7
# Nobody reads more quotes than this; the first and the latest tell how long it has been asked for.
_MOST_QUOTES = 100
_SAID_AS_RULE = frozenset({"lasting", "duty", "custom", "note"})
# Of so many clauses the surest speaks for them; of more, the most usual one.
_A_FEW = 2
_REPEATS = frozenset({"again", "chore_again"})


def propose(
    chats: Iterable[Chat],
    *,
    texts_of: TextsOf = no_texts,
    rejected: Sequence[str] = (),
    existing: Sequence[str] = (),
    drawn: Mapping[Words, str] | None = None,
) -> list[Proposal]:
    """The rules that chats ask for, the surest first.

    ``texts_of`` tells the rule files and configurations of a chat's project, whose rules are left out;
    ``rejected`` are rules that somebody said no to. What repeats one of ``existing`` names it instead of
    being another proposal. ``drawn`` tells of words from which one of either was drawn.
    """
    listener = Listener()
    in_order = sorted(chats, key=lambda chat: chat.started_at.timestamp() if chat.started_at else 0.0)
    drawn, refused_rules = drawn or {}, frozenset(rejected)
    statements = (
        each for each in _statements(listener, in_order) if drawn.get(each.words) not in refused_rules
    )
    clusters = clustered(statements, existing, drawn, listener.rarity)
    told = Told(texts_of, listener.rarity)
    refused = Known(rejected, listener.rarity, share=REJECTED)
    proposals = ((_proposal(cluster), cluster.projects) for cluster in clusters)
    found = [
        each
        for each, projects in proposals
        if each.repeats
        or (
            # What has common words alone holds nobody to anything.
            uncommon(words_of(each.rule_text))
            and not told.says(each.rule_text, projects)
            and not refused.says(each.rule_text)
        )
    ]
    return sorted(found, key=lambda proposal: -proposal.confidence)


def _statements(listener: Listener, chats: Iterable[Chat]) -> Iterator[Statement]:
    threshold = fitted().threshold
    for turn in listener.chats(chats):
        for scored in turn.clauses:
            if scored.probability >= threshold:
                yield Statement(turn.chat, turn.turn, scored)


def _proposal(cluster: Cluster) -> Proposal:
    heard = _spokesman(cluster)
    category = category_of(heard.clause.text)
    return Proposal(
        rule_text=cluster.existing or rule_text(heard),
        category=category,
        confidence=_confidence(cluster),
        scope=scope_of(cluster, category),
        kind=kind_of(cluster),
        evidence=_evidence(cluster),
        repeats=cluster.existing,
    )


def _spokesman(cluster: Cluster) -> Heard:
    """The clause that speaks for the others: put as something to do, in words that most of them have."""
    clauses = [(each.scored.heard, each.scored.probability) for each in cluster.statements]
    having = Counter(term for heard, _ in clauses for term in heard.terms)

    def fitness(clause: tuple[Heard, float]) -> tuple[bool, float, float]:
        heard, probability = clause
        shared = sum(having[term] for term in heard.terms) / max(1, len(heard.terms))
        return is_plain(heard), shared if len(clauses) > _A_FEW else 0.0, probability

    return max(clauses, key=fitness)[0]


def _confidence(cluster: Cluster) -> float:
    probability = max(each.scored.probability for each in cluster.statements)
    sessions = {(each.chat.source, each.chat.session) for each in cluster.statements}
    speakers = {speaker_of(each.chat) for each in cluster.statements}
    odds = math.log(probability / (1 - probability))
    raised = odds + _PER_SESSION * math.log(len(sessions)) + _PER_AUTHOR * math.log(len(speakers))
    return round(min(chance(raised), 0.99), 3)


def scope_of(cluster: Cluster, category: str) -> Scope:
    """Whom it holds for, by who said it where."""
    projects = Counter(each.chat.project for each in cluster.statements if each.chat.project)
    project = projects.most_common(1)[0][0] if projects else None
    if len({each.chat.author for each in cluster.statements if each.chat.author}) > 1:
        return Scope("team", project if len(projects) == 1 else None)
    # How somebody wants to be talked to goes with them; so does what they ask for wherever they work.
    if category == "agent-behaviour" or len(projects) > 1:
        return Scope("personal", None)
    return Scope("project", project)


def kind_of(cluster: Cluster) -> Kind:
    """Said as a rule, asked for repeatedly, or to be gathered from what was asked for."""
    if any(not each.scored.heard.cues.isdisjoint(_SAID_AS_RULE) for each in cluster.statements):
        return "explicit"
    if len(cluster.statements) > 1 or any(
        not each.scored.heard.features.keys().isdisjoint(_REPEATS) for each in cluster.statements
    ):
        return "repeated"
    return "implicit"


def _evidence(cluster: Cluster) -> tuple[Evidence, ...]:
    said = cluster.statements
    return tuple(
        Evidence(
            quote=each.quote,
            source=each.chat.source,
            session=each.chat.session,
            turn=each.turn.number,
            author=each.chat.author,
        )
        for each in (said if len(said) <= _MOST_QUOTES else [said[0], *said[1 - _MOST_QUOTES :]])
    )
