"""What changed from one text to another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.kit.diff import MAX_WORDS, differences


def test_words_that_went_and_came_stand_where_they_stood() -> None:
    assert differences("Mia lives in Ulm.", "Mia now lives in Bonn.") == [
        ("same", "Mia "),
        ("new", "now "),
        ("same", "lives in "),
        ("gone", "Ulm."),
        ("new", "Bonn."),
    ]
    assert differences('{\n  "a": 1\n}', '{\n  "a": 2\n}')[1:3] == [("gone", "1"), ("new", "2")]
    assert differences("", "new") == [("new", "new")]
    assert differences("same", "same") == [("same", "same")]
    assert differences("", "") == []


def test_of_very_long_texts_all_went_and_all_came() -> None:
    before, after = "a " * MAX_WORDS + "b", "a " * MAX_WORDS + "c"
    assert differences(before, after) == [("gone", before), ("new", after)]


@given(st.text(alphabet="ab \n", max_size=40), st.text(alphabet="ab \n", max_size=40))
def test_both_texts_can_be_read_out_of_it(before: str, after: str) -> None:
    parts = differences(before, after)

    assert "".join(part.text for part in parts if part.kind != "new") == before
    assert "".join(part.text for part in parts if part.kind != "gone") == after
