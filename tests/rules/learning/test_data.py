"""The data of learning is whole: every language has every cue, every feature a reason and a weight."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from recollect.rules import learning
from recollect.rules.chats.models import Turn
from recollect.rules.learning.cues import KINDS, LANGUAGES, tongue
from recollect.rules.learning.features import listen
from recollect.rules.learning.listening import Listener
from recollect.rules.learning.scoring import fitted
from tests.rules.learning.talk import chat


def test_every_file_of_cues_belongs_to_a_language() -> None:
    names = {path.name.removesuffix(".toml") for path in (files(learning) / "tongues").iterdir()}
    assert names == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_cue(language: str) -> None:
    told = tomllib.loads((files(learning) / "tongues" / f"{language}.toml").read_text("utf-8"))
    assert [kind for kind in KINDS if not told.get(kind, "").strip()] == []
    assert told.keys() <= {*KINDS, "nod", "wording", "phrasing", "common", "unspaced", "variants"}
    assert not any(pattern.search("") for _, pattern in tongue(language).cues)


def test_a_feature_pulls_the_way_that_its_reason_says() -> None:
    told = tomllib.loads((files(learning) / "weights.toml").read_text())
    del told["threshold"]
    for name, each in told.items():
        assert each["why"].endswith("."), name
        assert each["weight"] * each["expected"] > 0, name


SAID = (
    "From now on we always use tabs instead of spaces, and note that in AGENTS.md.",
    "You must not touch all the files.",
    "Make sure that you NEVER commit before I have approved it, please.",
    "Why did you change line 3 again? I told you to ask me first.",
    "You used spaces. We prefer tabs. For now, fix only this one. Is the parser done?",
    "Don't use print for logging.",
    "The user should see a button on the page, 20px wide.",
    "Can you write tests for the importer?\n" + "a line of a log\n" * 20,
    "Please add tests for the parser. Make sure that you NEVER commit before I have approved it.",
)


def test_every_feature_has_a_weight_and_every_weight_a_feature() -> None:
    turns = chat(*SAID)
    noticed = {
        name for turn in Listener().chat(turns) for scored in turn.clauses for name in scored.heard.features
    }
    assert noticed == fitted().weights.keys()


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "no ",
        "don't ",
        "<a ",
        "<a>",
        "<a> </b>",
        "> ",
        "you ",
        "why did you ",
        "```",
        "\n",
        "- ",
        "#",
        "不要",
        "把",
        "cada vez que ",
        "je ne ",
        "bitte nicht ",
        "non ",
        "niet ",
        "nie się ",
        "her zaman ",
        "không được ",
        "не надо ",
        "のときは",
        "하지 ",
        "fix",
        "계속해줘",
        "add ",
    ],
)
def test_no_pattern_runs_away(piece: str) -> None:
    # If one did, this would not end before the test is stopped.
    listen(Turn("user", piece * (60_000 // len(piece)), None, 0), before=piece * 500)
