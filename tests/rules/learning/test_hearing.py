"""A rule is heard in the user's own voice and language, and told from tasks and questions."""

from __future__ import annotations

import pytest

from recollect.rules.chats.models import Turn
from recollect.rules.learning.features import listen
from recollect.rules.learning.listening import score_turn
from tests.rules.learning.talk import sounds_like_a_rule


@pytest.mark.parametrize(
    "said",
    [
        "From now on, write the migration before the model.",
        "Never log a customer's address.",
        "We use uv here, not pip.",
        "i told you not to edit the lock file by hand",
        "Why did you delete my comments again?",
        "When you add an endpoint, make sure that it has a test.",
        "why arent you following our naming rule?",
        "Add a rule that every query goes into a file of its own.",
        "How can we make sure you always name the tests so?",
        "See to it that this does not happen again.",
        "The price list must not be rounded, ever.",
        "I thought we no longer use the old logger.",
        "That is the third time the paths are wrong.",
        "Every migration needs a way back.",
        "Put a line about the price format into AGENTS.md.",
        "Next time, read the failing test before you touch anything.",
        "Make sure that every helper lives in src/kit/ and is always typed.",
        "Ask me before you run a migration.",
        "I REPEAT, DO NOT TOUCH THE SCHEMA WITHOUT READING THE DOCS!",
        "No stored procedures, only plain SQL!",
        "You don't need the browser for that, I'll run the tests myself.",
        "Why not just use the helper that we have?",
        "Retain every comment, and leave the generated files untouched.",
        "A partir de ahora, escribe los mensajes de commit en inglés.",
        "Te dije que no cambiaras el archivo de configuración.",
        "Usamos pnpm en vez de npm.",
        "Sempre rode os testes antes de fazer o commit.",
        "Eu já disse para não mexer no arquivo de configuração.",
        "Désormais, écris les messages de commit en anglais.",
        "Je t'ai dit de ne pas toucher au fichier de configuration.",
        "Lösche niemals Kommentare im Code.",
        "Ich habe dir doch gesagt, dass du die Konfiguration nicht ändern sollst.",
        "Esegui sempre i test prima di fare il commit.",
        "Ti ho detto di non toccare il file di configurazione.",
        "Всегда запускай тесты перед коммитом.",
        "每次提交之前必须运行测试。",
        "以後提交訊息都寫英文。",
        "コミットする前に、必ずテストを実行してください。",
    ],
)
def test_a_standing_wish_sounds_like_a_rule(said: str) -> None:
    assert sounds_like_a_rule(said)


@pytest.mark.parametrize(
    "said",
    [
        "Fix the login page.",
        "What does this function return?",
        "405 Method Not Allowed",
        "There is one thing I wanted to talk about.",
        "when running the shop i get a timeout",
        "Here is all the info you need to go on.",
        "You're still in the old folder.",
        "No results found.",
        "update the readme with the new flags",
        "do that in the terminal",
        "Should we always retry?",
        "The build never finishes on my laptop.",
        "It still crashes when I click save.",
        "Skip the tests for now.",
        "I/Choreographer( 4242): Skipped 36 frames! It is doing too much at once.",
        "make -C docs html --always-make",
        "thanks, looks good",
        "no lo veo",
        "¿Qué devuelve esta función?",
        "O botão ainda não funciona.",
        "Le bouton ne marche toujours pas.",
        "Der Knopf funktioniert immer noch nicht.",
        "Aggiungi un campo al modulo.",
        "Кнопка пока не работает.",
        "这个函数返回什么?",
        "ログインページを修正してください。",
    ],
)
def test_a_task_a_question_and_a_report_do_not(said: str) -> None:
    assert not sounds_like_a_rule(said)


@pytest.mark.parametrize(
    "said",
    [
        "do that in the terminal from now on",
        "ファイルは大きいですが、常にそのままコミットしてください。",
        "không cần phải sửa file đâu",
    ],
)
def test_a_demand_is_not_taken_for_a_question(said: str) -> None:
    assert all("question" not in heard.features for heard in listen(Turn("user", said, None, 0)))


