"""What is wrong with input, in words."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from recollect.kit.validation import MOST_TOLD, told


class Known(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


def errors_of(**given: object) -> list[dict[str, object]]:
    with pytest.raises(ValidationError) as refused:
        Known.model_validate(given)
    return [dict(error) for error in refused.value.errors()]


def test_each_field_is_told_with_its_problem_and_without_its_value() -> None:
    listed, fields = told(errors_of(name=5, secret="hunter2"))

    assert [field["field"] for field in fields] == ["name", "secret"]
    assert listed == "; ".join(f"{field['field']}: {field['problem']}" for field in fields) + "."
    assert "hunter2" not in listed


def test_very_many_are_told_in_part_and_counted() -> None:
    listed, fields = told(errors_of(name="x", **{f"unknown{number}": 1 for number in range(5_000)}))

    assert len(fields) == MOST_TOLD
    assert listed.endswith("; and 4,950 more.")


def test_a_field_with_an_endless_name_is_told_by_its_beginning() -> None:
    [field] = told(errors_of(name="x", **{"k" * 10_000: 1}))[1]

    assert field["field"] == "k" * 100
