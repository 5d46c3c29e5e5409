"""What counts as the user's own words, whatever program wrote it down."""

from __future__ import annotations

import pytest

from recollect.rules.chats.own_words import own_words

ERROR = "For the code present, we get this error:\n```\nName 'tax' is not defined\n```\n"
ENDED = "<task-notification>\n<status>completed</status>\n</task-notification>\n"
PLAN = "Implement the plan as specified, it is attached for your reference. Do NOT edit the plan file itself."


@pytest.mark.parametrize(
    "text",
    [
        ERROR + "How can I resolve this? If you propose a fix, please make it concise.",
        ERROR + "Fix it, verify, and then give a concise explanation.",
        "Taxes, a plan\n\n" + PLAN,
        "Implement the following to-dos from the plan (the plan is attached for your reference). Go on.",
        "<system_notification>\nThe following task has finished.\n</system_notification>\n"
        "<user_query>Briefly inform the user about the task result.</user_query>",
        PLAN + "\n\nDon't stop until you have completed all the to-dos.",
        "PLEASE IMPLEMENT THIS PLAN:\n# Taxes\n\nAlways round up.",
        "Base directory for this skill: /srv/skills/taxes\n\n# Taxes\n\nAlways round up.",
        "Automation: Taxes\nAutomation ID: taxes\nAutomation memory: none\n\nAlways round up.",
        '@agent Continue: "Continue to iterate?"',
        "@agent Try Again",
        "[Request interrupted by user]",
        ENDED + "Read the output file to retrieve the result: /tmp/a task.output",
        ENDED + "Full transcript available at: /tmp/task.output\n" + ENDED,
        ENDED.replace("task", "agent"),
        "<turn_aborted>\nAlways ask before you go on.\n</turn_aborted>",
        "<skills_instructions>Always round up.</skills_instructions>",
        "<user-prompt-submit-hook>Always round up.</user-prompt-submit-hook>",
        "<always_applied_workspace_rules>Always round up.</always_applied_workspace_rules>",
        "# AGENTS.md instructions for /srv/shop\n\nAlways round up.",
        '<teammate-message from="planner">Always round up.</teammate-message>',
        "[Request interrupted by user for tool use]\n[Request interrupted by user]",
        "<command-name>/exit</command-name>\n  <command-message>exit</command-message>\n"
        "  <command-args></command-args>",
    ],
)
def test_what_a_program_writes_in_the_users_place_is_not_theirs(text: str) -> None:
    assert own_words(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        ERROR + "Fix it, verify, and then give a concise explanation. Never round up.",
        "## User Input\n\n```text\nNever round up.\n```\n\nYou **MUST** consider it.\n\nAlways ask.",
        "[Request interrupted by user for tool use]\nNever round up.",
        "<timestamp>Nov 5, 2026, 3:04 PM (UTC+1)</timestamp>\n<user_query>\nNever round up.\n</user_query>",
        "<git_status>M a.py</git_status>\n<user_query>Never round up.</user_query>",
        "<attached_files>" + "x = 1\n" * 100_000 + "</attached_files>\nNever round up.",
        ENDED + "Read the output file to retrieve the result: /tmp/task.output\nNever round up.",
    ],
)
def test_what_the_user_added_to_it_is_theirs(text: str) -> None:
    assert own_words(text) == "Never round up."


@pytest.mark.parametrize(
    "text",
    [
        ERROR + "Why?",
        "We talked of a thing. " + PLAN,
        "Automation: it is about time that we had some.",
        "## User Input\n\nis the heading to use from now on.",
        "@agent Try Again, but never round up.",
        "Use <timestamp> for the column, never <date>. Close it with </timestamp> please.",
        "<command-line> arguments come first, always.",
    ],
)
def test_what_only_looks_like_it_is_theirs(text: str) -> None:
    assert own_words(text) == text.strip()


def test_the_words_of_a_command_are_theirs() -> None:
    command = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
    assert own_words(command + "<command-args>only the taxes</command-args>") == "/review only the taxes"
