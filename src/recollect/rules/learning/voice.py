"""The user's own voice in a turn: what was injected, pasted or quoted is set aside."""

from __future__ import annotations

import re

# Who has more to say than this has pasted a document; what is wanted of it stands before or after.
LONGEST_HEAD = 2_000
LONGEST_TAIL = 500
# Shorter lines may well be in both mouths: "run the tests".
SHORTEST_QUOTE = 25

# Tags that wrap what the user typed; whatever stands inside any other was put there by a program, or is code.
_VOICE_TAGS = frozenset(
    [
        "user_query",
        "user_message",
        "user_input",
        "query",
        "message",
        "b",
        "i",
        "em",
        "strong",
        "kbd",
        "code",
        "p",
        "u",
    ]
)
# What these begin need not end: the text may have been cut.
_PROGRAM_TAGS = frozenset(["system-reminder", "system_reminder", "local-command-stdout", "task-notification"])
_TAG = re.compile(r"</?([a-zA-Z][\w:-]{0,40})(?:\s[^<>]{0,300})?>")
_FENCED = re.compile(r"(```|~~~|\"\"\").*?(?:\1|\Z)", re.DOTALL)
_FRONT_MATTER = re.compile(r"^---\n(?:[\w-]+:.*\n)+---$", re.MULTILINE)
# What a program says in the user's name: everything after it is the program's.
_PROGRAM = re.compile(
    r"""
    ^(?:Caveat:\ The\ messages\ below
      | This\ session\ is\ being\ continued\ from
      | \#\ (?:AGENTS|CLAUDE|GEMINI)\.md\ instructions
      | \[Request\ interrupted\ by\ user
      | Operation\ stopped\ by\ hook
      | Base\ directory\ for\ this\ skill
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
# A plan that the assistant wrote comes back as the user's turn when it is accepted.
_PLAN = re.compile(
    r"^[^\w\n]{0,9}(?:implement|execute|carry out) (?:the following plan|this plan|the plan as)\b",
    re.IGNORECASE | re.MULTILINE,
)
_MACHINE_LINE = re.compile(
    r"""
    ^[ \t]*(?:
        [>|│┃]                                           # quoted, or a table
      | [✓✔✗✘×●○]\ ?\w                                  # the outcome of a test
      | [$❯»]\ ?(?:\w|\.?/)                              # a prompt and a command
      | [!/]\w[\w-]*(?:\s|$)                             # a command to the assistant's program
      | at\ [\w.$<>\[\]/]+\ ?\( | File\ ".{0,200}",\ line\ | Traceback\ \(
      | \d{1,6}\s*[|│]\s                                 # a numbered line of source
      | (?:[\w@./-]+:)*\d+:\d+:?\s                       # a place in a file
      | (?:[\w@./-]+:){2,}\s                             # a task of a build
      | [VDIWEF]/[\w.-]+\s*\(\s*\d+\):                # a phone's log
      | (?:create|delete|rename|copy)\ (?:mode\ \d|\S+\ =>) | \d+\ files?\ changed
      | -?\ ?(?:name|on|jobs|steps|uses|run|env|with|image|ports|volumes|services|command)\s?:(?:\s|$)  # YAML
      | (?:[+-]{3}\ |@@\ |diff\ --git\ |index\ [0-9a-f]{6})
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d | \[?\d\d:\d\d:\d\d
      | (?:\w*(?:Error|Exception|Warning)|npm\ ERR!|error\ TS\d+|error|warning|fatal|panic)\b\s?[:!(\[]
      | (?:FAIL|PASS|INFO|DEBUG|WARN|ERROR)\b
      | (?:import|export|const|let|var|function|return|public|private|package|using|fn|func|struct|interface
          |type|async|await)\s[^\n]*[;{}=(]\s*$
      | (?:def|class)\s\w+[^\n]*:\s*$ | from\s\S+\simport\b
      | (?:git|npm|npx|pnpm|yarn|bun|pip|python3?|cargo|docker|kubectl|cd|ls|cat|chmod|curl|sudo
          |go(?!\ (?:ahead|to|back|on|with|through|over|and|for)\b)
          |make(?!\ (?:sure|it|this|that|these|them|all|the|an?|some|any|every|each|no|your|my|our|use)\b))
        \ [^\n]*(?:\s--?\w|&&|[\w.~]/)[^\n]*$            # a command with options or paths
      | [{}()\[\];<>]+ | [\w."'-]+\s*[:=]\s*[\[{"'\d][^\n]*[,;\]}"']\s*$
    ).*$
    """,  # noqa: RUF001
    re.VERBOSE | re.MULTILINE,
)
# What claims to be said by somebody else is not the user's: a line of a log, or words in quotation marks.
_ROLE = r"(?:system|assistant|developer|tool|admin(?:istrator)?)(?:[ ](?:prompt|message|note|override))?\s*:"
_OTHERS = re.compile(
    rf"^[^\w\n]{{0,9}}{_ROLE}.*$|[\"“«`'(\[]\s*{_ROLE}[^\n\"”»`]*", re.IGNORECASE | re.MULTILINE
)
# Lines without an empty one between them: if so many of them are a machine's, all are.
_BLOCK = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_MOSTLY = 0.4
_SHORTEST_BLOCK = 3
_LINE = re.compile(r"[^\n]+")
_BLANK = re.compile(r"[^\n]")
_LEADING = re.compile(r"^[\s>*#\d.)-]+")


def own_voice(text: str, said_before: str = "") -> str:
    """The text with everything that is not the user's own blanked out, each character in its place."""
    shown = text
    if "<" in text:
        shown = _without_tagged(shown)
    if "```" in text or "~~~" in text or '"""' in text:
        shown = _FENCED.sub(_blank, shown)
    if "---" in text:
        shown = _FRONT_MATTER.sub(_blank, shown)
    for ending in (_PROGRAM, _PLAN):
        if found := ending.search(shown):
            shown = shown[: found.start()] + _blanked(shown[found.start() :])
    if ":" in text:
        shown = _OTHERS.sub(_blank, shown)
    shown = _BLOCK.sub(_block, shown)
    shown = _LINE.sub(lambda line: _line(line.group(), said_before), shown)
    if len(shown) > LONGEST_HEAD + LONGEST_TAIL:
        middle = shown[LONGEST_HEAD:-LONGEST_TAIL]
        shown = shown[:LONGEST_HEAD] + _blanked(middle) + shown[-LONGEST_TAIL:]
    return shown


def _block(found: re.Match[str]) -> str:
    text = found.group()
    shown, machines = _MACHINE_LINE.subn(_blank, text)
    lines = text.count("\n") + 1
    return _blanked(text) if lines >= _SHORTEST_BLOCK and machines >= lines * _MOSTLY else shown


def _without_tagged(text: str) -> str:
    parts: list[str] = []
    done = 0
    unclosed: set[str] = set()
    for tag in _TAG.finditer(text):
        name = tag[1]
        if tag.start() < done or name in unclosed:
            continue
        end = tag.end()
        if name.lower() not in _VOICE_TAGS and not tag.group().startswith("</"):
            closing = text.find(f"</{name}>", end)
            if closing >= 0:
                end = closing + len(name) + 3
            elif name in _PROGRAM_TAGS:
                end = len(text)
            else:
                unclosed.add(name)
                continue
        parts += [text[done : tag.start()], _blanked(text[tag.start() : end])]
        done = end
    return "".join([*parts, text[done:]])


def _line(line: str, said_before: str) -> str:
    """Blank if it is mostly signs, or if the assistant had just said it."""
    letters = sum(map(str.isalpha, line))
    # Too few letters and spaces: a path, a hash, a row of numbers.
    if letters + line.count(" ") < len(line) * 0.6:
        return _blanked(line)
    if said_before and len(line) >= SHORTEST_QUOTE:
        bare = _LEADING.sub("", line).strip()
        if len(bare) >= SHORTEST_QUOTE and bare in said_before:
            return _blanked(line)
    return line


def _blank(found: re.Match[str]) -> str:
    return _blanked(found.group())


def _blanked(text: str) -> str:
    return _BLANK.sub(" ", text)
