"""The data of learning is whole: every language has every cue, every feature a reason and a weight."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from recollect.rules import learning
from recollect.rules.chats.models import Turn
from recollect.rules.learning.cues import KINDS, LANGUAGES, tongue
from recollect.rules.learning.features import listen
from recollect.rules.learning.scoring import fitted


def test_every_file_of_cues_belongs_to_a_language() -> None:
    names = {path.name.removesuffix(".toml") for path in (files(learning) / "tongues").iterdir()}
    assert names == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_cue(language: str) -> None:
    assert [kind for kind, _ in tongue(language).cues] == list(KINDS)


def test_a_feature_pulls_the_way_that_its_reason_says() -> None:
    told = tomllib.loads((files(learning) / "weights.toml").read_text())
    del told["threshold"]
    for name, each in told.items():
        assert each["why"].endswith("."), name
        assert abs(each["weight"] - each["expected"]) < 1.5, name


def test_every_feature_that_is_noticed_has_a_weight() -> None:
    said = (
        "No! Why did you NEVER, yet again, in line 3, follow our rule in AGENTS.md instead? "
        "Can you always do it on the page? " * 20
    )
    for heard in listen(Turn("user", said, None, 0, doing="Edit")):
        assert heard.features.keys() <= fitted().weights.keys()


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
