"""A model that fails, refuses or is no longer paid for: what it answered is kept, the rest stays new."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.db.tenancy import SERVICE
from recollect.llm.failures import ModelBudgetSpent, ModelFailed
from recollect.rules.material import Asked as Wanted
from recollect.rules.models import NoActivePrompt, PromptChange
from tests.rules.answers import answering, lines, rule
from tests.rules.conftest import BRANCH, TABS, TABS_AGAIN, extract, runs, talk
from tests.rules.histories.conftest import Person
from tests.support.model_server import Asked, Behaviour, ModelServer, Says

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "refusal",
    [Says("", ended="refused"), Says({"rules": []}, ended="cut off"), Says("No JSON.")],
    ids=["refused", "cut off", "invalid"],
)
async def test_a_question_without_a_usable_answer_spoils_none_of_the_others(
    ada: Person, model: ModelServer, monkeypatch: pytest.MonkeyPatch, refusal: Says
) -> None:
    monkeypatch.setattr("recollect.rules.questions.MAX_CANDIDATES", 1)
    await ada.add(talk("one", TABS), talk("two", BRANCH))

    def behave(asked: Asked) -> Behaviour:
        if "<rules>" not in asked.prompt and TABS not in lines(asked, "candidates")[0]:
            return refusal
        return answering(rule())(asked)

    model.otherwise = behave
    first = await extract(ada)
    assert [each.rule_text for each in first.rules] == [rule()["rule_text"]]
    # Nor is it asked, and paid for, again.
    assert (await extract(ada)).run.turns == 0


SUBJECTS = ["tabs", "spaces", "quotes", "names", "tests", "docs", "types", "loops", "queues", "files"]


@pytest.mark.parametrize("odd", [0, 6, 9])
async def test_words_that_a_model_will_not_answer_are_found_and_set_aside(
    ada: Person, model: ModelServer, odd: int
) -> None:
    said = [f"From now on always mind the {subject}, without exception." for subject in SUBJECTS]
    await ada.add(*(talk(subject, text) for subject, text in zip(SUBJECTS, said, strict=True)))

    def behave(asked: Asked) -> Behaviour:
        if said[odd] in asked.prompt:
            return Says("", ended="refused")
        shown = [(number, words) for number, words, *_ in lines(asked, "candidates")]
        quotes = [[{"candidate": number, "text": words}] for number, words in shown]
        return answering(*(rule(each[0]["text"], quotes=each) for each in quotes))(asked)

    model.otherwise = behave
    extracted = await extract(ada)

    # Put alike, they are one rule.
    assert {quote.quote for each in extracted.rules for quote in each.evidence} == {*said} - {said[odd]}
    assert extracted.run.refused == 1
    assert (await extract(ada)).run.turns == 0


async def test_a_model_that_answers_nothing_is_soon_asked_no_more(ada: Person, model: ModelServer) -> None:
    said = [f"From now on always mind the {subject}, without exception." for subject in SUBJECTS]
    await ada.add(*(talk(subject, text) for subject, text in zip(SUBJECTS, said, strict=True)))
    model.otherwise = lambda _: Says("No JSON.")

    with pytest.raises(ModelFailed):
        await extract(ada)

    # What is no answer is asked for twice.
    assert len(model.asked) == 20
    model.otherwise = answering()
    assert (await extract(ada)).run.candidates == len(SUBJECTS)


async def test_what_is_refused_by_itself_is_not_asked_every_night(ada: Person, model: ModelServer) -> None:
    await ada.add(talk("one", TABS))
    model.otherwise = lambda _: Says("", ended="refused")
    first = await extract(ada)
    assert (first.rules, first.run.refused) == ([], 1)
    await extract(ada)
    assert len(model.asked) == 1


async def test_of_a_long_turn_a_model_is_shown_each_clause_that_may_be_a_rule(
    ada: Person, model: ModelServer
) -> None:
    story = "The cart shows what was bought, and the till adds it up for the day. " * 12
    code = "```\n" + "x = call(1)\n" * 200 + "```\n"
    await ada.add(talk("one", f"{TABS} {story}\n\n{BRANCH}"), talk("two", f"{TABS_AGAIN}\n{code}{BRANCH}"))
    model.otherwise = answering()

    await extract(ada)

    shown = {words for _, words, *_ in lines(model.asked[0], "candidates")}
    assert len(shown) == 2
    for words in shown:
        assert "indent with tabs" in words
        assert "Never push to the main branch" in words
        assert len(words) < 800


async def test_a_budget_that_ends_midway_keeps_what_was_paid_for(
    ada: Person, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.rules.questions.MAX_CANDIDATES", 1)
    await ada.add(talk("one", TABS), talk("two", BRANCH))
    quoting = {
        "tabs": rule(),
        "branch": rule("Never push to the main branch.", quote="Never push to the main"),
    }

    def behave(asked: Asked) -> Behaviour:
        if "<rules>" in asked.prompt:
            return answering()(asked)
        return Says({"rules": [quoting["tabs" if TABS in lines(asked, "candidates")[0] else "branch"]]})

    model.otherwise = behave
    ask, left = ada.services.llm.ask, 2

    async def spend(*given: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ModelBudgetSpent
        return await ask(*given, **more)

    monkeypatch.setattr(ada.services.llm, "ask", spend)
    first = await extract(ada)
    with pytest.raises(ModelBudgetSpent):
        await extract(ada)
    left = 2
    second = await extract(ada)

    assert [run.proposed for run in (first.run, second.run)] == [1, 1]
    assert len(model.asked) == 4


async def test_a_prompt_is_not_tried_where_there_is_none_to_compare_it_with(
    ada: Person, model: ModelServer
) -> None:
    [chat_id] = (await ada.add(talk("one", TABS))).ids
    assert chat_id is not None
    [default] = await ada.do(ada.services.rule_prompts.list)
    async with ada.services.tenancy.acting_as(SERVICE) as tx:
        await ada.services.rule_prompts.change(tx, default.id, PromptChange(is_active=False))

    with pytest.raises(NoActivePrompt):
        await ada.services.extractor.compare(Wanted(ada.id, chat_ids=[chat_id], prompt_id=default.id))

    assert (model.asked, await runs(ada)) == ([], [])


@pytest.mark.parametrize("more_settings", [{"rules_run_tokens": 1_500, "model_price": (2, 10)}])
async def test_a_run_stays_within_its_budget_though_questions_are_asked_in_halves(
    ada: Person, model: ModelServer
) -> None:
    said = [f"From now on never forget about the {each}." for each in SUBJECTS]
    await ada.add(*(talk(str(number), each) for number, each in enumerate(said)))
    model.otherwise = lambda _: Says({"nonsense": True})

    with pytest.raises(ModelFailed):
        await extract(ada)

    [run] = await runs(ada)
    assert 0 < run.tokens_sent <= 1_500
    assert run.cost_usd is not None
    assert run.cost_usd > 0


async def test_of_a_question_that_is_too_dear_a_part_is_asked(
    ada: Person, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [f"From now on never forget about the {each}." for each in SUBJECTS]
    await ada.add(*(talk(str(number), each) for number, each in enumerate(said)))
    model.otherwise = answering()
    planned = await ada.services.extractor.estimate(Wanted(ada.id))
    limit = planned.tokens_sent - 1
    monkeypatch.setattr(ada.services.extractor._finder, "_run_tokens", limit)

    first = await extract(ada)
    second = await extract(ada)

    assert 0 < first.run.candidates < planned.candidates == len(SUBJECTS)
    assert first.run.tokens_sent <= limit
    assert second.run.candidates == planned.candidates - first.run.candidates
