"""Which model the settings name, and what it costs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import Misconfigured
from recollect.llm.choice import DEFAULT_MODEL, dialect_for, price_for
from recollect.llm.failures import NoModel
from recollect.llm.models import Usage
from recollect.llm.prices import Price, known_price
from recollect.settings import Settings
from tests.conftest import Person, make_settings
from tests.llm.conftest import Ask, Sql, ledger

KEY = "sk-the-key-of-the-tests-7391"
LOCAL = "http://127.0.0.1:11434/v1"


def configured(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


@pytest.mark.parametrize(
    ("values", "name", "url"),
    [
        ({"anthropic_api_key": KEY}, f"anthropic/{DEFAULT_MODEL}", "https://api.anthropic.com/v1/messages"),
        (
            {
                "anthropic_api_key": KEY,
                "model": "claude-opus-5-5",
                "anthropic_base_url": "http://gate.example/a/",
            },
            "anthropic/claude-opus-5-5",
            "http://gate.example/a/v1/messages",
        ),
        ({"model_url": LOCAL, "model": "llama"}, "127.0.0.1/llama", f"{LOCAL}/chat/completions"),
        (
            {"model_url": f"{LOCAL}/", "model": "llama", "anthropic_api_key": KEY},
            "127.0.0.1/llama",
            f"{LOCAL}/chat/completions",
        ),
    ],
)
def test_a_model_is_named_by_a_key_or_by_an_address(values: dict[str, Any], name: str, url: str) -> None:
    dialect = dialect_for(configured(**values))
    assert dialect is not None
    assert (f"{dialect.provider}/{dialect.model}", dialect.url) == (name, url)


@pytest.mark.parametrize("values", [{}, {"model": "claude-opus-5-5"}, {"model_api_key": KEY}])
def test_without_either_there_is_no_model(values: dict[str, Any]) -> None:
    assert dialect_for(configured(**values)) is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model_url": LOCAL}, "Set RECOLLECT_MODEL "),
        ({"anthropic_api_key": f"{KEY}\n{KEY}"}, "ANTHROPIC_API_KEY"),
        ({"model_url": LOCAL, "model": "x", "model_api_key": f"{KEY}é"}, "RECOLLECT_MODEL_API_KEY"),
        ({"model_url": f"http://ana:{KEY}@example.com/v1", "model": "x"}, "RECOLLECT_MODEL_URL"),
        ({"model_url": f"http://example.com/v1?key={KEY}", "model": "x"}, "RECOLLECT_MODEL_URL"),
        ({"anthropic_api_key": KEY, "anthropic_base_url": f"http://{KEY}@a.example"}, "ANTHROPIC_BASE_URL"),
    ],
)
def test_what_cannot_work_is_said_at_once_and_without_the_key(values: dict[str, Any], says: str) -> None:
    with pytest.raises(Misconfigured, match=says) as caught:
        dialect_for(configured(**values))
    assert KEY not in caught.value.detail


def test_a_key_may_have_an_end_of_line() -> None:
    dialect = dialect_for(configured(anthropic_api_key=f"{KEY}\n"))
    assert dialect is not None
    assert dialect.headers()["x-api-key"] == KEY


def test_a_price_is_the_settings_or_the_one_that_is_known() -> None:
    haiku = configured(anthropic_api_key=KEY)
    local = configured(model_url=LOCAL, model="claude-haiku-5-5")
    priced = configured(model_url=LOCAL, model="llama", model_price="0.5, 2")
    prices = [price_for(each, dialect) for each in (haiku, local, priced) if (dialect := dialect_for(each))]
    assert prices == [Price(Decimal("0.10"), Decimal("0.50")), None, Price(Decimal("0.5"), Decimal(2))]
    assert prices[0] is not None
    assert prices[0].of(Usage(1_000_000, 200_000)) == Decimal("0.2")
    assert known_price("claude-haiku-4-5-20251001") == known_price("claude-haiku-4-5") is not None
    assert known_price("claude-of-the-future") is None


@pytest.mark.parametrize("price", ["1", "1,2,3", "a,b", "-1,2", ""])
def test_a_price_is_two_numbers(price: str) -> None:
    with pytest.raises(ValidationError):
        configured(model_price=price)


class TestWithoutAModel:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def settings(self, home: Path, database_url: str) -> Settings:
        return make_settings(home, database_url)

    async def test_it_says_so_and_whoever_asks_is_told_what_to_set(
        self, services: Services, ask: Ask, sql: Sql, ana: Person
    ) -> None:
        assert (services.llm.configured, services.llm.name) == (False, None)
        with pytest.raises(NoModel, match="ANTHROPIC_API_KEY") as caught:
            await ask(SERVICE)
        assert (caught.value.status, caught.value.code) == (503, "no_model")
        told = (await ana.http.get("/api/model")).json()
        assert (told["configured"], told["name"]) == (False, None)
        assert await ledger(sql) == []
