"""Ways in which no answer comes. Whatever asked goes on without one, or leaves everything as it was.

RecollectError
├── NoModel               503  none is configured
├── ModelBudgetSpent      429  the day's tokens are used up
├── PromptTooLong         422  more than is sent to any model
└── ModelFailed           502  asked, and nothing usable came
    ├── InvalidAnswer     502  not of the form that was asked for, twice
    ├── AnswerTooLong     502  cut off
    ├── ModelRefused      502  it would not
    └── ModelAway         503  not reachable or busy; trying again later helps
        └── ModelTimedOut 504
"""

from __future__ import annotations

from typing import ClassVar

from recollect.errors import InvalidInput, RecollectError, TooManyAttempts
from recollect.llm.models import Outcome


class NoModel(RecollectError):
    """No model is configured; set ANTHROPIC_API_KEY, or RECOLLECT_MODEL_URL and RECOLLECT_MODEL."""

    code, status = "no_model", 503


class ModelBudgetSpent(TooManyAttempts):
    """The tokens for today are used up; there are new ones at midnight UTC."""

    code = "model_budget_spent"


class PromptTooLong(InvalidInput):
    """That is more text than is sent to a model at once."""

    code = "prompt_too_long"


class ModelFailed(RecollectError):
    """The model did not give a usable answer."""

    code, status = "model_failed", 502
    outcome: ClassVar[Outcome] = "failed"


class InvalidAnswer(ModelFailed):
    """The model's answer was not of the form that was asked for."""

    code = "invalid_answer"
    outcome = "invalid"


class AnswerTooLong(ModelFailed):
    """The model's answer was longer than allowed and was cut off."""

    code = "answer_too_long"
    outcome = "truncated"


class ModelRefused(ModelFailed):
    """The model declined to answer."""

    code = "model_refused"
    outcome = "refused"


class ModelAway(ModelFailed):
    """The model cannot be reached or is busy; try again later."""

    code, status = "model_away", 503


class ModelTimedOut(ModelAway):
    """The model did not answer in time; try again later."""

    code, status = "model_timed_out", 504
    outcome = "timed_out"
