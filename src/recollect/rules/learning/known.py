"""What needs no proposal: what a rule file or a configuration says already, and what was rejected."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from re import Pattern
from typing import Any

from recollect.engine.language import terms_of
from recollect.rules.learning.clauses import clauses_in, plain_of
from recollect.rules.learning.cues import folded
from recollect.rules.learning.repetition import Memory, Rarity

# So much of what a rule says, by weight of its words, stands in one sentence already.
COVERED = 0.7
# To say no once is meant for other words, too.
REJECTED = 0.5
_FEWEST_SHARED = 2
# Where a language forbids by an ending or a beginning, the usual verbs have it.
_FORBIDS = re.compile(
    folded(
        r"(?<!\w)(?:do ?n'?t|not|never|no|avoid|stop|without|nunca|jamás|evita|não|evite|jamais|pas|mai|non"
        r"|nie|niemals|nicht|keine?n?|vermeide|niet|nooit|geen|vermijd|nigdy|unikaj|nikdy|vyhýbej"
        r"|ne(?:použív|přidáv|měň|maž|piš|děl|uprav|vytvář|commit|push|spoušt|sah|vklád)\w*"
        r"|не|никогда|ніколи|уникай|избегай|jangan(?:lah)?|tidak|hindari|đừng|không|tránh|asla|kaç[ıi]n"
        r"|(?:kullan|ekle|sil|değiştir|yap|yaz|oluştur|dokun|koy|et|b[ıi]rak|çal[ıi]şt[ıi]r)m[ae]"
        r"(?:y[ıi]n(?:[ıi]z)?)?)(?!\w)"
        r"|不要|不准|不许|不得|[别別勿]|禁止|避免|ないで|しない|するな|ません|やめて|避け|지 ?(?:마|말|않)|금지"
    )
)
# What is not to be forgotten is to be done; "tabs, not spaces" asks for tabs.
_ASKS = re.compile(
    folded(
        r"(?:do ?n'?t|never|not) forget|not only|no (?:te |se )?olvid|n'oubli\w+ pas|não (?:se )?esque"
        r"|non dimentic|nicht vergessen|vergiss nicht|vergeet niet|niet vergeten|nie zapom|nezapom|не забу"
        r"|jangan lupa|đừng quên|unutma|不要忘|[别別]忘|忘れないで|忘れず|잊지 ?(?:마|말)"
        r"|(?<=\w), (?:and )?(?:not|never|no) (?:\w+ ){0,2}\w+$"
    )
)

# How much something is wanted, not what.
_URGES = re.compile(
    r"(?<!\w)(?:always|ever|must|should|please|siempre|sempre|toujours|immer|altijd|zawsze|всегда|завжди)(?!\w)"
)
# A rule of a linter that is on, as JSON, JavaScript and YAML put it: alone, in a list or with a level.
_SWITCHED_ON = (
    r"""(?<![\w-])(?:{names})["']?\s*[:=]\s*[\[{{]?\s*(?:-\s*)?(?:["']?level["']?\s*:\s*)?["']?"""
    r"""(?:error|warn|on|true|True|[12])\b"""
)
# Among the rules that are asked for, and not among those that are let be.
_SELECTED = (
    r"""(?<![\w-])(?:extend-)?select\s*=\s*(?:\[[^\]]*["'](?:{codes})["']|(?:\w+,\s*)*(?:{codes})\b)"""
)


class Known:
    """Statements, compared with by their words and by whether they forbid."""

    def __init__(self, statements: Iterable[str], rarity: Rarity, *, share: float) -> None:
        self._share = share
        self._statements: Memory[bool] = Memory(rarity)
        for statement in statements:
            self._statements.keep(_terms(statement), forbids(statement))

    def says(self, rule: str) -> bool:
        terms = _terms(rule)
        forbidden = forbids(rule)
        return any(
            len(shared) >= min(_FEWEST_SHARED, len(terms)) and forbids_too == forbidden
            for shared, forbids_too in self._statements.holding(terms, self._share)
        )


def forbids(text: str) -> bool:
    return _FORBIDS.search(_ASKS.sub(" ", plain_of(text).rstrip(" .!"))) is not None


def _terms(text: str) -> frozenset[str]:
    """What it is about: whether that is forbidden is compared apart."""
    return frozenset(terms_of(_URGES.sub(" ", _FORBIDS.sub(" ", plain_of(text)))))


def statements_in(texts: Iterable[str]) -> Iterator[str]:
    """The sentences of rule files, and what the settings among them amount to."""
    for text in texts:
        for pattern, says in _settings():
            if pattern.search(text):
                yield from (clause.text for clause in clauses_in(says, says))
        for line in text.splitlines():
            yield from (clause.text for clause in clauses_in(line, line))


@cache
def _settings() -> tuple[tuple[Pattern[str], str], ...]:
    told = tomllib.loads((files(__package__) / "settings.toml").read_text("utf-8"))
    return tuple((_found(each), each["says"]) for each in told["setting"])


def _found(setting: dict[str, Any]) -> Pattern[str]:
    ways = [setting["found"]] if "found" in setting else []
    if switched := setting.get("switched"):
        ways.append(_SWITCHED_ON.format(names="|".join(switched)))
    if selected := setting.get("selected"):
        ways.append(_SELECTED.format(codes="|".join(selected)))
    return re.compile("|".join(ways))
