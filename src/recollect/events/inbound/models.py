"""What others send, as far as it is read here. What else they send is kept, and bothers nobody."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from recollect.errors import InvalidInput
from recollect.kit.text import Text

Name = Annotated[Text, StringConstraints(min_length=1, max_length=255)]


class Received(BaseModel):
    """What the sender is told: it need not send this again."""

    received: bool = True
    duplicate: bool | None = Field(None, description="It had come before; nothing was changed this time.")
    ignored: str | None = Field(None, description="Why it changed nothing.")


class Sent(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)


class CheckoutSession(Sent):
    """Stripe's record of one visit to the till."""

    client_reference_id: str | None = None
    metadata: dict[str, Any] | None = None
    mode: str | None = None
    payment_status: str | None = None

    @property
    def is_paid(self) -> bool:
        # In the mode "setup" a card is stored and nothing bought, which also "requires no payment".
        return self.mode != "setup" and self.payment_status in {"paid", "no_payment_required"}

    @property
    def user(self) -> str | None:
        """Whom it was for, in the words of the application that opened the session."""
        named = self.client_reference_id or (self.metadata or {}).get("userId")
        return named if isinstance(named, str) else None


class StripeEvent(Sent):
    id: Name
    type: Name
    data: dict[str, Any] = Field(default_factory=dict)


class Mem0Event(Sent):
    """One change of one memory at mem0."""

    event: Name
    memory_id: Name = Field(validation_alias=AliasChoices("memory_id", "id"))
    event_id: Name | None = None
    user_id: Annotated[Text, StringConstraints(max_length=255)] | None = Field(
        None, description="mem0's own name for whose memory it is."
    )

    @property
    def verb(self) -> str:
        """One word for each of ADD, memory_add and memory:add, which mem0 has used in turn."""
        return self.event.lower().removeprefix("memory").lstrip("_:.")


Model = TypeVar("Model", bound=Sent)


def read(model: type[Model], sent: object) -> Model:
    """What was sent as this model, or an error that names the first field that does not fit."""
    try:
        return model.model_validate(sent)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "the body"
        raise InvalidInput(f"{field}: {first['msg']}.") from None  # pydantic's error quotes what was sent
