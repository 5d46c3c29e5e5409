"""Words as search compares them: folded, stemmed in their language, without those that say nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import snowballstemmer

DEFAULT = "english"
# The commonest words of each language tell which one a text is in, and carry too little to search by.
_COMMON: dict[str, str] = {
    "english": """a about all also am an and any are as at be been but by can could did do does doing done for from
        had has have having he her here him his how i if in into is it its just like ll may me might more my no nor
        not of on or our re s she should so some t than that the their them then there these they this those to too
        up us ve very was we were what when where which who whom whose why will with would you your d m""",
    "spanish": """a al algo como con cual cuando de del desde donde dos e el ella ellas ellos en entre era es esa ese
        eso esta este esto estoy fue ha han hasta hay he la las le les lo los mas me mi mis muy ni no nos o os para
        pero por porque que quien se ser si sin sobre son soy su sus tambien te tiene tu tus un una uno y ya yo""",
    "german": """aber als also am an auch auf aus bei bin bis da das dass dein dem den der des die dir doch du ein
        eine einem einen einer er es euch fur hat habe haben hatte ich ihm ihn ihr im in ist ja kann man mein meine
        mich mir mit nach nicht noch nur oder sehr sein seine sich sie sind so um und uns von vor war warum was wenn
        wer wie wir wo zu zum zur""",
    "french": """a ai au aux avec bien c ce ces cette d dans de des du elle en est et eu il ils j je l la le les leur
        lui m ma mais me mes moi mon n ne nous on ont ou par pas plus pour qu quand que quel qui quoi s sa sans se
        ses si son sont suis sur t ta te tes tu un une vous y""",
    "italian": """a ad ai al alla anche che chi ci come con cosa cui da dal dalla dei del della di dove e ed era gli
        ha hai ho i il in io la le lei lo loro lui ma mi mia mio molto ne nel nella no noi non o per perche piu quando
        quello questa questo se sei si solo sono su sua suo ti tra tu tutto un una uno voi""",
    "portuguese": """a ao aos as com como da das de do dos e ela elas ele eles em entre era essa esse esta estou eu
        foi ha isso isto ja la lhe mais mas me meu minha muito na nao nas nem no nos o onde os ou para pela pelo por
        porque qual quando que quem se sem ser seu sou sua tambem te tem um uma voce""",
    "dutch": """aan al als bij dan dat de der deze die dit doen door dus een en er ge geen had heb hebben heeft hem
        het hier hij hoe ik in is ja je kan maar me meer men met mij mijn naar niet nog nu of om omdat ons ook op over
        te tot u uit van voor waar was wat we wel werd wie wij zal ze zich zij zijn zo zou""",
    "swedish": """alla att av blev da de dem den denna det detta dig din du efter ej eller en er ett for fran ha hade
        han har hon hur i ibland icke in inte ja jag kan man med men mig min mina mitt nar nu och om oss pa sa sig sin
        som till upp ut vad var vi vid""",
    "danish": """af alle andet at blev de dem den denne der deres det dette dig din dog du efter eller en er et for
        fra ham han har hende her hos hun hvad hvis hvor i ikke ind jeg jer kan man med meget men mig min mine mit nar
        ned nu og om op os pa sa sig sin skal som til ud var vi vil""",
    "norwegian": """alle at av bare ble da de den denne der det dette du eg ei en er et etter for fra ha hadde han har
        her hun hva hvem hvis hvor hvorfor i ikke inn ja jeg kan man med meg men min mitt na nar nei noe noen og ogsa
        om opp oss pa sa seg som til ut var vi vil vaere""",
    "finnish": """ei en ette han hanen he ja jos joka kanssa kuin kun me mika mina minun minulla mutta myos ne niin
        nyt olen oli olla on ovat se sen siina sina sinun taman tama te tuo vain voi""",
    "russian": """а без бы был была были было быть в вам вас во вот все вы где да для до его ее если есть же за и из
        или им их к как когда кто ли меня мне мой моя мы на не нет но о об он она они от по при с со так там то тоже
        ты у уже что чтобы это я""",
    "turkish": """ama ben bana bir biz bu cok da daha de degil en gibi hem her icin ile kim mi mu ne nerede neden o
        olarak oldugu onlar sen siz su ve veya var ya yok""",
}
_COMMON_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _language, _words in _COMMON_WORDS.items():
    for _word in _words:
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _language)

# Scripts that leave no space between words: every two neighbours are a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
_WORD = re.compile(r"\w+")
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s\b")
MAX_WORD = 64


def fold(text: str) -> str:
    """Lower case, without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def words_of(text: str) -> list[str]:
    """The words, folded, in their order."""
    folded = fold(_POSSESSIVE.sub("", text))
    found = _WORD.findall(folded)
    if folded.isascii():
        return [word[:MAX_WORD] for word in found]
    return [part for word in found for part in _parts(word[:MAX_WORD])]


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
    votes: dict[str, int] = {}
    for word in words:
        for language in _LANGUAGES_OF.get(word, ()):
            votes[language] = votes.get(language, 0) + 1
    if not votes:
        return tuple(_COMMON)
    most = max(votes.values())
    return tuple(language for language in _COMMON if votes.get(language) == most)


def terms_of(text: str) -> list[str]:
    """The terms of a text that is to be found, one for each word that carries something."""
    words = words_of(text)
    language = languages_of(words)[0]
    return [stem(word, language) for word in _telling(words, (language,))]


def query_terms(text: str) -> list[tuple[str, ...]]:
    """The terms to look for, each in all the forms that it may have been stored in: a question may be too
    short to tell its language by."""
    words = words_of(text)
    languages = languages_of(words)
    likely = languages if len(languages) < len(_COMMON) else tuple(_COMMON)
    common_in = languages if len(languages) < len(_COMMON) else ()
    forms = (
        tuple(dict.fromkeys(stem(word, language) for language in (*likely, DEFAULT)))
        for word in dict.fromkeys(_telling(words, common_in))
    )
    return list(dict.fromkeys(forms))


def _telling(words: list[str], languages: tuple[str, ...]) -> list[str]:
    """Without the common ones; with them if there is nothing else, so that "who am I" can be asked."""
    telling = [word for word in words if not any(word in _COMMON_WORDS[language] for language in languages)]
    return telling or words


@lru_cache(maxsize=200_000)
def stem(word: str, language: str) -> str:
    if not word.isalpha():
        return word
    return str(_stemmer(language).stemWord(word))


@lru_cache
def _stemmer(language: str) -> Any:
    return snowballstemmer.stemmer(language)
