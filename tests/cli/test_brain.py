"""Facts about users and companies from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

NASTY = "\x1b]0;owned\x07[bold]x[/bold]"
REGIME = {"slug": "company_tax_regime", "category": "company_tax", "content": "Régimen: ProPyme General"}


@pytest.fixture
async def acme(ana: Person) -> str:
    made = await ana.http.post(
        "/api/companies", json={"name": "Acme", "tax_regime": "ProPyme General", "activity_name": "Comercio"}
    )
    company_id: str = made.json()["id"]
    return company_id


def of(person: Person) -> tuple[str, str]:
    return "--user", person.email


async def known(person: Person, company: str | None = None) -> dict[str, str]:
    path = f"/api/companies/{company}" if company else f"/api/users/{person.id}"
    answer = await person.http.get(f"{path}/brain")
    return {fact["slug"]: fact["content"] for fact in answer.json()["data"]}


async def history(person: Person, slug: str, company: str | None = None) -> list[dict[str, Any]]:
    path = f"/api/companies/{company}" if company else f"/api/users/{person.id}"
    changes: list[dict[str, Any]] = (await person.http.get(f"{path}/brain/{slug}/history")).json()["data"]
    return changes


async def test_a_fact_is_set_shown_listed_and_found(recollect: Run, ana: Person) -> None:
    first = await recollect(
        *("brain", "set", "city", "Lives in Lima", *of(ana), "--category", "home"),
        *("--metadata", '{"source": "chat"}', "--reason", "she said", "--json"),
    )
    changed = await recollect("brain", "set", "city", "-", *of(ana), stdin="Lives in Bonn")
    await recollect("brain", "set", "pet", f"A dog {NASTY}", *of(ana), "--category", "home")

    listed, table, some, found, shown, whole = await asyncio.gather(
        recollect("brain", "list", *of(ana), "--json"),
        recollect("brain", "list", *of(ana), "--limit", "1"),
        recollect("brain", "list", *of(ana), "--category", "home", "--all", "--json"),
        recollect("brain", "search", "where does she live?", *of(ana), "--limit", "1"),
        recollect("brain", "get", "city", *of(ana)),
        recollect("brain", "get", "city", *of(ana), "--json"),
    )

    assert first.json["extra_metadata"] == {"source": "chat", "category": "home"}
    assert changed.out == "Lives in [-Lima-]{+Bonn+}\n"
    assert [fact["slug"] for fact in listed.json] == ["city", "pet"]
    assert "Lives in Bonn" in table.out
    assert "There are more than 1" in table.err
    assert [fact["slug"] for fact in some.json] == ["pet"]
    assert found.out.endswith("Lives in Bonn city\n")
    assert shown.out == "Lives in Bonn\n"
    assert whole.json["content"] == "Lives in Bonn"
    assert "\x1b" not in (await recollect("brain", "list", *of(ana))).out


async def test_a_company_is_named_by_id_or_name_and_its_members_act_for_it(
    recollect: Run, ana: Person, ben: Person, acme: str
) -> None:
    await recollect("brain", "set", "motto", "Onward", "--company", acme)
    by_name, by_ana, by_ben, nobody, nowhere = await asyncio.gather(
        recollect("brain", "get", "motto", "--company", "acme"),
        recollect("brain", "get", "motto", "--company", "Acme", *of(ana)),
        recollect("brain", "get", "motto", "--company", acme, *of(ben)),
        recollect("brain", "list"),
        recollect("brain", "list", "--company", "Nowhere"),
    )
    await recollect("brain", "set", "motto", "Upward", "--company", "Acme", *of(ana))
    await ana.http.post("/api/companies", json={"name": "ACME"})

    assert by_name.out == by_ana.out == "Onward\n"
    assert by_ben.sentence == "Nothing is known under that slug."
    assert nobody.sentence == "Say whom it is about: --user EMAIL, or --company ID."
    assert nowhere.sentence == 'There is no company called "Nowhere".'
    assert [change["actor"] for change in await history(ana, "motto", acme)] == [str(ana.id), None]
    two = await recollect("brain", "list", "--company", "acme")
    assert two.sentence == 'There are several companies called "acme"; give the id of one.'


async def test_what_is_deleted_comes_back_and_history_shows_it_all(recollect: Run, ana: Person) -> None:
    await recollect("brain", "set", "pet", "A dog", *of(ana))
    await recollect("brain", "set", "pet", "A cat", *of(ana), "--reason", "the dog ran away")

    deleted = await recollect("brain", "delete", "pet", *of(ana), "--json")
    gone = await recollect("brain", "delete", "pet", *of(ana))
    undone = await recollect("brain", "undo", "pet", *of(ana), "--reason", "it is back")
    told = await recollect("brain", "history", "pet", *of(ana))
    listed = await recollect("brain", "history", "pet", *of(ana), "--limit", "2", "--json")
    again = await recollect("brain", "undo", "pet", *of(ana), "--json")

    assert deleted.json == {"deleted": 1}
    assert gone.sentence == "Nothing is known under that slug."
    assert "{+A cat+}" in undone.out
    assert "it is back" in undone.out
    assert "A [-dog-]{+cat+}" in told.out
    assert "the dog ran away" in told.out
    assert [change["event"] for change in listed.json] == ["ADD", "DELETE"]
    assert (again.json["event"], await known(ana)) == ("DELETE", {})
    unknown = await recollect("brain", "undo", "nothing", *of(ana))
    assert unknown.sentence == "Nothing is known under that slug."


async def test_a_wrong_slug_is_refused(recollect: Run, ana: Person) -> None:
    refused = await recollect("brain", "set", "Not A Slug", "x", *of(ana))
    assert refused.sentence == "slug: a-z, 0-9 and _ alone, at most 255 of them."


async def test_a_list_of_memories_is_saved_and_what_fails_is_told(
    recollect: Run, ana: Person, acme: str, tmp_path: Path
) -> None:
    file = tmp_path / "memories.json"
    file.write_text(json.dumps([REGIME, {"slug": "NO", "content": "x"}]))

    partly = await recollect("brain", "save", str(file), "--company", acme)
    wholly = await recollect(
        "brain", "save", "-", *of(ana), "--json", stdin=json.dumps([{"slug": "pet", "content": "A dog"}])
    )
    missing = await recollect("brain", "save", "none.json", *of(ana))

    assert (partly.code, partly.out) == (1, "1 saved, 1 of them new; 1 failed.\n")
    assert partly.err.startswith("Error with company memory NO: slug: ")
    assert wholly.json == {"success": True, "saved_count": 1, "failed_count": 0, "errors": []}
    assert missing.sentence == "none.json cannot be read: No such file or directory."
    assert (await known(ana), list(await known(ana, acme))) == ({"pet": "A dog"}, ["company_tax_regime"])


TABLE = """\
slug,content,category,user,company
user_city,"Lives in Lima,
by the sea",home,ana@example.com,
company_motto,Onward,,,Acme
user_pet,A cat,,{ana_id},
user_city,Lives in Bonn,home,ben@example.com,
NOT A SLUG,"x
y",,ana@example.com,
user_car,None,,nobody@example.com,
user_boat,None,,ana@example.com,Acme
user_bike,None,,,
"""


async def test_a_table_is_imported_for_many_and_errors_say_which_line(
    recollect: Run, ana: Person, ben: Person, acme: str, tmp_path: Path
) -> None:
    file = tmp_path / "facts.csv"
    file.write_text(TABLE.format(ana_id=ana.id))

    outcome = await recollect("brain", "import", str(file))

    assert (outcome.code, outcome.out) == (1, "4 saved, 4 of them new; 4 failed.\n")
    first, second, third, fourth = outcome.err.splitlines()
    assert first.startswith("line 7: NOT A SLUG about ana@example.com: slug: ")
    assert second == "line 9: user_car about nobody@example.com: There is no user with that e-mail address."
    assert third == "line 10: user_boat: It is about two at once."
    assert fourth == "line 11: user_bike: It does not say whom it is about, and nobody was named."
    assert await known(ana) == {"user_city": "Lives in Lima,\nby the sea", "user_pet": "A cat"}
    assert (await known(ben), await known(ana, acme)) == (
        {"user_city": "Lives in Bonn"},
        {"company_motto": "Onward"},
    )
    assert [change["reason"] for change in await history(ben, "user_city")] == ["imported from facts.csv"]


async def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    recollect: Run, ana: Person, tmp_path: Path
) -> None:
    await recollect("brain", "set", "city", "Lives in Lima", *of(ana))
    await recollect("brain", "set", "pet", "A dog", *of(ana))
    file = tmp_path / "facts.csv"
    file.write_text("slug,content,category\ncity,Lives in Bonn,\npet,A dog,\njob,Baker,work\nNO,x,\n")

    told = await recollect("brain", "import", str(file), *of(ana), "--dry-run")
    listed = await recollect("brain", "import", str(file), *of(ana), "--dry-run", "--json")

    assert (told.code, listed.code) == (1, 1)
    assert "Lives in [-Lima-]{+Bonn+}" in told.out
    assert "{+Baker+}" in told.out
    assert "1 create, 1 update, 1 unchanged, 1 refused; nothing was changed." in told.out
    plan = json.loads(listed.out)
    assert [(each["place"], each["slug"], each["change"]) for each in plan.pop("changes")] == [
        ("line 2", "city", "update"),
        ("line 3", "pet", "unchanged"),
        ("line 4", "job", "create"),
        ("line 5", "NO", "refused"),
    ]
    assert plan == {"create": 1, "update": 1, "unchanged": 1, "refused": 1}
    assert await known(ana) == {"city": "Lives in Lima", "pet": "A dog"}


async def test_json_is_imported_as_a_list_or_by_whom_it_is_about(
    recollect: Run, ana: Person, ben: Person, acme: str, tmp_path: Path
) -> None:
    by_owner = {
        ana.email: [{"slug": "pet", "content": "A dog"}, {"slug": "pet", "content": "A cat"}, 7],
        f"user:{ben.id}": [{"slug": "pet", "content": "A cow"}],
        "company:Acme": [REGIME],
        f"user:{uuid4()}": [{"slug": "pet", "content": "x"}],
    }
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(by_owner))

    planned = await recollect("brain", "import", str(file), "--dry-run", "--json")
    imported = await recollect("brain", "import", str(file), "--json")
    listed = await recollect(
        "brain", "import", "-", *of(ben), "--json", stdin=json.dumps([{"slug": "car", "content": "Red"}])
    )

    assert [each["change"] for each in json.loads(planned.out)["changes"]] == [
        *("create", "refused", "create", "create", "refused")
    ]
    told = json.loads(imported.out)
    assert (told["success"], told["saved_count"], told["created_count"]) == (False, 4, 3)
    refused, unknown = told["errors"]
    assert refused["place"] == f"item 3 of {ana.email}"
    assert unknown["error"] == "There is no such user or company."
    assert listed.json["saved_count"] == 1
    assert await known(ana) == {"pet": "A cat"}
    assert await known(ben) == {"car": "Red", "pet": "A cow"}
    assert list(await known(ana, acme)) == ["company_tax_regime"]


async def test_a_file_that_cannot_be_understood_is_refused_whole(
    recollect: Run, ana: Person, tmp_path: Path
) -> None:
    files = {
        "a.csv": (b"slug,text\nx,y\n", "The first line names the columns; there is none called content."),
        "b.csv": (b"slug,content,size\nx,y,1\n", 'There is no column "size"; there are slug, content,'),
        "c.csv": (b"slug,content\nx,\xff\n", "The file is not UTF-8."),
        "d.json": (b'{"a": 1}', "The file holds neither a list of memories nor lists of them"),
        "e.json": (b"[", "The file is not valid JSON:"),
    }
    for name, (content, sentence) in files.items():
        (tmp_path / name).write_bytes(content)
        refused = await recollect("brain", "import", name, *of(ana))
        assert refused.sentence.startswith(sentence), name
    both = await recollect("brain", "import", "a.csv", *of(ana), "--company", "Acme")
    assert both.code == 1
    assert await known(ana) == {}


async def test_profiles_and_companies_are_loaded(recollect: Run, ana: Person, ben: Person, acme: str) -> None:
    of_company = await recollect("brain", "load", "--company", "Acme", "--json")
    of_user = await recollect("brain", "load", *of(ana))
    companies = await recollect("brain", "load", "--all-companies", "--json")
    users = await recollect("brain", "load", "--all-users")
    neither = await recollect("brain", "load")

    assert of_company.json["saved_count"] == 2
    assert "saved" in of_user.out
    assert companies.json == {
        "total_companies": 1,
        "loaded_companies": 1,
        "failed_companies": 0,
        "total_memories_created": 0,
    }
    assert "total_users" in users.out
    assert neither.sentence.startswith("Say which: ")
    assert sorted(await known(ana, acme)) == ["company_activity", "company_tax_regime"]
    assert "user_email" in await known(ben)


async def test_facts_are_compared_with_their_memories_for_all_or_for_one(
    recollect: Run, ana: Person, ben: Person
) -> None:
    await recollect("brain", "set", "pet", "A dog", *of(ana))

    of_all = await recollect("brain", "reconcile", "--json")
    of_ben = await recollect("brain", "reconcile", *of(ben), "--json")
    told = await recollect("brain", "reconcile", *of(ana))

    assert (of_all.json["checked"], of_ben.json["checked"]) == (1, 0)
    assert "recreated" in told.out
