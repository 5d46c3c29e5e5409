"""One chat at a time, as an application brings it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from recollect.bootstrap import Services
from recollect.errors import InvalidInput, NotAllowed
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
