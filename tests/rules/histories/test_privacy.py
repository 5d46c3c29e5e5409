"""What nobody may see is not stored, and what nobody agreed to is not analysed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.access.roles import RoleTooLow
from recollect.errors import NotFound
from recollect.rules.histories.importing import Import
from tests.rules.histories.conftest import Person, chat

pytestmark = pytest.mark.anyio

Dump = Callable[[], Awaitable[str]]


def github_token() -> str:
    return "ghp_" + "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789ABCDEFGH") for _ in range(36))


async def test_no_secret_is_in_any_column(ana: Person, everything_stored: Dump) -> None:
    words = [github_token() for _ in range(8)]
    told = chat(
        f"Use {words[0]} to push.",
        f"I used {words[1]}.",
        session=f"session {words[2]}",
        title=f"About {words[3]}",
        author=f"Ana {words[4]}",
        project=f"/shop/{words[5]}",
        source=f"/chats/{words[6]}.jsonl",
    )
    doing = replace(told.turns[0], doing=f"Bash git push https://{words[7]}@example.com")

    imported = await ana.add(replace(told, turns=(doing, told.turns[1])))
    again = await ana.add(replace(told, turns=(doing, told.turns[1])))

    stored = await everything_stored()
    assert "to push." in stored
    assert [word for word in words if word in stored or word[4:20] in stored] == []
    assert sum(imported.masked.values()) == 3
    assert again.known_turns == 2
    assert again.ids == imported.ids
    [kept] = await ana.chats()
    assert all(turn.masked for turn in await ana.turns(kept.id))


async def test_sessions_whose_names_were_secrets_stay_two(ana: Person) -> None:
    imported = await ana.add(
        chat("One.", session=github_token()), chat("Two.", session=github_token(), start=None)
    )
    assert len(set(imported.ids)) == 2


@pytest.mark.parametrize(("before", "after"), [(970, 1_100), (990, 980), (2_000, 980)])
async def test_a_secret_where_a_long_text_is_cut_is_not_stored_by_half(
    ana: Person, everything_stored: Dump, tmp_path: Path, before: int, after: int
) -> None:
    word = github_token()
    long = f"{'x ' * (before // 2)}{word}{' y' * (after // 2)}"
    command = f"{'a' * (before % 100)} {word}"
    (tmp_path / "chat.json").write_text(
        '{"messages": [{"role": "user", "content": "Go on."},'
        f' {{"role": "assistant", "content": [{{"type": "text", "text": "{long}"}},'
        f' {{"type": "tool_use", "name": "Bash", "input": {{"command": "{command}"}}}}]}},'
        f' {{"role": "user", "content": "{"z " * 32_750}{word}"}}]}}'
    )
    (tmp_path / "story.md").write_text(
        f"## {'t' * (before % 100)} {word}\n\n_**User**_\n\nGo on.\n\n---\n\n_**Agent**_\n\n"
        f'<tool-use data-tool-name="Bash">\n{command}\n</tool-use>\n\n'
        f"<details><summary>{'s ' * 140}{command}</summary>\n</details>\n\n---\n\n_**User**_\n\nThanks.\n"
    )
    # A title is cut after 500 letters.
    (tmp_path / "titled.json").write_text(
        json.dumps({"title": "t " * 245 + word, "messages": [{"role": "user", "content": "Go on."}]})
    )
    outcome = await Import(ana.histories, ana.services.tenancy, ana.id).run([tmp_path], lambda *_: None)

    assert outcome.whole.turns == 6
    stored = await everything_stored()
    assert [part for part in (word[:12], word[10:22], word[-12:]) if part in stored] == []


async def test_nothing_is_analysed_before_its_author_agrees(ana: Person, ben: Person) -> None:
    assert not await ana.may_be_analysed()
    await ana.agrees()
    assert await ana.may_be_analysed()
    assert not await ben.may_be_analysed()
    await ana.agrees(False)
    assert not await ana.may_be_analysed()


async def test_agreement_holds_where_it_was_given(ana: Person) -> None:
    shop = await ana.workspace()
    await ana.agrees()
    assert not await ana.may_be_analysed(shop)
    await ana.agrees(workspace=shop)
    await ana.agrees(False)
    assert await ana.may_be_analysed(shop)
    assert not await ana.may_be_analysed()


async def test_a_workspace_can_rely_on_its_own_but_overrules_nobody(ana: Person, ben: Person) -> None:
    shop = await ana.workspace((ben, "member"))
    assert (await ana.do(lambda tx: ana.histories.settings(tx, shop))).consent == "author"

    await ana.do(lambda tx: ana.histories.change_settings(tx, shop, "workspace"))

    assert (await ben.do(lambda tx: ben.histories.settings(tx, shop))).consent == "workspace"
    assert await ben.may_be_analysed(shop)
    assert not await ben.may_be_analysed()
    await ben.agrees(False, workspace=shop)
    assert not await ben.may_be_analysed(shop)
    assert await ana.may_be_analysed(shop)


async def test_only_owners_and_admins_say_what_a_workspace_relies_on(ana: Person, ben: Person) -> None:
    shop, theirs = await ana.workspace((ben, "reviewer")), await ana.workspace()
    with pytest.raises(RoleTooLow):
        await ben.do(lambda tx: ben.histories.change_settings(tx, shop, "workspace"))
    with pytest.raises(NotFound):
        await ben.do(lambda tx: ben.histories.change_settings(tx, theirs, "workspace"))
    with pytest.raises(NotFound):
        await ben.agrees(workspace=theirs)


async def test_agreements_are_recorded_when_they_change(ana: Person, everything_stored: Dump) -> None:
    shop = await ana.workspace()
    for granted in (True, True, False, True):
        await ana.agrees(granted, how="by letter")
    await ana.agrees(False, workspace=shop)

    said = await ana.do(lambda tx: ana.histories.consents(tx, ana.id))

    assert [(each.workspace_id, each.granted, each.how) for each in said] == [
        (None, True, "by letter"),
        (shop, False, "test"),
    ]
    assert (await everything_stored()).count("by letter") == 3
