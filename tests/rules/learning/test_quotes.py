"""A quote stands in the turn, letter by letter, whatever the turn looks like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.rules.chats.models import Turn
from recollect.rules.learning.clauses import LONGEST_CLAUSE, clauses_in
from recollect.rules.learning.features import listen
from recollect.rules.learning.pipeline import propose
from recollect.rules.learning.voice import own_voice
from tests.rules.learning.talk import chat

PIECES = st.sampled_from(
    [
        "Never push to main.", "always  use\ttabs", "no, don\N{RIGHT SINGLE QUOTATION MARK}t do that!",
        "```\ncode\n```", "> quoted",
        "<note>", "</note>", "\n", "\r\n", "- ", "1. ", "ÉCRIS toujours les tests", "必须运行测试。", "ß",
        "\N{LATIN SMALL LIGATURE FI}x",
        "İ", '"""', "---", "$ ls -la", "why did you do it?", " ", "e\N{COMBINING ACUTE ACCENT}", "\0",
        "a" * 500,
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=20), max_size=25).map("".join)


@given(TEXTS, TEXTS)
def test_what_is_blanked_out_keeps_its_place(text: str, before: str) -> None:
    shown = own_voice(text, before)
    assert len(shown) == len(text)
    assert all(left in (right, " ") for left, right in zip(shown, text, strict=True))


@given(TEXTS)
def test_every_clause_is_a_part_of_its_turn(text: str) -> None:
    for heard in listen(Turn("user", text, None, 0)):
        clause = heard.clause
        assert clause.text
        assert text[clause.start : clause.end] == clause.text


@given(st.lists(TEXTS, max_size=4))
def test_every_quote_of_a_proposal_is_an_exact_substring(said: list[str]) -> None:
    talk = chat(*said, "From now on, never push to main.")
    texts = {turn.number: turn.text for turn in talk.turns}
    for proposal in propose([talk]):
        assert proposal.evidence
        for evidence in proposal.evidence:
            assert evidence.quote
            assert evidence.quote in texts[evidence.turn]


def test_no_part_of_a_sentence_that_goes_on_and_on_is_left_out() -> None:
    said = "It is about the till, " * 60 + "never round the price, " + "as it was said before, " * 60
    clauses = clauses_in(said, said)
    assert any("never round the price" in clause.text for clause in clauses)
    assert max(len(clause.text) for clause in clauses) <= LONGEST_CLAUSE
    endless = "x" * (3 * LONGEST_CLAUSE)
    assert "".join(clause.text for clause in clauses_in(endless, endless)) == endless


def test_chinese_sentences_end_at_a_full_stop_of_another_script_too() -> None:
    said = "帮我写一下例子.同时别忘了在 README.md 中注册!谢谢"
    assert [clause.text for clause in clauses_in(said, said)] == [
        "帮我写一下例子.",
        "同时别忘了在 README.md 中注册!",
        "谢谢",
    ]
