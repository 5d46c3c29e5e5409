"""The form of an answer, within what servers can hold a model to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, create_model

from recollect.llm.dialects import Anthropic, ChatCompletions, Dialect, Form
from recollect.llm.models import Question
from recollect.llm.schema import NotExpressible, as_text, enforceable, schema_of
from tests.support.model_server import _is_enforceable


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str | None = Field(None, pattern="^[A-Z]", description="What it hears to.")


class Zoo(BaseModel):
    model_config = ConfigDict(title="A zoo")

    opened: datetime
    animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(min_length=1, max_length=5)
    favourite: Cat = Field(description="The best of them.")
    mood: Literal["good", "bad"] = "good"


def test_a_form_is_closed_complete_and_without_what_servers_refuse() -> None:
    made = enforceable(schema_of(Zoo))
    assert _is_enforceable(made)
    assert made["required"] == ["opened", "animals", "favourite", "mood"]
    assert made["properties"]["favourite"] == {"$ref": "#/$defs/Cat"}
    assert made["$defs"]["Cat"]["properties"]["kind"] == {"const": "cat", "type": "string"}


def test_what_cannot_be_enforced_is_told_in_words() -> None:
    made = enforceable(schema_of(Zoo))
    assert made["$defs"]["Cat"]["properties"]["lives"]["description"] == '{"maximum":9,"minimum":1}'
    assert "maxItems" in made["properties"]["animals"]["description"]
    name = made["$defs"]["Dog"]["properties"]["name"]
    assert name["description"] == "What it hears to."
    assert name["anyOf"][0] == {"type": "string", "description": '{"pattern":"^[A-Z]"}'}


@pytest.mark.parametrize("of", [dict[str, int], Any, list[Any], list, dict])
def test_an_open_form_cannot_be_enforced(of: Any) -> None:
    with pytest.raises(NotExpressible):
        enforceable(schema_of(create_model("Open", field=(of, ...))))


def test_the_answers_length_is_bounded_in_the_words_of_each_server() -> None:
    question = Question("s", "p", Zoo, as_text(schema_of(Zoo)), 77)
    key = SecretStr("k")
    servers: dict[str, Dialect] = {
        "max_tokens": Anthropic("m", key, "https://api.anthropic.com"),
        # Its own models refuse the older name; others do not know the newer one.
        "max_completion_tokens": ChatCompletions("m", key, "https://api.openai.com/v1"),
    }
    for name, dialect in servers.items():
        assert dialect.request(question, Form.WORDS)[name] == 77
    local = ChatCompletions("m", None, "http://127.0.0.1:11434/v1")
    assert local.request(question, Form.WORDS)["max_tokens"] == 77
    assert local.headers() == {}
