"""Rules through the Python client, against a real server."""

from __future__ import annotations

import pytest

from recollect.bootstrap import Services
from recollect.client import Recollect
from recollect.errors import NotFound
from tests.conftest import Person, working

pytestmark = pytest.mark.anyio


async def test_rules_are_found_decided_and_handed_out(address: str, services: Services, ana: Person) -> None:
    async with Recollect(address, key=ana.key) as memory:
        await memory.chats.consent(granted=True)
        said = [{"role": "user", "content": "From now on always indent with tabs."}]
        [chat_id] = (await memory.chats.add([{"session": "one", "messages": said}])).ids
        assert chat_id is not None
        job = await memory.rules.extract([chat_id])
        async with working(services):
            ended = await memory.wait_for_job(job)

        [rule] = await memory.rules.list(status="pending")
        approved = await memory.rules.decide(rule.id, "approved", "Yes.")
        [handed_out] = await memory.rules.approved()
        [default] = await memory.rules.prompts.list()
        compared = await memory.rules.prompts.try_on(default.id, [chat_id])

        assert (ended.task, ended.state) == ("rules.extract", "succeeded")
        assert (approved.status, handed_out.id) == ("approved", rule.id)
        assert (await memory.rules.get(rule.id)).usage_count == 1
        assert {run.origin for run in await memory.rules.runs()} == {"request", "trial"}
        assert [each.rule_text for each in compared.tried.rules] == [rule.rule_text]
        assert await memory.rules.prompts.versions(default.id) == []
        with pytest.raises(NotFound):
            await memory.rules.get(chat_id)
