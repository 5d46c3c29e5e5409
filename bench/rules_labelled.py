"""Labelled transcripts, and the fitting of the model that finds durable rules in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from recollect.rules import learning
from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Chat
from recollect.rules.learning.listening import Listened, Listener
from recollect.rules.learning.scoring import Model

DATA = Path(__file__).parents[2] / "shared" / "rules-eval"
WEIGHTS = Path(learning.__file__).with_name("weights.toml")
# The width of the normal prior around what is expected of a weight.
PRIOR_WIDTH = 0.2
# Which clause of a turn speaks for it depends on the weights, and they on it.
ROUNDS = 3
# Parts that repositories are put into, each judged by a fit on the others.
PARTS = 8
# What a label counts that its reader was not sure of.
UNSURE = 0.5


@dataclass(frozen=True)
class Label:
    kind: str
    category: str
    rule: str
    quote: str
    is_sure: bool = True


@dataclass
class Labelled:
    """Chats by repository, and what was said to be a rule in which of their turns."""

    chats: dict[str, list[Chat]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[tuple[str, str, int], list[Label]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0

    def of(self, chat: Chat, number: int) -> list[Label]:
        return self.labels.get((chat.source, chat.session, number), [])


def read_labelled(*folders: Path) -> Labelled:
    found = Labelled()
    for folder in folders or (DATA,):
        _read(found, folder)
    return found


def _read(found: Labelled, folder: Path) -> None:
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


def _complain(skipped: object) -> None:
    print(skipped)


def _place(found: Labelled, chats: Sequence[Chat], labels: Sequence[dict[str, Any]]) -> None:
    """Each label at its turn: by its quote; by number, or else by order, where the quote is said twice."""
    turns = [(chat, turn) for chat in chats for turn in chat.turns if turn.role == "user"]
    earlier: dict[str, int] = defaultdict(int)
    for label in labels:
        quote = _spaced(label["quote"])
        saying = [(chat, turn) for chat, turn in turns if quote in _spaced(turn.text)]
        if not saying:
            found.lost += 1
            continue
        by_number = [each for each in saying if each[1].number == label["turn"]]
        chat, turn = (by_number or saying[min(earlier[quote], len(saying) - 1) :])[0]
        earlier[quote] += 1
        found.labels[chat.source, chat.session, turn.number].append(
            Label(label["kind"], label["category"], label["rule"], label["quote"], label.get("sure", True))
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


def cross_validated(labelled: Labelled) -> list[Listened]:
    """Every human turn, each repository heard with weights that were fitted to others."""
    repositories = sorted(labelled.chats)
    parts = [repositories[part::PARTS] for part in range(PARTS)]
    return [
        turn
        for part in parts
        for turn in listened(labelled, part, fit(labelled, set(repositories) - set(part)))
    ]


def _fitted(labelled: Labelled, turns: Sequence[Listened], expected: dict[str, float]) -> dict[str, float]:
    """The likeliest weights, by Newton's method."""
    speaking = [turn for turn in turns if turn.clauses]
    loudest = [max(turn.clauses, key=lambda each: each.probability).heard.features for turn in speaking]
    rows = np.array([[features.get(name, 0.0) for name in expected] for features in loudest])
    labels = [labelled.of(turn.chat, turn.turn.number) for turn in speaking]
    truth = np.array([bool(each) for each in labels], float)
    counts = np.array(
        [1.0 if not each or any(label.is_sure for label in each) else UNSURE for each in labels]
    )
    centre = np.array(list(expected.values()))
    precision = np.eye(len(centre)) / PRIOR_WIDTH**2
    weights = centre.copy()
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (counts * (truth - chance)) - precision @ (weights - centre)
        bend = (rows * (counts * chance * (1 - chance))[:, None]).T @ rows + precision
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
