"""What strangers, colleagues and unlucky moments must not achieve with rules."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.engine.models import Entities, Where
from recollect.errors import NotFound, RecollectError
from recollect.jobs.models import GiveUp, Job, TryLater
from recollect.llm.failures import ModelAway
from recollect.rules import store, tasks
from recollect.rules.extraction import LEASE
from recollect.rules.histories.models import HistoryTurn
from recollect.rules.material import Asked
from recollect.rules.store import queries
from tests.rules.conftest import BRANCH, TABS, TABS_AGAIN, extract, rules, runs, talk
from tests.rules.histories.conftest import Person

pytestmark = pytest.mark.anyio


async def begin(who: Person, workspace: UUID | None = None) -> UUID:
    wanted = {"user_id": who.id, "workspace": workspace, "origin": "request", "lease": LEASE}
    begun: UUID = (await who.do(lambda tx: tx.one(queries.begin_extraction, wanted)))["id"]
    return begun


def row(chat_id: UUID | None, turn: HistoryTurn, **more: Any) -> dict[str, Any]:
    said = {"chat_id": str(chat_id), "turn_id": str(turn.id), "turn": turn.number, "quote": turn.text}
    fields = {"rule_text": "x", "confidence": 0.5, "kind": "explicit", "made_by": "rules"}
    return {**fields, "scope": {"reach": "personal"}, "evidence": [said], **more}


def job_of(who: Person, **arguments: Any) -> Job:
    fields: dict[str, Any] = dict.fromkeys(each.name for each in dataclasses.fields(Job) if each.init)
    return Job(**{**fields, "user_id": who.id, "arguments": arguments})


async def together(ana: Person, ben: Person) -> UUID:
    workspace = await ana.workspace((ben, "member"))
    for who in (ana, ben):
        await who.agrees(workspace=workspace)
    return workspace


async def test_nobody_is_told_what_a_colleague_has_agreed_to(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)

    async def told(who: Person, where: UUID | None) -> bool:
        return await who.do(lambda tx: who.histories.may_analyse(tx, ana.id, where))

    for where in (None, workspace):
        assert await told(ana, where)
        assert not await told(ben, where)


async def test_who_left_a_workspace_writes_no_rule_there(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)
    [chat] = (await ben.add(talk("one", TABS), workspace=workspace)).ids
    run = await begin(ben, workspace)
    turn = (await ben.turns(chat))[0]

    members = ana.services.membership.workspace_members
    await ana.do(lambda tx: members.remove(tx, workspace, ben.id))

    with pytest.raises(NotFound):
        await ben.do(lambda tx: store.note(tx, run, [row(chat, turn)], []))
    assert await rules(ana, workspace) == []


async def test_who_left_a_workspace_is_not_read_there_every_night(
    services: Services, ana: Person, ben: Person
) -> None:
    workspace = await together(ana, ben)
    await ana.add(talk("one", TABS), workspace=workspace)
    await ben.add(talk("two", TABS), workspace=workspace)
    members = ana.services.membership.workspace_members
    await ana.do(lambda tx: members.remove(tx, workspace, ben.id))

    async with services.tenancy.acting_as(SERVICE) as tx:
        found = await services.extractor.users_with_news(tx, workspace, after=UUID(int=0), limit=10)

    assert found == [ana.id]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": {"reach": "everybody"}},
        {"scope": {}},
        {"scope": {"reach": "team", "project": 5}},
        {"evidence": {"turn": "first", "source": 7, "author": ["the boss"]}},
    ],
)
async def test_what_is_written_past_the_server_leaves_the_rules_readable(
    ana: Person, ben: Person, wrong: dict[str, Any]
) -> None:
    workspace = await together(ana, ben)
    [chat] = (await ben.add(talk("one", TABS), workspace=workspace)).ids
    run = await begin(ben, workspace)
    given = row(chat, (await ben.turns(chat))[0])
    forged = wrong.get("evidence", {})
    written = {**given, **wrong, "evidence": [{**given["evidence"][0], **forged}]}

    async def note(tx: Transaction) -> None:
        await store.note(tx, run, [written], [])

    try:
        await ben.do(note)
    except RecollectError:
        assert await rules(ana, workspace) == []
    else:
        [read] = await rules(ana, workspace)
        assert [(quote.source, quote.turn, quote.author) for quote in read.evidence] == [
            ("one.jsonl", 0, None)
        ]


async def test_colleagues_who_are_read_at_once_make_one_rule(
    ana: Person, ben: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await together(ana, ben)
    await ana.add(talk("one", TABS), workspace=workspace)
    await ben.add(talk("two", TABS_AGAIN), workspace=workspace)
    both_have_read, waiting = asyncio.Event(), 0
    find = ana.services.extractor._finder.find

    async def meet(*given: Any) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both_have_read.set()
        await both_have_read.wait()
        return await find(*given)

    monkeypatch.setattr(ana.services.extractor._finder, "find", meet)
    await asyncio.gather(extract(ana, workspace), extract(ben, workspace))

    [rule] = await rules(ana, workspace)
    assert len(rule.evidence) == 2
    assert rule.scope.reach == "team"
    assert sorted((run.proposed, run.repeated) for run in await runs(ana, workspace)) == [(0, 1), (1, 0)]


async def test_what_is_rejected_while_a_run_reads_is_not_proposed_by_it(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ana.add(talk("one", TABS))
    [rule] = (await extract(ana)).rules
    await ana.add(talk("two", TABS_AGAIN))
    find = ana.services.extractor._finder.find

    async def slow(*given: Any) -> Any:
        found = await find(*given)
        await ana.do(lambda tx: ana.services.rules.decide(tx, rule.id, "rejected"))
        return found

    monkeypatch.setattr(ana.services.extractor._finder, "find", slow)

    assert (await extract(ana)).rules == []
    assert [len(each.evidence) for each in await rules(ana)] == [1]


async def test_a_job_whose_worker_died_is_tried_until_the_lease_has_ended(ana: Person) -> None:
    await begin(ana)

    with pytest.raises(TryLater):
        await tasks._extract(job_of(ana), ana.services.extractor)


async def test_a_job_is_tried_again_when_the_model_was_away(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise ModelAway

    monkeypatch.setattr(ana.services.extractor, "extract", away)

    with pytest.raises(ModelAway):
        await tasks._extract(job_of(ana), ana.services.extractor)


@pytest.mark.parametrize(
    "wrong", [{"chat_history_ids": []}, {"chat_history_ids": ["one"]}, {"prompt_id": "default"}]
)
async def test_a_job_that_asks_for_nonsense_is_not_tried_again(ana: Person, wrong: dict[str, Any]) -> None:
    with pytest.raises(GiveUp):
        await tasks._extract(job_of(ana, **wrong), ana.services.extractor)


async def test_what_a_killed_worker_spent_is_on_record_without_what_others_did(
    ana: Person, database_url: str
) -> None:
    run = await begin(ana)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as superuser:
        await superuser.execute("update extraction_runs set seen_at = now() - interval '1 hour'")
        await superuser.execute(
            "insert into model_calls"
            " (user_id, purpose, provider, model, input_tokens, output_tokens, part_of)"
            " select %s, 'rules.extract', 'anthropic', 'some', 70, 7, unnest(%s::uuid[])",
            (ana.id, [run, uuid4()]),
        )
    await begin(ana)

    [_, killed] = await runs(ana)
    assert (killed.id, killed.state) == (run, "failed")
    assert (killed.input_tokens, killed.output_tokens) == (70, 7)


async def test_a_chat_that_is_forgotten_is_quoted_and_remembered_no_more(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)
    [of_ana] = (await ana.add(talk("one", TABS), workspace=workspace)).ids
    [of_ben] = (await ben.add(talk("two", TABS_AGAIN), workspace=workspace)).ids
    await ana.add(talk("three", BRANCH), workspace=workspace)
    for who in (ana, ben):
        await extract(who, workspace)
    assert of_ana is not None
    where = Where(Entities(user=str(ana.id), run=str(of_ana)))
    assert len(await ana.do(lambda tx: ana.services.engine.list(tx, where))) == 1

    await ana.do(lambda tx: ana.histories.delete(tx, ana.id, of_ana))

    assert await ana.do(lambda tx: ana.services.engine.list(tx, where)) == []
    shared = next(rule for rule in await rules(ben, workspace) if of_ben in rule.source_session_ids)
    assert shared.source_session_ids == [of_ben]
    assert [quote.chat_id for quote in shared.evidence] == [of_ben]
    assert shared.mem0_memory_id is None


async def test_a_proposal_goes_with_the_only_chat_that_asked_for_it_and_a_decided_rule_stays(
    ana: Person,
) -> None:
    [one] = (await ana.add(talk("one", TABS))).ids
    [two] = (await ana.add(talk("two", BRANCH))).ids
    found = (await extract(ana)).rules
    decided = next(rule for rule in found if rule.source_session_ids == [one])
    await ana.do(lambda tx: ana.services.rules.decide(tx, decided.id, "approved"))

    async def forget(tx: Transaction) -> None:
        for chat in filter(None, (one, two)):
            await ana.histories.delete(tx, ana.id, chat)

    await ana.do(forget)

    [left] = await rules(ana)
    assert (left.id, left.status, left.evidence) == (decided.id, "approved", [])


async def test_who_is_deleted_is_quoted_no_more(ana: Person, ben: Person, database_url: str) -> None:
    workspace = await together(ana, ben)
    await ben.add(talk("two", TABS), workspace=workspace)
    [rule] = (await extract(ben, workspace)).rules
    await ana.do(lambda tx: ana.services.rules.decide(tx, rule.id, "approved"))

    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as superuser:
        await superuser.execute("delete from auth.users where id = %s", (ben.id,))

    [left] = await rules(ana, workspace)
    assert (left.evidence, left.source_session_ids) == ([], [])


async def test_a_workspace_goes_with_its_chats_and_rules(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)
    for who, said in ((ana, TABS), (ben, TABS_AGAIN)):
        await who.add(talk("one", said), workspace=workspace)
        await extract(who, workspace)

    await ana.do(lambda tx: ana.services.membership.delete_workspace(tx, workspace))

    assert [*await ana.chats(), *await ben.chats()] == []


async def test_rules_are_handed_out_to_many_at_once(ana: Person) -> None:
    subjects = ["tabs", "quotes", "loops", "queues", "types", "tests", "docs", "names", "files", "logs"]
    await ana.add(talk("one", *(f"From now on never forget about the {each}." for each in subjects)))
    found = (await extract(ana)).rules

    async def approve(tx: Transaction) -> None:
        for rule in found:
            await ana.services.rules.decide(tx, rule.id, "approved")

    await ana.do(approve)

    async def handed_out() -> int:
        return len(await ana.do(ana.services.rules.approved))

    for _ in range(5):
        assert await asyncio.gather(*(handed_out() for _ in range(8))) == [len(found)] * 8
    assert {rule.usage_count for rule in await rules(ana)} == {40}


async def test_a_chat_that_is_forgotten_while_it_is_quoted_is_quoted_nowhere(ana: Person) -> None:
    [chat] = (await ana.add(talk("one", TABS))).ids
    assert chat is not None
    await extract(ana)
    [turn, _] = await ana.turns(chat)
    run = await begin(ana)

    async with ana.services.tenancy.acting_as(Caller.user(ana.id)) as tx:
        await store.note(tx, run, [row(chat, turn)], [])
        forgetting = asyncio.create_task(ana.do(lambda tx: ana.histories.delete(tx, ana.id, chat)))
        done, _ = await asyncio.wait([forgetting], timeout=0.5)
    await forgetting

    assert not done
    assert await rules(ana) == []


async def test_a_chat_that_is_forgotten_before_it_is_remembered_is_not(ana: Person) -> None:
    [chat] = (await ana.add(talk("one", TABS))).ids
    assert chat is not None
    extractor = ana.services.extractor
    material = await extractor._gather(Asked(ana.id))

    async def tick(_: int = 1) -> None:
        return None

    await ana.do(lambda tx: ana.histories.delete(tx, ana.id, chat))
    kept = await extractor._finder._remembering.keep(material, list(material.turns), tick)

    assert kept == {}
    assert await ana.do(lambda tx: ana.services.engine.list(tx, Where(Entities(user=str(ana.id))))) == []


async def test_colleagues_are_not_told_where_on_a_disk_it_was_said(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)
    file, folder = "/home/ana/clients/merger/one.jsonl", "/home/ana/clients/merger"
    said = dataclasses.replace(talk("one", TABS), source=file, project=folder)
    await ana.add(said, workspace=workspace)
    await ana.add(dataclasses.replace(said, session="own"))
    for where in (workspace, None):
        await extract(ana, where)

    [seen] = await rules(ben, workspace)
    [own] = await rules(ana)
    assert (seen.evidence[0].source, seen.scope.project) == ("one.jsonl", "merger")
    assert (own.evidence[0].source, own.scope.project) == (file, folder)
