"""Prompts: whose they are, which one is in use, and what they were before."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from recollect.access.roles import RoleTooLow
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import Conflict
from recollect.rules.material import Asked
from recollect.rules.models import NewPrompt, NoActivePrompt, Prompt, PromptChange, UnknownPrompt
from recollect.rules.prompts import Prompts
from tests.rules.conftest import TABS, talk
from tests.rules.histories.conftest import Person, person

pytestmark = pytest.mark.anyio


@pytest.fixture
def prompts(services: Services) -> Prompts:
    return services.rule_prompts


async def add(who: Person, workspace: UUID, name: str = "ours") -> Prompt:
    new = NewPrompt(name=name, prompt_text="First.")
    return await who.do(lambda tx: who.services.rule_prompts.add(tx, new, workspace=workspace, by=who.id))


async def test_every_earlier_text_is_kept_and_the_same_again_is_no_version(
    services: Services, prompts: Prompts
) -> None:
    ana = await person(services, "ana")
    ours = await add(ana, await ana.workspace())
    second = PromptChange(prompt_text="Second.", target_categories=["testing"])
    for change in (second, second, PromptChange(target_categories=None), PromptChange(is_active=False)):
        changed = await ana.do(partial(prompts.change, prompt_id=ours.id, wanted=change))

    versions = await ana.do(lambda tx: prompts.versions(tx, ours.id))

    assert (changed.version, changed.prompt_text, changed.target_categories) == (4, "Second.", None)
    assert [(each.version, each.prompt_text, each.target_categories) for each in versions] == [
        (3, "Second.", None),
        (2, "Second.", ["testing"]),
        (1, "First.", None),
    ]
    assert {each.changed_by for each in versions} == {ana.id}


async def test_a_prompt_is_its_workspaces_and_changed_by_owners_and_admins(
    services: Services, prompts: Prompts
) -> None:
    ana, ben, eve = [await person(services, name) for name in ("ana", "ben", "eve")]
    workspace = await ana.workspace((ben, "member"))
    ours = await add(ana, workspace)

    with pytest.raises(RoleTooLow):
        await ben.do(lambda tx: prompts.change(tx, ours.id, PromptChange(prompt_text="Ben's.")))
    with pytest.raises(RoleTooLow):
        await add(ben, workspace, "another")
    with pytest.raises(UnknownPrompt):
        await eve.do(lambda tx: prompts.get(tx, ours.id))
    with pytest.raises(UnknownPrompt):
        await eve.do(lambda tx: prompts.change(tx, ours.id, PromptChange(prompt_text="Eve's.")))
    with pytest.raises(Conflict):
        await add(ana, workspace)
    assert (await ben.do(lambda tx: prompts.get(tx, ours.id))).prompt_text == "First."


async def test_a_prompt_of_another_workspace_is_not_used(services: Services) -> None:
    ana = await person(services, "ana")
    await ana.agrees()
    await ana.add(talk("one", TABS))
    ours = await add(ana, await ana.workspace())

    with pytest.raises(UnknownPrompt):
        await services.extractor.extract(Asked(ana.id, prompt_id=ours.id))


async def test_without_an_active_prompt_no_model_is_asked(ada: Person) -> None:
    await ada.add(talk("one", TABS))
    async with ada.services.tenancy.acting_as(SERVICE) as tx:
        [default] = await ada.services.rule_prompts.list(tx)
        await ada.services.rule_prompts.change(tx, default.id, PromptChange(is_active=False))

    with pytest.raises(NoActivePrompt):
        await ada.services.extractor.extract(Asked(ada.id))
