"""From chats to proposed rules, without a model."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.database import Database
from recollect.db.tenancy import Transaction
from recollect.engine.models import Entities, Where
from recollect.errors import InvalidInput, NotAllowed, Unavailable
from recollect.rules import extraction, store
from recollect.rules.extraction import LEASE
from recollect.rules.histories.models import HistoryTurn, UnknownChat
from recollect.rules.material import Asked
from recollect.rules.models import ExtractionUnderWay, NewPrompt, Rule, Status
from recollect.rules.store import queries
from tests.conftest import until
from tests.rules.conftest import BRANCH, ONCE, TABS, TABS_AGAIN, extract, opened, rules, runs, talk
from tests.rules.histories.conftest import Person, person
from tests.support.engines import settings_for

pytestmark = pytest.mark.anyio


async def decide(who: Person, rule: Rule, status: Status, reason: str | None = None) -> Rule:
    return await who.do(lambda tx: who.services.rules.decide(tx, rule.id, status, reason))


async def test_what_was_asked_for_becomes_a_pending_rule_with_its_exact_quote(ana: Person) -> None:
    [chat_id] = (await ana.add(talk("one", ONCE, TABS))).ids

    extracted = await extract(ana)

    [rule] = extracted.rules
    assert rule.status == "pending"
    assert (rule.category, rule.made_by, rule.kind) == ("code-style", "rules", "explicit")
    assert rule.source_session_ids == [chat_id]
    [quote] = rule.evidence
    assert quote.quote in TABS
    assert (quote.source, quote.session, quote.turn, quote.chat_id) == ("one.jsonl", "one", 2, chat_id)
    assert extracted.run.state == "done"
    assert (extracted.run.chats, extracted.run.turns, extracted.run.proposed) == (1, 4, 1)
    assert await rules(ana) == [rule]


async def test_nothing_is_read_before_its_author_has_agreed(ana: Person, ben: Person) -> None:
    await ben.add(talk("one", TABS))

    with pytest.raises(NotAllowed):
        await extract(ben)
    with pytest.raises(NotAllowed):
        await ben.services.extractor.estimate(Asked(ben.id))

    assert await rules(ben) == []
    assert await runs(ben) == []


async def test_somebody_elses_chats_and_rules_stay_theirs(ana: Person, ben: Person) -> None:
    [chat_id] = (await ana.add(talk("one", TABS))).ids
    assert chat_id is not None
    await extract(ana)
    await ben.agrees()

    assert (await extract(ben)).rules == []
    with pytest.raises(UnknownChat):
        await extract(ben, chat_ids=[chat_id])
    assert await rules(ben) == []
    assert len(await runs(ben)) == 1


async def test_only_what_is_new_is_proposed_and_what_is_old_still_counts(ana: Person) -> None:
    await ana.add(talk("one", TABS, BRANCH))
    first = next(rule for rule in (await extract(ana)).rules if rule.category == "code-style")

    nothing = await extract(ana)
    await ana.add(talk("two", TABS_AGAIN))
    again = await extract(ana)

    assert (nothing.rules, nothing.run.turns) == ([], 0)
    [rule] = again.rules
    assert rule.id == first.id
    assert (again.run.proposed, again.run.repeated) == (0, 1)
    assert len(rule.evidence) == 2
    assert len(rule.source_session_ids) == 2
    assert (rule.confidence or 0) > (first.confidence or 1)


async def test_named_chats_are_read_again_and_nothing_is_proposed_twice(ana: Person) -> None:
    [chat_id] = (await ana.add(talk("one", TABS))).ids
    assert chat_id is not None
    await extract(ana)

    again = await extract(ana, chat_ids=[chat_id])
    everything = await extract(ana, everything=True)

    # It was said once, however often it is read.
    assert again.run.repeated == everything.run.repeated == 0
    [rule] = await rules(ana)
    assert [each.id for each in again.rules] == [each.id for each in everything.rules] == [rule.id]
    assert len(rule.evidence) == 1
    with pytest.raises(UnknownChat):
        await extract(ana, chat_ids=[chat_id, uuid4()])


async def test_a_rejected_rule_is_not_proposed_again(ana: Person) -> None:
    await ana.add(talk("one", TABS))
    [rule] = (await extract(ana)).rules
    decided = await decide(ana, rule, "rejected", "We use spaces.")
    await ana.add(talk("two", TABS_AGAIN))

    again = await extract(ana)

    assert (decided.status, decided.rejection_reason) == ("rejected", "We use spaces.")
    assert again.rules == []
    assert len(await rules(ana)) == 1


async def test_what_a_rule_file_says_already_is_not_proposed(ana: Person) -> None:
    await ana.add(talk("one", TABS, BRANCH))

    extracted = await extract(
        ana, texts_of=lambda _: ["# Style\n- Always indent with tabs, never with spaces.\n"]
    )

    assert ["branch" in rule.rule_text for rule in extracted.rules] == [True]


async def test_a_rule_remembers_the_memory_of_its_first_evidence(ana: Person) -> None:
    [chat_id] = (await ana.add(talk("one", TABS))).ids

    [rule] = (await extract(ana)).rules

    where = Where(Entities(user=str(ana.id), run=str(chat_id)))
    [memory] = await ana.do(lambda tx: ana.services.engine.list(tx, where))
    assert rule.mem0_memory_id == str(memory.id)
    assert (memory.text, memory.metadata) == (TABS, {"source": "chat", "workspace": ""})


async def test_if_the_memory_engine_fails_nothing_is_written_and_all_stays_new(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ana.add(talk("one", TABS))

    async def away(*_: Any) -> None:
        raise Unavailable("The memory engine is away.")

    with monkeypatch.context() as patched:
        patched.setattr(ana.services.engine, "add", away)
        with pytest.raises(Unavailable):
            await extract(ana)

    assert await rules(ana) == []
    [failed] = await runs(ana)
    assert (failed.state, failed.error, failed.candidates) == ("failed", "The memory engine is away.", 1)
    assert (await extract(ana)).run.proposed == 1


async def test_the_rules_of_a_workspace_are_its_members_and_their_chats_are_not(
    ana: Person, ben: Person
) -> None:
    workspace = await ana.workspace((ben, "member"))
    await ana.agrees(workspace=workspace)
    await ben.agrees(workspace=workspace)
    await ana.add(talk("one", TABS), workspace=workspace)
    await ben.add(talk("two", TABS_AGAIN), workspace=workspace)
    await ben.add(talk("own", BRANCH))

    [of_ana] = (await extract(ana, workspace)).rules
    [of_both] = (await extract(ben, workspace)).rules

    assert of_both.id == of_ana.id
    assert of_both.scope.reach == "team"
    assert len(of_both.evidence) == 2
    assert (of_both.confidence or 0) > (of_ana.confidence or 1)
    assert [rule.id for rule in await rules(ben, workspace=workspace)] == [of_ana.id]
    assert await rules(ben) == []
    # A colleague's words are quoted; the memories made of them are not handed on.
    for where in (None, workspace):
        handed_on = Where(Entities(user=str(ana.id)), workspace=where)
        assert await ben.do(partial(ben.services.engine.list, where=handed_on)) == []


async def test_rules_that_hold_are_handed_out_and_counted(ana: Person) -> None:
    await ana.add(talk("one", TABS, BRANCH))
    tabs, branch = sorted((await extract(ana)).rules, key=lambda rule: "branch" in rule.rule_text)
    await decide(ana, branch, "approved")

    async def approved(tx: Transaction) -> list[UUID]:
        return [rule.id for rule in await ana.services.rules.approved(tx)]

    assert await ana.do(approved) == await ana.do(approved) == [branch.id]
    by_id = {rule.id: rule for rule in await rules(ana)}
    assert (by_id[branch.id].usage_count, by_id[tabs.id].usage_count) == (2, 0)
    assert by_id[branch.id].last_used_at is not None


async def test_rules_are_found_by_status_category_and_confidence(ana: Person) -> None:
    await ana.add(talk("one", TABS, BRANCH))
    found = (await extract(ana)).rules
    tabs = next(rule for rule in found if rule.category == "code-style")
    branch = next(rule for rule in found if rule.category == "git-workflow")
    await decide(ana, tabs, "approved")

    assert [rule.id for rule in await rules(ana, status="approved")] == [tabs.id]
    assert [rule.id for rule in await rules(ana, category="git-workflow")] == [branch.id]
    assert await rules(ana, min_confidence=1.0) == []
    assert await rules(ana, project=uuid4()) == []


async def test_a_prompt_says_which_categories_are_wanted(services: Services, ana: Person) -> None:
    workspace = await ana.workspace()
    await ana.agrees(workspace=workspace)
    await ana.add(talk("one", TABS, BRANCH), workspace=workspace)
    wanted = NewPrompt(name="git only", prompt_text="Find rules.", target_categories=["git-workflow"])
    await ana.do(lambda tx: services.rule_prompts.add(tx, wanted, workspace=workspace))

    extracted = await extract(ana, workspace)

    assert [rule.category for rule in extracted.rules] == ["git-workflow"]


async def test_an_estimate_writes_nothing(ana: Person) -> None:
    await ana.add(talk("one", TABS, ONCE))

    estimate = await ana.services.extractor.estimate(Asked(ana.id))

    assert (estimate.chats, estimate.turns, estimate.candidates) == (1, 4, 1)
    assert (estimate.tokens_sent, estimate.cost_usd, estimate.made_by) == (0, None, "rules")
    assert estimate.tokens_whole > 20
    assert await runs(ana) == []
    assert await rules(ana) == []


async def test_the_database_takes_no_quote_that_its_author_did_not_say_there(
    ana: Person, ben: Person
) -> None:
    workspace = await ana.workspace()
    await ana.agrees(workspace=workspace)
    [own] = (await ana.add(talk("own", TABS))).ids
    [there] = (await ana.add(talk("there", BRANCH), workspace=workspace)).ids
    [of_ben] = (await ben.add(talk("ben", BRANCH))).ids
    first = {each: (await who.turns(each))[0] for who, each in ((ana, own), (ana, there), (ben, of_ben))}
    answer = (await ana.turns(own))[1]

    def evidence(chat_id: UUID | None, turn: HistoryTurn, quote: str | None) -> dict[str, Any]:
        return {"chat_id": str(chat_id), "turn_id": str(turn.id), "turn": 0, "quote": quote}

    async def note(*said: dict[str, Any]) -> Any:
        found = {"rule_text": "x", "confidence": 0.5, "kind": "explicit", "scope": {"reach": "personal"}}
        row = {**found, "evidence": list(said), "made_by": "rules"}

        async def work(tx: Transaction) -> Any:
            wanted = {"user_id": ana.id, "workspace": None, "origin": "trial", "lease": LEASE}
            run = (await tx.one(queries.begin_extraction, wanted))["id"]
            return await store.note(tx, run, [row], [])

        return await ana.do(work)

    assert len(await note(evidence(own, first[own], "indent with tabs"))) == 1
    for refused in (
        [],
        [evidence(own, first[own], "indent with spaces")],
        [evidence(own, first[own], "")],
        [evidence(own, first[own], None)],
        [evidence(own, answer, "Done.")],
        [evidence(there, first[own], "indent with tabs")],
        [evidence(there, first[there], "pull request")],
        [evidence(of_ben, first[of_ben], "pull request")],
        [evidence(own, first[own], "tabs"), evidence(of_ben, first[of_ben], "pull request")],
    ):
        with pytest.raises(InvalidInput):
            await note(*refused)
    await ana.agrees(granted=False)
    with pytest.raises(NotAllowed):
        await note(evidence(own, first[own], "indent with tabs"))


async def test_the_same_chats_are_read_by_one_at_a_time_until_its_lease_ends(
    ana: Person, database_url: str
) -> None:
    await ana.add(talk("one", TABS))
    wanted = {"user_id": ana.id, "workspace": None, "origin": "request", "lease": LEASE}
    await ana.do(lambda tx: tx.one(queries.begin_extraction, wanted))

    with pytest.raises(ExtractionUnderWay):
        await extract(ana)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as superuser:
        await superuser.execute("update extraction_runs set seen_at = now() - interval '1 hour'")
    extracted = await extract(ana)

    assert extracted.run.proposed == 1
    assert [run.state for run in await runs(ana)] == ["done", "failed"]


async def test_an_extraction_is_held_for_as_long_as_it_takes(
    ana: Person, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ana.add(talk("one", TABS))
    monkeypatch.setattr(extraction, "HEARD_OF_EVERY", timedelta(milliseconds=20))
    find = ana.services.extractor._finder.find

    async def slow(*asked: Any) -> Any:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as superuser:
            await superuser.execute("update extraction_runs set seen_at = now() - interval '1 hour'")
            await until(lambda: _is_heard_of(superuser))
        with pytest.raises(ExtractionUnderWay):
            await extract(ana)
        return await find(*asked)

    with monkeypatch.context() as patched:
        patched.setattr(ana.services.extractor._finder, "find", slow)
        extracted = await extract(ana)

    assert extracted.run.proposed == 1


async def _is_heard_of(superuser: psycopg.AsyncConnection[Any]) -> bool:
    found = await superuser.execute("select from extraction_runs where seen_at > now() - interval '1 minute'")
    return await found.fetchone() is not None


async def test_an_extraction_that_is_stopped_says_so_and_leaves_all_as_it_was(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ana.add(talk("one", TABS))
    reached = asyncio.Event()

    async def hang(*_: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(ana.services.engine, "add", hang)
        extracting = asyncio.create_task(extract(ana))
        await reached.wait()
        extracting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await extracting

    [run] = await runs(ana)
    assert (run.state, run.error) == ("failed", "The extraction was stopped.")
    assert (await extract(ana)).run.proposed == 1


async def test_what_speaks_against_a_rule_is_no_evidence_of_it(ana: Person) -> None:
    await ana.add(talk("one", "From now on always use semicolons in TypeScript."))
    [first] = (await extract(ana)).rules
    await ana.add(talk("two", "From now on never use semicolons in TypeScript."))

    [second] = (await extract(ana)).rules

    assert second.id != first.id
    assert len((await ana.do(lambda tx: ana.services.rules.get(tx, first.id))).evidence) == 1


@pytest.mark.parametrize("mode", ["oss", "platform"])
async def test_whichever_engine_there_is_keeps_what_rules_rest_on(
    mode: str, home: Path, template: Database, database_url: str
) -> None:
    async with settings_for(mode, home, template, database_url) as settings, opened(settings) as services:
        ana = await person(services, "ana")
        await ana.agrees()
        [chat_id] = (await ana.add(talk("one", TABS))).ids

        [rule] = (await extract(ana)).rules

        where = Where(Entities(user=str(ana.id), run=str(chat_id)))
        [memory] = await ana.do(lambda tx: services.engine.list(tx, where))
        assert (rule.mem0_memory_id, memory.text) == (str(memory.id), TABS)


async def test_what_is_read_again_is_proposed_once_however_it_was_put(ana: Person) -> None:
    said = ("Why are you still using vale? I told you to stop.", "Don't add emojis unless asked.")
    await ana.add(talk("one", *said))
    first = await extract(ana)
    assert first.rules

    again = await extract(ana, everything=True)

    assert (again.run.proposed, len(await rules(ana))) == (0, len(first.rules))


async def test_a_reason_may_be_given_later(ana: Person) -> None:
    await ana.add(talk("one", TABS))
    [rule] = (await extract(ana)).rules
    await decide(ana, rule, "rejected")
    await decide(ana, rule, "rejected", "We use spaces.")
    unsaid = await decide(ana, rule, "rejected")
    assert unsaid.rejection_reason == "We use spaces."
