"""From chats to proposals: what is repeated counts; what is known or was rejected is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from recollect.rules.learning.models import Proposal
from recollect.rules.learning.pipeline import propose
from tests.rules.learning.talk import chat

WISH = "Update the changelog with these changes"


def proposed(*chats: object, **more: object) -> list[Proposal]:
    return propose(chats, **more)  # type: ignore[arg-type]


def only(proposals: list[Proposal]) -> Proposal:
    (proposal,) = proposals
    return proposal


def test_asked_for_once_it_is_a_task_and_asked_for_again_a_rule() -> None:
    assert not proposed(chat(WISH))
    proposal = only(
        proposed(
            chat(WISH, session="one"),
            chat("update the changelog with the changes", session="two", day=1),
            chat("now update the changelog with your changes", session="three", day=2),
        )
    )
    assert proposal.kind == "repeated"
    # The first time it was a task like any other.
    assert [evidence.session for evidence in proposal.evidence] == ["two", "three"]


def test_a_chore_asked_for_again_in_other_words_is_one_rule() -> None:
    proposal = only(
        proposed(
            chat("Please add a test for the parser.", session="one"),
            chat("Can you write tests for the new importer?", session="two", day=1),
            chat("please run the tests", session="three", day=2),
        )
    )
    assert (proposal.kind, proposal.category) == ("repeated", "testing")
    assert [evidence.session for evidence in proposal.evidence] == ["two", "three"]


def test_what_most_say_of_a_chore_speaks_for_all() -> None:
    proposal = only(
        proposed(
            chat(
                "add a test for this",
                "please write a test for this",
                "Please run the tests of the new importer on Windows and on an old Mac.",
                "please, write a test for this",
            )
        )
    )
    assert proposal.rule_text == "Write a test for this."


def test_another_persons_chore_is_not_asked_for_again() -> None:
    said = "Can you write tests for the new importer?"
    assert not proposed(chat("Please add a test for the parser."), chat(said, session="two", author="ben"))


def test_a_chore_that_is_a_rule_already_is_more_evidence_of_it() -> None:
    existing = "Write tests for the importer."
    proposal = only(
        proposed(
            chat("Please add a test for the parser.", "please run the tests once more"), existing=[existing]
        )
    )
    assert proposal.repeats == existing


def test_a_rule_that_says_more_of_a_chore_is_another() -> None:
    existing = "Run the tests in a container without a network and with a clock of its own."
    (proposal,) = proposed(
        chat("Please add a test for the parser.", "please run the tests once more"), existing=[existing]
    )
    assert proposal.repeats is None


def test_a_file_that_is_named_again_is_no_wish_that_is_repeated() -> None:
    assert not proposed(
        chat(
            "now read @src/shop/invoices/rounding_of_prices.py",
            "rename the loop in @src/shop/invoices/rounding_of_prices.py",
            "split @src/shop/invoices/rounding_of_prices.py in two",
        )
    )


def test_a_second_export_of_a_session_says_nothing_again() -> None:
    said = chat(WISH, session="5efac2d4-9a28-49d9-9f1c-2f3ce2f8d7aa", day=1)
    first = replace(said, format="specstory", source="2026-03-03_09-00-12Z-changelog.md")
    turns = [replace(turn, at=turn.at and turn.at + timedelta(minutes=3)) for turn in said.turns]
    second = replace(first, source="2026-03-03_09-00Z-changelog.md", turns=tuple(turns))
    assert not proposed(first, second)
    assert proposed(first, replace(second, session="another"))


def test_what_has_common_words_alone_is_no_rule() -> None:
    assert not proposed(chat("no, you should be", "you must not do that"))


def test_a_thank_you_said_ten_times_is_no_rule() -> None:
    assert not proposed(
        chat(*["ok, go ahead", "thanks, great", "What do you think?", "the tests are failing"] * 10)
    )


def test_a_turn_that_a_resumed_session_repeats_was_said_once() -> None:
    assert not proposed(chat(WISH), chat(WISH, session="monday, resumed"))


def test_the_same_wish_in_other_words_is_one_proposal() -> None:
    proposal = only(
        proposed(
            chat("Never use print for logging in the services.", session="one"),
            chat("don't use print for logging!", session="two", day=1),
        )
    )
    assert [evidence.session for evidence in proposal.evidence] == ["one", "two"]


def test_more_sessions_and_more_authors_make_it_surer() -> None:
    said = "Never use print for logging in the services."
    once = only(proposed(chat(said)))
    twice = only(proposed(chat(said), chat(said, session="tuesday", day=1)))
    by_two = only(proposed(chat(said), chat(said, session="tuesday", author="ben", day=1)))
    assert once.confidence < twice.confidence
    assert once.confidence < by_two.confidence <= 1


def test_what_two_people_ask_for_is_the_teams() -> None:
    said = "Never use print for logging in the services."
    assert only(proposed(chat(said))).scope.reach == "project"
    assert only(proposed(chat(said))).scope.project == "shop"
    assert only(proposed(chat(said), chat(said, author="ben", session="two"))).scope.reach == "team"


def test_how_the_assistant_is_to_answer_is_personal() -> None:
    proposal = only(proposed(chat("From now on, never ask me to confirm, just answer.")))
    assert (proposal.category, proposal.scope.reach) == ("agent-behaviour", "personal")


def test_what_the_rule_file_says_already_is_left_out() -> None:
    said = "Always write commit messages in the imperative mood."
    rules = "# Rules\n\n- Write all commit messages in the imperative mood, please.\n- Be kind.\n"
    assert proposed(chat(said))
    assert not proposed(chat(said), texts_of=lambda _: [rules])


def test_a_rule_file_that_says_the_opposite_leaves_it_in() -> None:
    said = "Never write commit messages in the imperative mood."
    assert proposed(chat(said), texts_of=lambda _: ["- Write commit messages in the imperative mood."])


SEMICOLONS, NO_SEMICOLONS = "Always use semicolons.", "Never use semicolons."
NO_LOGS = "Never use console.log."
COMMAS = "Always use trailing commas."
UNUSED = "Always remove unused imports."


@pytest.mark.parametrize(
    ("said", "configuration"),
    [
        ("We always use single quotes for strings.", '{"singleQuote": true}'),
        ("Always indent with tabs.", "[*]\nindent_style = tab\n"),
        (UNUSED, '[tool.ruff.lint]\nselect = ["E", "F401"]\n'),
        (UNUSED, "[flake8]\nselect = E,F401\n"),
        (UNUSED, '{"compilerOptions": {"noUnusedLocals": true}}'),
        (SEMICOLONS, '{"semi": true}'),
        (SEMICOLONS, "rules: { semi: ['error', 'always'] }"),
        (SEMICOLONS, '{"rules": {"semi": "error"}}'),
        (NO_SEMICOLONS, '{"rules": {"semi": ["error", "never"]}}'),
        (NO_SEMICOLONS, "rules:\n  semi: [warn, never]\n"),
        (NO_LOGS, '{"rules": {"no-console": "error"}}'),
        (NO_LOGS, "rules:\n  no-console:\n    - warn\n"),
        (NO_LOGS, '{"suspicious": {"noConsole": {"level": "error"}}}'),
        (COMMAS, '{"comma-dangle": ["error", "always-multiline"]}'),
    ],
)
def test_what_the_formatter_or_linter_sees_to_is_left_out(said: str, configuration: str) -> None:
    assert proposed(chat(said))
    assert not proposed(chat(said), texts_of=lambda _: [configuration])


@pytest.mark.parametrize(
    ("said", "configuration"),
    [
        (SEMICOLONS, '{"rules": {"semi": ["error", "never"]}}'),
        (NO_SEMICOLONS, '{"rules": {"semi": ["error", "always"]}}'),
        (SEMICOLONS, '{"rules": {"semi": "off"}}'),
        (NO_LOGS, '{"rules": {"no-console": "off"}}'),
        (NO_LOGS, '{"rules": {"no-console": 0}}'),
        (NO_LOGS, '{"suspicious": {"noConsole": {"level": "off"}}}'),
        (COMMAS, '{"comma-dangle": ["error", "never"]}'),
        (UNUSED, '[tool.ruff.lint]\nselect = ["E"]\nignore = ["F401"]\n'),
        (UNUSED, '{"compilerOptions": {"noUnusedLocals": false}}'),
    ],
)
def test_what_is_switched_off_is_not_seen_to(said: str, configuration: str) -> None:
    assert proposed(chat(said), texts_of=lambda _: [configuration])


def test_a_rejected_rule_stays_rejected_in_other_words() -> None:
    said = "From now on, always add an emoji to commit titles."
    assert proposed(chat(said))
    assert not proposed(chat(said), rejected=["Put an emoji into the title of each commit."])


def test_a_rejected_rule_rejects_no_other() -> None:
    said = "Never put an emoji into log messages."
    assert proposed(chat(said), rejected=["Put an emoji into the title of each commit."])


def test_more_evidence_of_an_existing_rule_is_no_other_proposal() -> None:
    existing = "Do not use print for logging."
    proposal = only(proposed(chat("I told you, never use print for logging."), existing=[existing]))
    assert proposal.repeats == proposal.rule_text == existing


def test_the_opposite_is_another_proposal() -> None:
    found = proposed(
        chat("Always use semicolons in TypeScript.", session="one"),
        chat("From now on, never use semicolons in TypeScript.", session="two", day=1),
    )
    assert sorted(each.rule_text for each in found) == [
        "Always use semicolons in TypeScript.",
        "Never use semicolons in TypeScript.",
    ]


OTHERS = [
    (
        "Always indent with tabs, never with spaces.",
        "From now on always indent with spaces, never with tabs.",
    ),
    ("Always use pnpm instead of npm.", "From now on always use npm instead of pnpm."),
    ("Always write commit messages in English.", "From now on always write commit messages in German."),
    ("Always name variables in camelCase.", "From now on always name variables in snake_case."),
    ("Always run the tests before you commit.", "From now on always run the linter before you commit."),
    ("Always use semicolons in TypeScript.", "From now on never use semicolons in TypeScript."),
]


@pytest.mark.parametrize(("rule", "said"), OTHERS)
def test_what_is_about_another_thing_or_against_it_is_neither_evidence_nor_refused(
    rule: str, said: str
) -> None:
    assert [each.repeats for each in proposed(chat(said), existing=[rule])] == [None]
    assert len(proposed(chat(said), rejected=[rule])) == 1
    assert len(proposed(chat(said), chat(rule, session="two", day=1))) == 2


def test_words_that_a_rule_was_drawn_from_are_that_rule_however_it_is_put() -> None:
    said = chat("Why are you still using vale? I told you to stop.", "Never add emojis unless asked.")
    found = proposed(said)
    drawn = {(each.source, each.turn, each.quote): rule.rule_text for rule in found for each in rule.evidence}
    texts = [rule.rule_text for rule in found]

    again = proposed(said, existing=texts, drawn=drawn)

    assert {rule.repeats for rule in again} == set(texts)
    assert not proposed(said, rejected=texts, drawn=drawn)


def test_an_existing_rule_that_nobody_mentions_is_not_proposed() -> None:
    assert not proposed(chat("Fix the login page."), existing=["Do not use print for logging."])


def test_the_surest_comes_first() -> None:
    found = proposed(
        chat("Never ever commit to main.", "Don't touch the generated files, only the templates.")
    )
    assert [each.confidence for each in found] == sorted((each.confidence for each in found), reverse=True)


def test_an_empty_chat_proposes_nothing() -> None:
    assert not proposed()
    assert not proposed(chat(), chat("", " ", "\0"))


def test_what_was_said_hundreds_of_times_is_quoted_from_the_first_and_the_latest() -> None:
    said = "Never use print for logging in the services."
    proposal = only(proposed(*(chat(said, session=f"{number}", day=number) for number in range(150))))

    sessions = [evidence.session for evidence in proposal.evidence]
    assert sessions == ["0", *(f"{number}" for number in range(51, 150))]
