"""A profile's next state, from a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, create_model

from recollect.db.tenancy import SERVICE, Caller, Tenancy
from recollect.llm.models import DEFAULT_MAX_TOKENS
from recollect.llm.service import Llm
from recollect.profile.canonical import canonical
from recollect.profile.models import Activity, Document
from recollect.profile.schemas import Schema
from recollect.profile.store import queries

PURPOSE = "profile.update"
# Of what a model is sent at once; the rest is for the document and the prompt.
MAX_ACTIVITY_BYTES = 40_000
MAX_SHOWN = 4_000
MAX_ANSWER_TOKENS = 32_000


@dataclass(frozen=True)
class Answer:
    document: Document
    prompt_version: int
    left_out: int


class Asking:
    def __init__(self, tenancy: Tenancy, llm: Llm, schema: Schema) -> None:
        self._tenancy = tenancy
        self._llm = llm
        self._form: type[BaseModel] = create_model("Answer", memory=(schema.model, ...))

    @property
    def name(self) -> str:
        return self._llm.name or "model"

    async def ask(self, caller: Caller, document: Document, activities: Sequence[Activity]) -> Answer:
        """The document as the model would have it. The prompt that is in use now is used."""
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            prompt = await tx.one(queries.active_prompt, last=True)
        shown = _shown(activities)
        answer = await self._llm.ask(
            caller,
            purpose=PURPOSE,
            system=prompt["prompt_text"],
            prompt="\n".join(["<memory>", _line(document), "</memory>", "<activity>", *shown, "</activity>"]),
            answer=self._form,
            max_tokens=min(MAX_ANSWER_TOKENS, DEFAULT_MAX_TOKENS + len(canonical(document)) // 2),
        )
        made: Document = answer.model_dump(mode="json", exclude_unset=True)["memory"]
        return Answer(made, prompt["version"], len(activities) - len(shown))


def _shown(activities: Sequence[Activity]) -> list[str]:
    """The latest of them, as many as fit, in their order."""
    shown: list[str] = []
    size = 0
    for activity in reversed(activities):
        line = _line(
            {
                "at": activity.happened_at.isoformat(timespec="seconds"),
                "kind": activity.kind,
                **({"content": activity.content[:MAX_SHOWN]} if activity.content else {}),
                # One that says too much must not keep all others from being shown.
                **(
                    {"data": activity.data}
                    if activity.data and len(_line(activity.data)) <= MAX_SHOWN
                    else {}
                ),
            }
        )
        size += len(line.encode()) + 1
        if size > MAX_ACTIVITY_BYTES:
            break
        shown.append(line)
    return shown[::-1]


def _line(entry: dict[str, Any]) -> str:
    # Nothing in it ends the line, or looks like the end of the whole.
    return json.dumps(entry, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
