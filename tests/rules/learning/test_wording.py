"""A rule reads as something to do, and stands in the category of its subject."""

from __future__ import annotations

import pytest

from recollect.rules.chats.models import Turn
from recollect.rules.learning.features import listen
from recollect.rules.learning.wording import category_of, rule_text


def worded(said: str) -> str:
    return rule_text(listen(Turn("user", said, None, 2))[0])


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("from now on, never push without asking", "Never push without asking."),
        ("no, dont edit the lock file", "Do not edit the lock file."),
        ("why didnt you run the linter?", "Run the linter."),
        ("why did you remove the docstrings??", "Do not remove the docstrings."),
        ("why did you start editing the fixtures?", "Do not start editing the fixtures."),
        ("why do you keep deleting the changelog?", "Stop deleting the changelog."),
        ("why did you commit to main and not to a branch?", "Do not commit to main."),
        ('never ask me "would you like to go on?"', 'Never ask me "would you like to go on".'),
        ("note that we use tabs", "Use tabs."),
        ("i didn't ask you to refactor the parser", "Do not refactor the parser unless asked."),
        ("you forgot to bump the version", "Bump the version."),
        ("No need to write a summary", "Do not write a summary."),
        ("we dont need backward compatibility", "Do without backward compatibility."),
        ("you don't need to run the linter", "Do not run the linter."),
        ("instead of mocks use real servers", "Keep to this: instead of mocks use real servers."),
        ("we use uv, not pip", "Use uv, not pip."),
        ("please make sure to close the file", "Close the file."),
        ("commit and push the changes, please!", "Commit and push the changes."),
        ("you should keep handlers thin", "Keep handlers thin."),
        ("when you rename a module, update its tests too", "When you rename a module, update its tests too."),
        ("go ahead and never touch the fixtures", "Never touch the fixtures."),
        ("every handler must be thin", "Keep to this: every handler must be thin."),
        ("you edited the wrong file", "Mind this correction: you edited the wrong file."),
        ("a partir de ahora, escribe los tests en inglés", "Escribe los tests en inglés."),
        ("il faut garder les fonctions courtes", "Garder les fonctions courtes."),
        ("Wir verwenden pnpm statt npm", "Halte dich daran: Wir verwenden pnpm statt npm."),
    ],
)
def test_what_was_said_becomes_something_to_do(said: str, rule: str) -> None:
    assert worded(said) == rule


def test_a_no_that_belongs_to_the_wish_is_kept() -> None:
    assert worded("No emojis in commit titles").lower().endswith("no emojis in commit titles.")


@pytest.mark.parametrize(
    ("rule", "category"),
    [
        ("Never push to the main branch.", "git-workflow"),
        ("Cover each fix with a test.", "testing"),
        ("Do not swallow exceptions.", "error-handling"),
        ("Keep secrets out of the logs.", "security"),
        ("Prefer snake_case names.", "naming"),
        ("Do not add a dependency for this.", "dependencies"),
        ("Update the changelog.", "documentation"),
        ("Put business logic in the domain layer.", "architecture"),
        ("Use jq, not grep.", "tooling-commands"),
        ("Indent with tabs.", "code-style"),
        ("Answer without asking me again.", "agent-behaviour"),
        ("Think of the children.", "best-practices"),
    ],
)
def test_a_rule_stands_in_the_category_of_its_subject(rule: str, category: str) -> None:
    assert category_of(rule) == category
