"""Words as search compares them: folded, stemmed in their language, without those that say nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources
from itertools import islice
from typing import Any

import snowballstemmer

DEFAULT = "english"


def _read_common_words() -> dict[str, frozenset[str]]:
    """The commonest words of each language; the file says more."""
    found: dict[str, frozenset[str]] = {}
    language = ""
    for line in resources.files(__package__).joinpath("common_words.txt").read_text().splitlines():
        if line.startswith("  "):
            found[language] = found.get(language, frozenset()) | frozenset(line.split())
        elif not line.startswith("#"):
            language = line.strip()
    return found


_COMMON_WORDS = _read_common_words()
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _language, _words in _COMMON_WORDS.items():
    for _word in _words:
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _language)

# Scripts that leave no space between words: every two neighbours are a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
_WORD = re.compile(r"\w+")
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s\b")
MAX_WORD = 64
# A question that is longer has said by then what it is about.
MAX_TERMS = 64
# By so much another language must be likelier than the default: half a word that no other language has.
CLEARLY = 0.5


def fold(text: str) -> str:
    """Lower case, without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    # Korean syllables come apart like accents do, and belong together.
    return unicodedata.normalize("NFC", bare)


def words_of(text: str) -> list[str]:
    """The words, folded, in their order."""
    folded = fold(_POSSESSIVE.sub("", text))
    found = _WORD.findall(folded)
    if folded.isascii():
        return [word[:MAX_WORD] for word in found]
    return [part[:MAX_WORD] for word in found for part in _parts(word)]


def _parts(word: str) -> Iterator[str]:
    position = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > position:
            yield word[position : run.start()]
        together = run.group()
        yield from (together[at : at + 2] for at in range(max(1, len(together) - 1)))
        position = run.end()
    if position < len(word):
        yield word[position:]


def languages_of(words: Iterable[str]) -> tuple[str, ...]:
    """The likeliest language; several if nothing tells them apart, all if nothing tells at all."""
    votes = _votes(words)
    if not votes:
        return tuple(_COMMON_WORDS)
    most = max(votes.values())
    return tuple(language for language in _COMMON_WORDS if votes.get(language) == most)


def language_of(text: str) -> str | None:
    """The language of a text, if its words tell one."""
    likely = languages_of(words_of(text))
    return likely[0] if len(likely) == 1 else None


def _votes(words: Iterable[str]) -> dict[str, float]:
    """A word that several languages have says less for each of them."""
    votes: dict[str, float] = {}
    for word in words:
        having = _LANGUAGES_OF.get(word, ())
        for language in having:
            votes[language] = votes.get(language, 0.0) + 1 / len(having)
    return votes


def uncommon(words: Iterable[str]) -> list[str]:
    """Those that are among the commonest of no language."""
    return [word for word in words if word not in _LANGUAGES_OF]


def terms_of(text: str) -> list[str]:
    """The terms of a text that is to be found, one for each word that carries something."""
    words = words_of(text)
    votes = _votes(words)
    language = DEFAULT
    # In doubt it is the default, whose forms every query asks for as well: "I live in La Paz" is English.
    if max(votes.values(), default=0.0) >= votes.get(DEFAULT, 0.0) + CLEARLY:
        language = max(_COMMON_WORDS, key=lambda each: votes.get(each, 0.0))
    return [stem(word, language) for word in _telling(words, (language,))]


def query_terms(text: str) -> list[tuple[str, ...]]:
    """The terms to look for, each in all the forms that it may have been stored in: a question may be too
    short to tell its language by."""
    words = words_of(text)
    languages = languages_of(words)
    common_in = languages if len(languages) < len(_COMMON_WORDS) else ()
    asked = _telling(words, common_in)
    # What is stored in the default language has none of its common words; it may have the others.
    if _common_in((DEFAULT,)).issuperset(asked):
        asked = words
    forms = (_forms_of(word, languages) for word in dict.fromkeys(asked))
    return list(islice(dict.fromkeys(forms), MAX_TERMS))


@lru_cache(maxsize=50_000)
def _forms_of(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stem(word, language) for language in (*languages, DEFAULT)))


def _telling(words: list[str], languages: tuple[str, ...]) -> list[str]:
    """Without the common ones; with them if there is nothing else, so that "who am I" can be asked."""
    common = _common_in(languages)
    return [word for word in words if word not in common] or words


@lru_cache
def _common_in(languages: tuple[str, ...]) -> frozenset[str]:
    return frozenset().union(*(_COMMON_WORDS[language] for language in languages))


@lru_cache(maxsize=200_000)
def stem(word: str, language: str) -> str:
    if not word.isalpha():
        return word
    return str(_stemmer(language).stemWord(word))


@lru_cache
def _stemmer(language: str) -> Any:
    return snowballstemmer.stemmer(language)
