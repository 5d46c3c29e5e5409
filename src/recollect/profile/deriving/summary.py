"""The summary: the user's own most telling sentences of late, and the parts that are most present."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.engine.extraction.rules import is_question
from recollect.engine.extraction.sentences import HIDDEN, Piece, sentences_in
from recollect.engine.language import languages_of, uncommon, words_of
from recollect.kit.text import one_line
from recollect.profile.deriving.parts import ACTIVE, Names, Part
from recollect.profile.deriving.reading import Told
from recollect.profile.deriving.stating import sayings
from recollect.profile.deriving.wording import is_alike

# Ours is the line that begins like this; whatever else stands in a summary was written by somebody.
MARK = "Lately: "
MAX_SENTENCES = 5
MAX_CHARACTERS = 800
MAX_PARTS = 3
# The newest of what was said; the words of all of it still weigh.
MOST_READ = 40
LENGTHS = range(20, 281)
MIN_TELLING_WORDS = 3
# A summary has no room for two sentences that share so much.
REPEATS = 0.5

_SPOKEN_BY_ANOTHER = re.compile(r"(?:assistant|ai|bot|system|coach|therapist|agent|model)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class _Sentence:
    text: str
    words: frozenset[str]
    score: float
    place: tuple[int, int]


def summarise(summary: str, told: Sequence[Told], parts: Mapping[str, Part], names: Names) -> str:
    """The summary with our line anew; as it was if nothing telling was said."""
    kept = _without_ours(summary)
    present = _most_present(parts)
    chosen = _choose(_sentences(told, names), kept, MAX_CHARACTERS - len(MARK) - _room_for(present))
    if not chosen:
        return summary
    said = [each.text for each in sorted(chosen, key=lambda each: each.place)]
    if present:
        said.append(f"{_label(said)}: {', '.join(present)}.")
    ours = MARK + " ".join(said)
    return f"{kept}\n{ours}" if kept else ours


def _without_ours(summary: str) -> str:
    lines = summary.split("\n")
    ours = [number for number, line in enumerate(lines) if line.startswith(MARK)]
    return "\n".join(lines[: ours[-1]] + lines[ours[-1] + 1 :]).rstrip() if ours else summary.rstrip()


def _most_present(parts: Mapping[str, Part]) -> list[str]:
    present = [
        (-part["recency_score"], -_number(part.get("mentions")), identifier, one_line(part["name"]))
        for identifier, part in parts.items()
        if isinstance(part.get("name"), str) and part["recency_score"] >= ACTIVE
    ]
    return [name for *_, name in sorted(present)[:MAX_PARTS] if name and len(name) <= 100]


def _number(given: Any) -> float:
    return given if isinstance(given, int | float) else 0


def _room_for(present: Sequence[str]) -> int:
    longest = max(len(each.most_present) for each in sayings())
    return longest + 4 + len(", ".join(present)) if present else 0


def _label(said: Sequence[str]) -> str:
    """In the language of the material."""
    labels = {each.tongue.name: each.most_present for each in sayings()}
    likely = languages_of(words_of(" ".join(said)))
    return next((labels[language] for language in labels if language in likely), labels["english"])


def _sentences(told: Sequence[Told], names: Names) -> Iterator[_Sentence]:
    spread = Counter(word for each in told for word in set(each.words))
    heard = [each for each in told if each.text][-MOST_READ:]
    for age, each in enumerate(reversed(heard)):
        for number, sentence in enumerate(sentences_in(each.text)):
            text = _written(sentence)
            words = words_of(text)
            telling = frozenset(uncommon(words))
            if len(text) not in LENGTHS or len(telling) < MIN_TELLING_WORDS or not _is_own(sentence):
                continue
            score = (
                sum(math.log1p(spread[word]) for word in telling) / len(telling)
                + len(names.mentioned_in(words))
                + any(stated.text[1:] in text for stated in each.stated)
                + 0.5 / (1 + number)
                + 1 / (1 + age)
            )
            yield _Sentence(text, telling, score, (-age, number))


def _written(sentence: Piece) -> str:
    text = one_line(sentence.text)
    return f"{text}." if text[-1:].isalnum() else text


def _is_own(sentence: Piece) -> bool:
    shown = sentence.shown
    return not (
        is_question(sentence) or shown.count(HIDDEN) * 2 > len(shown) or _SPOKEN_BY_ANOTHER.match(shown)
    )


def _choose(sentences: Iterator[_Sentence], kept: str, room: int) -> list[_Sentence]:
    """The best that fit and say something else than each other and than what is there already."""
    known = [frozenset(uncommon(words_of(each.text))) for each in sentences_in(kept)]
    chosen: list[_Sentence] = []
    for each in sorted(sentences, key=lambda each: (-each.score, each.place)):
        if len(each.text) + 1 > room or any(is_alike(each.words, other, REPEATS) for other in known):
            continue
        chosen.append(each)
        known.append(each.words)
        room -= len(each.text) + 1
        if len(chosen) == MAX_SENTENCES:
            break
    return chosen