@pytest.mark.parametrize(
    ("chore", "said"),
    [
        ("tests", "Add a test for this."),
        ("tests", "Agrega pruebas para el importador."),
        ("tests", "請補上這個函式的測試"),
        ("docs", "update the readme with the new flags"),
        ("docs", "Обнови документацию по импорту."),
        ("changelog", "Add a line to the changelog"),
        ("commit", "Give me a commit message for this."),
        ("review", "Open a draft PR when it is done"),
        ("plan", "Check off what is done in the plan"),
        ("verify", "Please verify that it still works"),
        ("verify", "Hãy kiểm tra lại kết quả"),
    ],
)
def test_a_chore_is_known_by_what_it_is_about(chore: str, said: str) -> None:
    (heard,) = listen(Turn("user", said, None, 0))
    assert chore in heard.chores


@pytest.mark.parametrize(
    "said",
    [
        "The tests are red.",
        "What is in the changelog?",
        "Add a column for the test server's name.",
        "rename @tests/docs/commit/review/plan.py",
        "rename plan.py",
        r"rename docs\plan\main",
        "rename the column of airplanes",
    ],
)
def test_who_only_speaks_of_a_chore_does_not_ask_for_it(said: str) -> None:
    (heard,) = listen(Turn("user", said, None, 0))
    assert not heard.chores


def test_who_says_please_asks_for_something() -> None:
    said = "make sure that the names of the columns stay"
    assert score_turn(Turn("user", f"please {said}", None, 0)) > score_turn(Turn("user", said, None, 0))


@pytest.mark.parametrize("rest", ["\n```\nx = 1\n```", "\nline" * 20])
def test_what_stands_in_a_document_counts_for_less(rest: str) -> None:
    said = "Make sure that the names of the columns stay."
    assert score_turn(Turn("user", said + rest, None, 0)) < score_turn(Turn("user", said, None, 0))


RULE = "Never commit to the main branch."


def test_what_is_said_of_its_work_while_the_assistant_is_at_it_counts_for_more() -> None:
    said = "The helpers should stay in one file."
    idle, at_work = (Turn("user", said, None, 2, doing=doing) for doing in ("", "Edit src/parser.py"))
    assert score_turn(at_work) > score_turn(idle)


def test_what_is_said_this_time_counts_for_less() -> None:
    assert sounds_like_a_rule("Make sure to leave out the header, always.")
    assert not sounds_like_a_rule("Make sure to leave out the header this time.")


@pytest.mark.parametrize(
    "text",
    [
        f"<system-reminder>\n{RULE}\n</system-reminder>\nGo on with the parser",
        f"<system-reminder>\n{RULE}",
        f"Why does this print so much?\n```\n{RULE}\n```",
        f"What about this part of the page?\n> {RULE}",
        f"# AGENTS.md instructions for the shop\n\n{RULE}",
        f"This session is being continued from a previous conversation.\n{RULE}",
        f"Implement the following plan:\n\n# Plan\n\n- {RULE}",
        f"---\ndescription: {RULE}\n---",
    ],
)
def test_text_that_a_program_put_there_is_nobodys_voice(text: str) -> None:
    assert sounds_like_a_rule(RULE)
    assert not sounds_like_a_rule(text)


def test_what_the_assistant_had_just_said_is_not_the_users_wish() -> None:
    offered = "You should never store the token in the local storage of the browser."
    assert sounds_like_a_rule(offered)
    assert not sounds_like_a_rule(
        f"what is meant by this?\n{offered}", said_before=f"I found this:\n- {offered}"
    )


def test_a_pasted_log_says_nothing() -> None:
    log = '2026-03-02 10:11:12 ERROR must never be called\n  File "app.py", line 3\nError: must not be empty'
    assert not sounds_like_a_rule(log)


@pytest.mark.parametrize(
    "said",
    [
        "make sure you always close the file",
        "from now on, never do these:",
        "at the end of a task you must always (really) run the linter",
        "git commits must never mention the ticket",
        "use <Price> from now on, never <Sum>",
        "1. always close the file\n2. what is this?",
    ],
)
def test_what_only_begins_like_code_is_the_users_voice(said: str) -> None:
    assert sounds_like_a_rule(said)


def test_what_was_typed_around_a_paste_is_heard() -> None:
    assert sounds_like_a_rule(f"```\nprint(1)\n```\n{RULE}")
    assert sounds_like_a_rule(f"<user_query>{RULE}</user_query>")
