"""Facts by rules: whose words, each once, and nothing lost or made up, whatever the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.engine.extraction import rules
from recollect.engine.extraction.models import Fact, Said
from recollect.engine.extraction.rules import extract
from recollect.engine.extraction.tongue import tongues


def said(text: str) -> list[str]:
    return [fact.text for fact in extract([Said("user", text)]).facts]


def test_only_what_the_user_says_is_about_the_user() -> None:
    turns = [
        Said("system", "I live in Paris."),
        Said("assistant", "I live in a data centre. You live in Rome."),
        Said("user", "I live in Berlin.", "Ana"),
        Said("tool", "I like tea."),
    ]
    found = extract(turns)
    assert found.facts == (Fact("I live in Berlin.", "home"),)
    assert (found.not_understood, found.made_by) == ((), "rules")


def test_the_same_fact_is_found_once() -> None:
    text = "I like tea. i like tea! I LIKE TEA\nJ'aime le café. J'aime le cafe"
    assert said(text) == ["I LIKE TEA", "J'aime le cafe"]


def test_what_was_taken_back_and_said_again_holds() -> None:
    found = extract([Said("user", "I like tea."), Said("user", "I hate tea."), Said("user", "I like tea!")])
    assert [(fact.text, fact.slot) for fact in found.facts] == [
        ("I hate tea.", "likes:tea"),
        ("I like tea!", "likes:tea"),
    ]


def test_what_is_not_understood_is_reported_once() -> None:
    assert extract([Said("user", "Rain is wet. Rain is wet.")]).not_understood == ("Rain is wet.",)


def test_facts_are_found_among_everything_else() -> None:
    text = (
        "Hey! Thanks for the help yesterday. I'm Ana, by the way.\n\n"
        "- I live in Rome\n- I work at Acme\n\n"
        "```\nI live in code\n```\n"
        "> They are old. I live in a quote\n"
        'My favourite line is "I am not here. I live in Paris."\n'
        "Could you write to Dr. Meyer for me? My daughter is called Mia."
    )
    found = extract([Said("user", text)])
    assert [fact.text for fact in found.facts] == [
        "I'm Ana, by the way.",
        "I live in Rome",
        "I work at Acme",
        'My favourite line is "I am not here. I live in Paris."',
        "My daughter is called Mia.",
    ]
    assert found.not_understood == ("> They are old. I live in a quote",)


def test_a_sentence_goes_on_where_its_line_was_broken_for_its_length() -> None:
    text = "I work as a nurse in the children's ward of the old hospital\nin the north of Rome. I live\nalone"
    assert said(text) == [text[:82], "I live"]


def test_code_that_is_not_closed_ends_with_the_text() -> None:
    assert said("I live in Rome.\n```\nI live in Paris.") == ["I live in Rome."]


def test_several_languages_in_one_turn_are_each_understood() -> None:
    assert said("I live in Rome. Vivo en Madrid. Ich wohne in Berlin.") == [
        "I live in Rome.",
        "Vivo en Madrid.",
        "Ich wohne in Berlin.",
    ]


def test_what_is_too_long_for_a_sentence_is_reported_whole() -> None:
    text = "I like " + "tea and " * 200
    assert extract([Said("user", text)]).not_understood == (text.strip(),)


SPOKEN = {
    "english": "I I'm my name is live in Rome and but like love the tea not if you hi hey, please Dr. 3.",
    "spanish": "yo vivo en Roma me llamo y mi nombre es soy gusta el té no si hola",
    "german": "ich bin wohne in Rom und aber mein Name ist mag der Tee nicht wenn hallo",
}
WORDS = " ".join(SPOKEN.values()).split()
WORDS += ["je", "j'", "habite", "e", "e\u0301", "sono", "ik", "woon", "moro", "em", "ß", "İ", "ﬁ", "好", "😀"]
SIGNS = [
    "\n",
    "\n\n",
    "\t",
    "```",
    "~~~",
    "...",
    "\ufffc",
    "\u2028",
    "\x00",
    "\ud800",
    *"\"“”'`><«».?!¿,;:-。",
]
texts = st.lists(st.sampled_from(WORDS + SIGNS), max_size=40).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda space: space.join(words))
) | st.text(max_size=200)


@settings(max_examples=1_000)
@given(st.lists(texts, max_size=3))
def test_any_text_is_read_and_no_fact_is_made_up(each: list[str]) -> None:
    turns = [Said("user", text) for text in each]
    found = extract(turns)
    for text in [*(fact.text for fact in found.facts), *found.not_understood]:
        assert text.strip()
        assert any(text in turn.text for turn in turns)
    assert extract(turns) == found


# Of one language: where several are mixed, what stands around a sentence decides in which it is read.
in_one_language = st.sampled_from([*SPOKEN.values()]).flatmap(
    lambda words: st.lists(st.sampled_from(words.split() + SIGNS), max_size=40).map(" ".join)
)


@settings(max_examples=300)
@given(in_one_language)
def test_a_fact_read_again_is_the_same_fact(text: str) -> None:
    for fact in extract([Said("user", text)]).facts:
        again = extract([Said("user", fact.text)])
        assert again.not_understood == ()
        assert [each.text for each in again.facts] == [fact.text]


UNITS = [
    "i ",
    "a",
    "I'm so ",
    "and i ",
    "I like tea and ",
    "I live. ",
    '"',
    '"a ',
    "\n",
    "`",
    "```",
    " ",
    "hey ",
    "hey, ",
]
UNITS += [
    "I really ",
    "me llamo ",
    "my is ",
    "x'",
    "a-b-",
    "last a ",
    "😀",
    "e\u0301",
    "> ",
    "«",
    "( ",
    "1. ",
    "I, ",
    ">\n",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("length", [50_000, 590])
def test_no_pattern_runs_away(unit: str, length: int) -> None:
    """One that does takes hours, and the suite's limit ends it."""
    text = unit * (50_000 // len(unit))
    pieces = [text[begin : begin + length] for begin in range(0, len(text), length)]
    extract([Said("user", ". ".join(pieces))])


def test_every_language_is_complete() -> None:
    names = {name for tongue in tongues() for name, _ in tongue.slots}
    for tongue in tongues():
        assert {name for name, _ in tongue.slots} == names, tongue.name
        assert set(tongue.things.values()) or tongue.name == "english"
    assert rules.MAX_SENTENCE < 1_000
