"""How many of the rules in real transcripts are found without a model, and how many alarms are false.

The labelled transcripts are not among those that the weights were fitted to. ``python -m bench.rules --fit
FOLDER...`` fits them to others, labelled in the same form, and writes them into the package; ``--on
FOLDER...`` judges those of the package on others.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from bench.report import Figure, at_least, at_most
from bench.rules_labelled import (
    DATA,
    Label,
    Labelled,
    cross_validated,
    fit,
    listened,
    read_labelled,
    write_weights,
)
from bench.rules_tokens import tokens_sent
from recollect.engine.language import words_of
from recollect.rules.chats.models import Chat
from recollect.rules.learning.listening import Listened, Listener
from recollect.rules.learning.models import Evidence
from recollect.rules.learning.pipeline import propose
from recollect.rules.learning.scoring import fitted

# Each transcript so often, under other names: enough turns for a rate.
COPIES = 20


async def measure() -> list[Figure]:
    if not DATA.exists():
        print(f"Skipped: there are no labelled transcripts at {DATA}.")
        return []
    labelled = read_labelled()
    heard = listened(labelled, labelled.chats, dict(fitted().weights))
    return [
        *_by_turn(labelled, heard),
        *_shares(labelled, heard),
        _calibration(labelled, heard),
        *_by_proposal(labelled),
        _rate(labelled),
        await tokens_sent(labelled),
    ]


def _flagged(turns: Sequence[Listened]) -> set[tuple[str, str, int]]:
    """Those turns that become evidence of a proposal."""
    return {
        (turn.chat.source, turn.chat.session, turn.turn.number)
        for turn in turns
        if turn.probability >= fitted().threshold
    }


def _by_turn(labelled: Labelled, turns: Sequence[Listened]) -> list[Figure]:
    flagged = _flagged(turns)
    hits = len(flagged & labelled.labels.keys())
    kinds = [(each.kind, place in flagged) for place, labels in labelled.labels.items() for each in labels]
    return [
        at_least(
            "precision by turn", hits / max(1, len(flagged)), "", 0.60,
            f"{hits} of {len(flagged)} flagged turns",
        ),
        at_least(
            "recall by turn", hits / len(labelled.labels), "", 0.45,
            f"{hits} of {len(labelled.labels)} turns with a rule",
        ),
        at_least("recall of explicit rules", _share(kinds, "explicit"), "", 0.85, _count(kinds, "explicit")),
    ]  # fmt: skip


def _shares(labelled: Labelled, turns: Sequence[Listened]) -> list[Figure]:
    """Recall by kind and by category; alarms by repository and language."""
    flagged = _flagged(turns)
    found = [(each, place in flagged) for place, labels in labelled.labels.items() for each in labels]
    figures = []
    for what, groups in (
        ("kind", [(label.kind, hit) for label, hit in found]),
        ("category", [(label.category, hit) for label, hit in found]),
    ):
        for group in sorted({name for name, _ in groups}):
            detail = _count(groups, group)
            figures.append(Figure(f"recall by {what}: {group}", _share(groups, group), "", detail=detail))
    for what, name_of in (("repository", _repository), ("language", _language)):
        alarms = Counter[str]()
        right = Counter[str]()
        for turn in turns:
            if turn.probability >= fitted().threshold:
                alarms[name_of(turn)] += 1
                right[name_of(turn)] += bool(labelled.of(turn.chat, turn.turn.number))
        figures += [
            Figure(
                f"precision by {what}: {name}", right[name] / count, "", detail=f"{right[name]} of {count}"
            )
            for name, count in alarms.most_common()
        ]
    return figures


def _repository(turn: Listened) -> str:
    return turn.chat.project or ""


def _language(turn: Listened) -> str:
    return turn.clauses[0].heard.language


def _share(groups: Sequence[tuple[str, bool]], wanted: str) -> float:
    hits = [hit for name, hit in groups if name == wanted]
    return sum(hits) / max(1, len(hits))


def _count(groups: Sequence[tuple[str, bool]], wanted: str) -> str:
    hits = [hit for name, hit in groups if name == wanted]
    return f"{sum(hits)} of {len(hits)}"


def _calibration(labelled: Labelled, turns: Sequence[Listened]) -> Figure:
    """By how much the probabilities are off, on average over fifths of their range."""
    fifths: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for turn in turns:
        right = bool(labelled.of(turn.chat, turn.turn.number))
        fifths[min(4, int(turn.probability * 5))].append((turn.probability, right))
    off = [abs(sum(said for said, _ in each) - sum(right for _, right in each)) for each in fifths.values()]
    told = ", ".join(
        f"{mean(said for said, _ in each):.2f} said, {mean(right for _, right in each):.2f} true"
        for _, each in sorted(fifths.items())
    )
    return Figure("probabilities off by", sum(off) / len(turns), "", detail=told)


def _by_proposal(labelled: Labelled) -> list[Figure]:
    """A proposal is a duplicate if every rule that its quotes are labelled with is another's already."""
    seen: set[str] = set()
    duplicates = right = total = 0
    for chats in labelled.chats.values():
        for proposal in propose(chats):
            rules = {label.rule for each in proposal.evidence for label in _labels_of(labelled, each)}
            total += 1
            right += bool(rules)
            duplicates += bool(rules) and rules <= seen
            seen |= rules
    return [
        Figure("proposals", total, "", detail=f"{right} of them with evidence that is labelled"),
        at_most(
            "duplicates among proposals", duplicates / max(1, total), "", 0.10, f"{duplicates} of {total}"
        ),
    ]


def _labels_of(labelled: Labelled, evidence: Evidence) -> list[Label]:
    """Those whose quote and the evidence's are about the same words of the turn."""
    said = set(words_of(evidence.quote))
    labels = labelled.labels.get((evidence.source, evidence.session, evidence.turn), [])
    return [
        label
        for label in labels
        if len(said & (quoted := set(words_of(label.quote)))) * 2 > min(len(said), len(quoted))
    ]


def _rate(labelled: Labelled) -> Figure:
    chats = [
        _copy(chat, number) for number in range(COPIES) for each in labelled.chats.values() for chat in each
    ]
    # What a process reads and compiles once is not of the rate.
    deque(Listener().chats(chats[: len(chats) // COPIES]), maxlen=0)
    # Time of the processor, not of the clock: others may be working on this machine.
    begun = time.process_time()
    turns = sum(1 for _ in Listener().chats(chats))
    rate = turns / (time.process_time() - begun)
    return at_least(
        "scoring on one core", rate, "turns/s", 2_000, f"{turns} turns, {COPIES} copies of each transcript"
    )


def _copy(chat: Chat, number: int) -> Chat:
    return replace(chat, session=f"{chat.session}-{number}", author=f"{chat.author}-{number}")


def _main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["--fit", _, *_]:
            others = read_labelled(*map(Path, arguments[1:]))
            write_weights(fit(others, others.chats))
            _tell(others, cross_validated(others))
        case ["--on", _, *_]:
            others = read_labelled(*map(Path, arguments[1:]))
            _tell(others, listened(others, others.chats, dict(fitted().weights)))
        case _:
            sys.exit(
                "make bench-rules measures; python -m bench.rules takes --fit FOLDER..., or --on FOLDER..."
            )


def _tell(labelled: Labelled, turns: Sequence[Listened]) -> None:
    print(f"{len(turns)} human turns of {len(labelled.chats)} repositories")
    for figure in _by_turn(labelled, turns):
        print(f"{figure.name}: {figure.value:.2f} ({figure.detail})")


if __name__ == "__main__":
    _main(sys.argv[1:])
