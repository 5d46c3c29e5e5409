"""Real transcripts, where they lie beside the project: what people found in them, the readers find."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from recollect.rules.chats.models import Turn
from tests.rules.chats.conftest import Read

EVALUATION = Path(__file__).resolve().parents[4] / "shared" / "rules-eval"


@pytest.fixture
def evaluation() -> Path:
    if not EVALUATION.is_dir():
        pytest.skip("no real transcripts in ../shared/rules-eval")
    return EVALUATION


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def turns_of_files(read: Read, folder: Path) -> dict[str, list[Turn]]:
    """The users' turns of each file, by its name."""
    turns: dict[str, list[Turn]] = defaultdict(list)
    for chat in read(folder).chats:
        turns[Path(chat.source).name] += [turn for turn in chat.turns if turn.role == "user"]
    return turns


def test_every_transcript_is_read_and_nothing_is_skipped(read: Read, evaluation: Path) -> None:
    found = read(evaluation / "raw")
    assert not found.skipped
    assert {Path(chat.source).name for chat in found.chats} == {
        path.name for path in (evaluation / "raw").iterdir()
    }


def test_every_labelled_quote_is_in_a_users_turn(read: Read, evaluation: Path) -> None:
    turns = turns_of_files(read, evaluation / "raw")
    for label in lines(evaluation / "labels.jsonl"):
        quote = " ".join(label["quote"].split())
        assert any(quote in " ".join(turn.text.split()) for turn in turns[label["transcript"]]), label


def test_turns_are_numbered_as_the_labels_are(read: Read, evaluation: Path) -> None:
    turns = turns_of_files(read, evaluation / "raw")
    # Labels count over all sessions in a file of aider, and chats begin with each.
    labels = [label for label in lines(evaluation / "labels.jsonl") if "aider" not in label["transcript"]]
    near = 0
    for label in labels:
        quote = " ".join(label["quote"].split())
        numbers = [turn.number for turn in turns[label["transcript"]] if quote in " ".join(turn.text.split())]
        near += any(abs(number - label["turn"]) <= 2 for number in numbers)
    assert near == len(labels)
