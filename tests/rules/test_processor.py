"""One chat at a time, as an application brings it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from recollect.bootstrap import Services
from recollect.errors import InvalidInput, NotAllowed
from recollect.rules.chats.messages import from_application
from recollect.rules.processor import SharedMemoryProcessor
from tests.rules.conftest import BRANCH, TABS, talk
from tests.rules.histories.conftest import person

pytestmark = pytest.mark.anyio


async def test_a_chat_is_kept_once_and_its_rules_are_found(services: Services) -> None:
    ana = await person(services, "ana")
    processor = SharedMemoryProcessor(services.tenancy, services.histories, services.extractor)
    messages = [{"role": "user", "content": TABS}, {"role": "assistant", "content": "Done."}]

    with pytest.raises(NotAllowed):
        await processor.process_chat_history("session-1", messages, str(ana.id))
    await ana.agrees()
    found = await processor.process_chat_history("session-1", messages, str(ana.id))
    grown = [*messages, {"role": "user", "content": BRANCH}]
    again = await processor.process_chat_history("session-1", grown, str(ana.id))
    [kept] = (await ana.add(talk("two", BRANCH))).ids
    by_id = await processor.process_chat_history(str(kept), [], ana.id)
    nothing = await processor.process_chat_history("empty", [], ana.id)

    [rule] = found["rules"]
    assert rule["evidence"].startswith("User said: '")
    assert rule["mem0_memory_id"]
    assert again["chat_history_id"] == found["chat_history_id"]
    assert {each["category"] for each in again["rules"]} == {"code-style", "git-workflow"}
    assert by_id["chat_history_id"] == str(kept)
    assert nothing["rules"] == []
    assert len(await ana.chats()) == 2
    with pytest.raises(InvalidInput):
        await processor.process_chat_history(uuid4(), [], "nobody")


async def test_a_chat_grows_under_the_id_that_it_is_kept_by(services: Services) -> None:
    ana = await person(services, "ana")
    workspace = await ana.workspace()
    await ana.agrees(workspace=workspace)
    processor = SharedMemoryProcessor(services.tenancy, services.histories, services.extractor)
    messages = [{"role": "user", "content": TABS}, {"role": "assistant", "content": "Done."}]
    told = list(from_application("session-1", messages))
    [kept] = (await ana.add(*told, workspace=workspace)).ids
    assert kept is not None

    grown = [*messages, {"role": "user", "content": BRANCH}]
    found = await processor.process_chat_history(kept, grown, ana.id)
    answered = await processor.process_chat_history(kept, [{"role": "assistant", "content": "Hm."}], ana.id)

    assert answered["chat_history_id"] == found["chat_history_id"] == str(kept)
    assert {each["category"] for each in found["rules"]} == {"code-style", "git-workflow"}
    assert [each.text for each in await ana.turns(kept)] == [TABS, "Done.", BRANCH]


async def test_what_was_read_from_a_file_is_not_told_twice(services: Services) -> None:
    ana = await person(services, "ana")
    await ana.agrees()
    processor = SharedMemoryProcessor(services.tenancy, services.histories, services.extractor)
    [kept] = (await ana.add(talk("two", BRANCH))).ids
    assert kept is not None

    found = await processor.process_chat_history(kept, [{"role": "user", "content": BRANCH}], ana.id)

    assert [each["category"] for each in found["rules"]] == ["git-workflow"]
    assert len(await ana.turns(kept)) == 2
