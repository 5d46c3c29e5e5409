"""Labelled transcripts, and the fitting of the model that finds durable rules in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from recollect.rules import learning
from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Chat
from recollect.rules.learning.listening import Listened, Listener
from recollect.rules.learning.scoring import Model

DATA = Path(__file__).parents[2] / "shared" / "rules-eval"
WEIGHTS = Path(learning.__file__).with_name("weights.toml")
# The width of the normal prior around what is expected of a weight.
PRIOR_WIDTH = 0.5
# Which clause of a turn speaks for it depends on the weights, and they on it.
ROUNDS = 3


@dataclass(frozen=True)
class Label:
    kind: str
    category: str
    rule: str
    quote: str


@dataclass
class Labelled:
    """Chats by repository, and what was said to be a rule in which of their turns."""

    chats: dict[str, list[Chat]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[tuple[str, str, int], list[Label]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0

    def of(self, chat: Chat, number: int) -> list[Label]:
        return self.labels.get((chat.source, chat.session, number), [])


def read_labelled(folder: Path = DATA) -> Labelled:
    found = Labelled()
    labels = defaultdict(list)
    for line in (folder / "labels.jsonl").read_text().splitlines():
        label = json.loads(line)
        labels[label["transcript"]].append(label)
    for line in sorted((folder / "transcripts.jsonl").read_text().splitlines()):
        told = json.loads(line)
        read = read_chats([folder / "raw" / told["transcript"]], report=_complain, progress=lambda *_: None)
        # One person works on each of these repositories, as far as is known.
        chats = [replace(chat, project=told["repo"], author=told["repo"]) for chat in read]
        found.chats[told["repo"]] += chats
        _place(found, chats, labels[told["transcript"]])
    return found


def _complain(skipped: object) -> None:
    print(skipped)


def _place(found: Labelled, chats: Sequence[Chat], labels: Sequence[dict[str, str | int]]) -> None:
    """Each label at its turn: by its quote; by number, or else by order, where the quote is said twice."""
    turns = [(chat, turn) for chat in chats for turn in chat.turns if turn.role == "user"]
    earlier: dict[str, int] = defaultdict(int)
    for label in labels:
        quote = _spaced(str(label["quote"]))
        saying = [(chat, turn) for chat, turn in turns if quote in _spaced(turn.text)]
        if not saying:
            found.lost += 1
            continue
        by_number = [each for each in saying if each[1].number == label["turn"]]
        chat, turn = (by_number or saying[min(earlier[quote], len(saying) - 1) :])[0]
        earlier[quote] += 1
        found.labels[chat.source, chat.session, turn.number].append(
            Label(*(str(label[name]) for name in ("kind", "category", "rule", "quote")))
        )


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def expected_weights() -> dict[str, float]:
    return {
        name: each["expected"]
        for name, each in tomllib.loads(WEIGHTS.read_text()).items()
        if name != "threshold"
    }


def listened(labelled: Labelled, repositories: Collection[str], weights: dict[str, float]) -> list[Listened]:
    """Every human turn of the repositories, each repository heard by itself."""
    return [
        turn
        for repository in sorted(repositories)
        for turn in Listener(Model(weights, 0.5)).chats(labelled.chats[repository])
    ]


def fit(labelled: Labelled, repositories: Collection[str]) -> dict[str, float]:
    expected = expected_weights()
    weights = expected
    for _ in range(ROUNDS):
        weights = _fitted(labelled, listened(labelled, repositories, weights), expected)
    return weights


def _fitted(labelled: Labelled, turns: Sequence[Listened], expected: dict[str, float]) -> dict[str, float]:
    """The likeliest weights, by Newton's method."""
    speaking = [turn for turn in turns if turn.clauses]
    loudest = [max(turn.clauses, key=lambda each: each.probability).heard.features for turn in speaking]
    rows = np.array([[features.get(name, 0.0) for name in expected] for features in loudest])
    truth = np.array([bool(labelled.of(turn.chat, turn.turn.number)) for turn in speaking], float)
    centre = np.array(list(expected.values()))
    precision = np.eye(len(centre)) / PRIOR_WIDTH**2
    weights = centre.copy()
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (truth - chance) - precision @ (weights - centre)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + precision
        step = np.linalg.solve(bend, slope)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return dict(zip(expected, (float(weight) for weight in weights), strict=True))


def write_weights(weights: dict[str, float]) -> None:
    """Into the file, each at its place."""
    name = ""
    lines = []
    for line in WEIGHTS.read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            name = heading[1]
        lines.append(f"weight = {weights[name]:.2f}" if line.startswith("weight = ") else line)
    WEIGHTS.write_text("\n".join(lines) + "\n")
