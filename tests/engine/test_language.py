"""Words are compared as people mean them: in their language, without accents and endings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.language import MAX_TERMS, languages_of, query_terms, terms_of, words_of


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("I was hiking in the mountains", "hikes mountain"),
        ("Me encantan las canciones de mi abuela", "canción"),
        ("Ich habe die Bücher meiner Schwester gelesen", "Buch Bücher"),
        ("Nous avons acheté des maisons à Lyon", "maison"),
        ("Eu gosto de cozinhar com minhas filhas", "cozinha filha"),
        ("Мы читали книги", "книга"),
        ("Ana's café is in Málaga", "ana cafe malaga"),
        ("I live in La Paz", "Where do I live?"),
        ("Vivo en Madrid", "¿Dónde vivo?"),
    ],
)
def test_a_word_is_found_in_another_form(said: str, asked: str) -> None:
    stored = set(terms_of(said))
    for forms in query_terms(asked):
        assert stored & set(forms), forms


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What did she say about the weather", "english"),
        ("¿Dónde está la casa de mi hermana?", "spanish"),
        ("Ich weiß nicht, was das ist", "german"),
        ("Je ne sais pas où est mon chien", "french"),
        ("Non so dove sono le mie chiavi", "italian"),
        ("Eu não sei onde está a minha chave", "portuguese"),
        ("Ik weet niet waar mijn fiets is", "dutch"),
        ("Я не знаю, где мой ключ", "russian"),
    ],
)
def test_a_sentence_tells_its_language(text: str, language: str) -> None:
    assert languages_of(words_of(text)) == (language,)


def test_what_carries_nothing_is_left_out_unless_there_is_nothing_else() -> None:
    assert terms_of("What is the name of the dog") == ["name", "dog"]
    assert query_terms("who am I") != []


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    for said, asked in (
        ("我喜欢在山里徒步旅行", "徒步"),
        ("我" * 70 + "过敏", "过敏"),
        ("저는 서울에 살아요", "서울"),
    ):
        assert all(set(terms_of(said)) & set(forms) for forms in query_terms(asked)), asked


def test_a_question_of_a_thousand_words_asks_for_so_many_terms_only() -> None:
    assert len(query_terms(" ".join(f"word{number}" for number in range(1_000)))) == MAX_TERMS


def test_what_says_nothing_in_the_language_of_a_question_is_asked_for_if_nothing_else_is_stored() -> None:
    # "e" and "o" are common in Portuguese, "s" in English, and the three tell no language.
    assert set(terms_of("e o s")) & {form for forms in query_terms("e o s") for form in forms}


@given(st.text(max_size=300))
def test_every_text_has_terms_that_find_it(text: str) -> None:
    stored = terms_of(text)
    assert all(term and " " not in term for term in stored)
    if stored:
        assert any(set(forms) & set(stored) for forms in query_terms(text))
