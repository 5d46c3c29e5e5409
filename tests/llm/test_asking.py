"""Asking a model: what is sent, what is accepted, and what comes of everything that can go wrong."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, RootModel, create_model

from recollect.bootstrap import Services
from recollect.db.tenancy import NOBODY, SERVICE, Caller
from recollect.errors import NotSignedIn
from recollect.kit.text import UnstorableText
from recollect.llm import service
from recollect.llm.endpoint import Setback
from recollect.llm.failures import (
    AnswerTooLong,
    InvalidAnswer,
    ModelAway,
    ModelFailed,
    ModelRefused,
    ModelTimedOut,
    PromptTooLong,
)
from recollect.llm.models import MAX_INPUT_BYTES, Question
from tests.conftest import until
from tests.llm.conftest import FACTS, AddUser, Ask, Facts, Sql, ledger
from tests.support.model_server import KEY, Fails, Hangs, HangsUp, ModelServer, Says, Sends

pytestmark = pytest.mark.anyio


async def test_an_answer_is_what_was_asked_for_and_is_written_down(
    services: Services, model: ModelServer, ask: Ask, add_user: AddUser, sql: Sql, protocol: str
) -> None:
    ana = await add_user("ana@example.com")
    model.will(Says(FACTS, tokens=(1_000, 200), thoughts='Is {"this"} it?'))

    found = await ask(Caller.user(ana))

    assert found == Facts.model_validate(FACTS)
    [asked] = model.asked
    assert (asked.system, asked.turns) == ("You note facts.", [("user", "Ana likes tea.")])
    assert asked.form == "json_schema"
    assert asked.schema is not None
    assert asked.schema["required"] == ["title", "facts", "note"]
    [row] = await ledger(sql)
    assert (row["user_id"], row["workspace_id"], row["purpose"]) == (ana, None, "memory.extract")
    assert (row["outcome"], row["attempts"], row["error"]) == ("ok", 1, None)
    assert (row["input_tokens"], row["output_tokens"], row["budget_tokens"]) == (1_000, 200, 1_200)
    assert row["took_ms"] >= 0
    name, cost = f"{row['provider']}/{row['model']}", row["cost_usd"]
    if protocol == "anthropic":
        assert (name, cost) == ("anthropic/claude-haiku-5-5", Decimal("0.0002"))
    else:
        assert (name, cost) == ("127.0.0.1/tiny-llama", None)
    assert services.llm.name == name


async def test_an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    model.will(Says({"title": "Ana", "facts": [{"text": "", "weight": 9}]}), Says(FACTS))

    assert await ask() == Facts.model_validate(FACTS)

    first, second = model.asked
    assert second.turns[0] == first.turns[0]
    (said_by, said), (told_by, told) = second.turns[1:]
    assert (said_by, told_by) == ("assistant", "user")
    assert '"weight": 9' in said
    assert "facts.0.text" in told
    assert "facts.0.weight" in told
    [row] = await ledger(sql)
    assert (row["outcome"], row["attempts"]) == ("ok", 2)
    assert (row["input_tokens"], row["output_tokens"], row["budget_tokens"]) == (200, 40, 240)


@pytest.mark.parametrize(
    "said",
    [
        "I think that Ana likes tea.",
        '{"title": "A\\u0000na", "facts": []}',
        '{"title": "A\\ud800na", "facts": []}',
        '{"title": "Ana", "title": "Ben", "facts": []}',
        '["Ana"]',
        "",
        "[" * 100_000,
    ],
)
async def test_what_could_not_be_stored_is_sent_back_too(model: ModelServer, ask: Ask, said: str) -> None:
    model.will(Says(said), Says(FACTS))
    assert await ask() == Facts.model_validate(FACTS)
    assert len(model.asked) == 2


@pytest.mark.parametrize("around", ["```json\n{}\n```", "Here you are:\n{}\nAnything else?", "\n {} \n"])
async def test_courtesies_around_an_answer_do_no_harm(model: ModelServer, ask: Ask, around: str) -> None:
    model.will(Says(around.replace("{}", Says(FACTS).text)))
    assert await ask() == Facts.model_validate(FACTS)
    assert len(model.asked) == 1


async def test_an_answer_that_does_not_fit_twice_is_none_and_is_quoted_nowhere(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    model.will(*[Says({"title": "zebra7391", "facts": [{"zebra7391": 1}]})] * 2)

    with pytest.raises(InvalidAnswer, match="look at facts") as caught:
        await ask()

    assert (caught.value.status, caught.value.code) == (502, "invalid_answer")
    [row] = await ledger(sql)
    assert (row["outcome"], row["attempts"], row["input_tokens"]) == ("invalid", 2, 200)
    assert row["error"] == caught.value.detail
    assert "zebra7391" not in str(row)


@pytest.mark.parametrize(
    ("said", "error", "outcome"),
    [
        (Says("", ended="refused"), ModelRefused, "refused"),
        (Says('{"title": "An', ended="cut off"), AnswerTooLong, "truncated"),
    ],
)
async def test_a_model_that_will_not_or_runs_out_of_room_is_not_asked_again(
    model: ModelServer, ask: Ask, sql: Sql, said: Says, error: type[ModelFailed], outcome: str
) -> None:
    model.will(said)
    with pytest.raises(error):
        await ask()
    assert len(model.asked) == 1
    [row] = await ledger(sql)
    assert (row["outcome"], row["input_tokens"]) == (outcome, 100)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>zebra7391</html>",
        b"",
        b"{}",
        b"[]",
        b'{"content": 7, "choices": [7]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
async def test_garbage_is_an_error_that_says_where_to_look(
    model: ModelServer, ask: Ask, sql: Sql, body: bytes
) -> None:
    model.will(Sends(body))
    with pytest.raises(ModelFailed, match="no answer of a model"):
        await ask()
    [row] = await ledger(sql)
    assert row["outcome"] == "failed"
    assert "zebra7391" not in str(row)


async def test_an_answer_without_end_is_not_read_to_its_end(model: ModelServer, ask: Ask) -> None:
    model.will(Sends(b" " * 5_000_000))
    with pytest.raises(ModelFailed, match="too large"):
        await ask()


@pytest.mark.parametrize(
    "setback",
    [Fails(429, {"Retry-After": "0"}), Fails(429), Fails(529), Fails(500), Fails(503), Fails(408), HangsUp()],
)
async def test_what_passes_is_tried_again(
    model: ModelServer, ask: Ask, sql: Sql, setback: Fails | HangsUp
) -> None:
    model.will(setback, Says(FACTS))
    assert await ask() == Facts.model_validate(FACTS)
    [row] = await ledger(sql)
    assert (row["outcome"], row["attempts"]) == ("ok", 2)


async def test_what_does_not_pass_is_given_up_after_a_few_tries(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    model.otherwise = lambda _: Fails(529, says="zebra7391", kind="overloaded_error")
    with pytest.raises(ModelAway, match=r"busy .*\(529\)") as caught:
        await ask()
    assert (caught.value.status, int(caught.value.headers["Retry-After"])) == (503, 1)
    assert len(model.asked) == service.MAX_TRIES
    [row] = await ledger(sql)
    # Nothing was answered: nothing was taken.
    assert (row["outcome"], row["attempts"], row["budget_tokens"]) == ("failed", service.MAX_TRIES, 0)
    assert "zebra7391" not in str(row)


async def test_a_server_that_wants_a_long_rest_gets_it_from_whoever_asks_next(
    model: ModelServer, ask: Ask
) -> None:
    model.will(Fails(429, {"Retry-After": "3600"}))
    with pytest.raises(ModelAway) as caught:
        await ask()
    assert caught.value.headers["Retry-After"] == "3600"
    assert len(model.asked) == 1


async def test_a_rest_is_as_long_as_the_server_wants_and_never_ends_after_the_deadline() -> None:
    now = asyncio.get_running_loop().time()
    assert service._pause(Setback("busy", may_pass=True, wait=7), 1, now + 60) == 7
    with pytest.raises(ModelAway):
        service._pause(Setback("busy", may_pass=True, wait=7), 1, now + 5)
    first, third = (service._pause(Setback("busy", may_pass=True), tries, None) for tries in (1, 3))
    assert 0 < first <= service.FIRST_WAIT_SECONDS < third


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Fails(429, says="enforced_spend_limit_reached"), "no credit"),
        (Fails(429, kind="insufficient_quota"), "no credit"),
        (Fails(402), "no credit"),
        (Fails(403), "refused the key"),
        (Fails(404), "look at RECOLLECT_MODEL"),
        (Fails(413), "as long as that"),
        (Fails(307, {"Location": "http://127.0.0.1:9/"}), "final address"),
        (Fails(400, kind="invalid_request_error"), r"\(400, invalid_request_error\)"),
        (Fails(400, kind="Zebra7391 in <b>"), r"\(400\)"),
        (Fails(529, {"x-should-retry": "false"}), "busy"),
    ],
)
async def test_what_waiting_does_not_help_is_not_tried_again(
    model: ModelServer, ask: Ask, failure: Fails, says: str
) -> None:
    model.will(failure, Says(FACTS))
    with pytest.raises(ModelFailed, match=says) as caught:
        await ask()
    assert not isinstance(caught.value, ModelAway)
    assert len(model.asked) == 1


@pytest.mark.parametrize("options", [{"model_timeout_seconds": 0.5}])
async def test_a_model_that_hangs_is_waited_for_so_long_and_counts_as_if_it_had_answered(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    model.will(Hangs())
    with pytest.raises(ModelTimedOut, match=r"within 0\.5 seconds"):
        await ask()
    assert len(model.asked) == 1
    [row] = await ledger(sql)
    assert (row["outcome"], row["input_tokens"]) == ("timed_out", None)
    assert row["budget_tokens"] > 1_000


async def test_a_server_that_is_not_there_is_an_error_of_its_own(
    model: ModelServer, ask: Ask, services: Services, sql: Sql
) -> None:
    assert services.llm._endpoint is not None
    services.llm._endpoint.dialect.url = "http://127.0.0.1:9/v1/messages"
    with pytest.raises(ModelAway, match="cannot be reached"):
        await ask()
    [row] = await ledger(sql)
    assert (row["outcome"], row["budget_tokens"]) == ("failed", 0)


async def test_the_key_is_nowhere_but_in_the_request(
    services: Services,
    model: ModelServer,
    ask: Ask,
    sql: Sql,
    capfd: pytest.CaptureFixture[str],
    protocol: str,
) -> None:
    model.will(HangsUp(), Fails(401, says=f"Incorrect API key provided: {KEY}"))
    with pytest.raises(ModelFailed, match="refused the key") as caught:
        await ask()
    setting = "ANTHROPIC_API_KEY" if protocol == "anthropic" else "RECOLLECT_MODEL_API_KEY"
    assert setting in caught.value.detail

    sent = [asked.headers for asked in model.asked]
    assert all(KEY in str(headers) for headers in sent)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {vars(error)}"
        # What an error came from may hold the request, and that its headers.
        assert not hasattr(error, "request")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert services.llm._endpoint is not None
    shown = capfd.readouterr()
    dialect = services.llm._endpoint.dialect
    assert KEY not in f"{shown} {vars(dialect)} {services.settings} {await ledger(sql)}"
    assert all(KEY not in str(asked.body) for asked in model.asked)


async def test_an_error_does_not_bring_along_what_it_came_from(
    services: Services, model: ModelServer
) -> None:
    endpoint = services.llm._endpoint
    assert endpoint is not None
    model.will(HangsUp())
    with pytest.raises(Setback) as caught:
        await endpoint.send(Question("You note facts.", "Ana likes tea.", Facts, "{}", 1_000))
    # httpx's error holds the request, and that the key.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# The form of an answer


@pytest.mark.parametrize("takes", [("json_object", None), (None,)])
async def test_a_server_that_takes_no_schema_gets_it_in_words(
    model: ModelServer, ask: Ask, sql: Sql, takes: tuple[str | None, ...], protocol: str
) -> None:
    model.takes = takes
    model.will(Says(FACTS), Says(FACTS))

    assert await ask() == Facts.model_validate(FACTS)
    tries = len(model.asked)
    assert await ask() == Facts.model_validate(FACTS)

    # What it does not take it is not sent a second time.
    assert len(model.asked) == tries + 1
    last = model.asked[-1]
    assert last.form == (takes[0] if protocol == "openai" else None)
    assert last.system.startswith("You note facts.")
    assert '"maxLength":100' in last.system
    assert [row["attempts"] for row in await ledger(sql)] == [1, 1]


async def test_an_answer_of_open_form_is_asked_for_in_words(model: ModelServer, ask: Ask) -> None:
    counts: type[BaseModel] = create_model("Counts", counts=(dict[str, int], ...))
    model.will(Says({"counts": {"tea": 3}}))
    found = await ask(answer=counts)
    assert found.model_dump() == {"counts": {"tea": 3}}
    [asked] = model.asked
    assert asked.schema is None
    assert '"counts"' in asked.system


@pytest.mark.parametrize("wrong", [{"answer": RootModel[list[str]]}, {"max_tokens": 0}])
async def test_an_answer_is_an_object_and_takes_tokens(
    model: ModelServer, ask: Ask, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="an object with fields"):
        await ask(**wrong)
    assert model.asked == []


# Whatever happens to whoever asked


async def test_only_so_many_are_put_to_a_model_at_once(
    services: Services, model: ModelServer, ask: Ask, sql: Sql
) -> None:
    assert services.llm._endpoint is not None
    services.llm._endpoint._turns = asyncio.Semaphore(2)
    go_on = asyncio.Event()
    model.before_answering = go_on.wait
    model.otherwise = lambda _: Says(FACTS)

    async def all_are_open() -> bool:
        return len(await ledger(sql)) == 5

    async with asyncio.TaskGroup() as asking:
        for _ in range(5):
            asking.create_task(ask())
        await until(all_are_open)
        await until(lambda: len(model.asked) == 2)
        go_on.set()
    assert len(model.asked) == 5
    assert model.most_at_once == 2


async def test_no_transaction_is_open_while_the_model_thinks(model: ModelServer, ask: Ask, sql: Sql) -> None:
    model.will(Hangs())
    asking = asyncio.create_task(ask())
    await until(lambda: model.asked)

    [row] = await ledger(sql)
    open_ones = await sql(
        "select state, query from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and state like 'idle in transaction%%'"
    )
    assert row["outcome"] == "running"
    assert row["budget_tokens"] > 1_000
    assert open_ones == []
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_who_does_not_wait_leaves_a_record(model: ModelServer, ask: Ask, sql: Sql) -> None:
    model.will(Hangs())
    asking = asyncio.create_task(ask())
    await until(lambda: model.asked)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    [row] = await ledger(sql)
    assert (row["outcome"], row["attempts"]) == ("cancelled", 1)
    # It may have answered for all we know.
    assert row["budget_tokens"] > 1_000


async def test_a_fault_of_our_own_is_written_down_by_name_alone(
    services: Services, model: ModelServer, ask: Ask, sql: Sql
) -> None:
    class Picky(BaseModel):
        title: str

        def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002 - pydantic's own
            raise ZeroDivisionError("zebra7391")

    model.will(Says({"title": "x"}))
    with pytest.raises(ZeroDivisionError):
        await ask(answer=Picky)
    [row] = await ledger(sql)
    assert (row["outcome"], row["error"]) == ("failed", "Ended by ZeroDivisionError.")


# What is not sent at all


@pytest.mark.parametrize("purpose", ["", "Memory", "memory.", "memory extract", "memory;drop"])
async def test_a_purpose_is_a_plain_word(ask: Ask, model: ModelServer, purpose: str) -> None:
    with pytest.raises(ValueError, match=r"memory\.extract"):
        await ask(purpose=purpose)
    assert model.asked == []


async def test_too_much_text_and_text_that_is_none_are_refused(
    model: ModelServer, ask: Ask, sql: Sql
) -> None:
    with pytest.raises(PromptTooLong):
        await ask(prompt="é" * (MAX_INPUT_BYTES // 2))
    for broken in ("a\x00b", "a\ud800b"):
        with pytest.raises(UnstorableText):
            await ask(prompt=broken)
    assert model.asked == []
    assert await ledger(sql) == []


async def test_nobody_is_not_answered(ask: Ask, model: ModelServer) -> None:
    with pytest.raises(NotSignedIn):
        await ask(NOBODY)
    assert model.asked == []


async def test_the_service_asks_for_nobody_in_particular(ask: Ask, model: ModelServer, sql: Sql) -> None:
    model.will(Says(FACTS))
    await ask(SERVICE)
    [row] = await ledger(sql)
    assert (row["user_id"], row["workspace_id"]) == (None, None)
