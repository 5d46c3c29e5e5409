"""Which model the settings name, if any."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import SecretStr

from recollect.errors import Misconfigured
from recollect.llm.dialects import Anthropic, ChatCompletions, Dialect
from recollect.llm.prices import Price, known_price
from recollect.settings import Settings

DEFAULT_MODEL = "claude-haiku-5-5"
OF_ANTHROPIC = "https://api.anthropic.com"


def dialect_for(settings: Settings) -> Dialect | None:
    """An address of its own comes before a key for Anthropic: who gives one means that model."""
    if settings.model_url is not None:
        if not settings.model:
            raise Misconfigured("Set RECOLLECT_MODEL to the name of a model that RECOLLECT_MODEL_URL serves.")
        key = _usable(settings.model_api_key, "RECOLLECT_MODEL_API_KEY")
        return ChatCompletions(settings.model, key, _plain(str(settings.model_url), "RECOLLECT_MODEL_URL"))
    if key := _usable(settings.anthropic_api_key, "ANTHROPIC_API_KEY"):
        base_url = str(settings.anthropic_base_url or OF_ANTHROPIC)
        return Anthropic(settings.model or DEFAULT_MODEL, key, _plain(base_url, "ANTHROPIC_BASE_URL"))
    return None


def price_for(settings: Settings, dialect: Dialect) -> Price | None:
    if settings.model_price is not None:
        return Price(*settings.model_price)
    return known_price(dialect.model) if dialect.provider == Anthropic.provider else None


def _usable(key: SecretStr | None, setting: str) -> SecretStr | None:
    if key is None:
        return None
    text = key.get_secret_value().strip()
    # Anything else cannot be sent, and would be quoted in the error that says so.
    if not re.fullmatch(r"[\x21-\x7e]+", text):
        raise Misconfigured(f"{setting} holds more than a key: no spaces, and nothing but ASCII.")
    return SecretStr(text)


def _plain(url: str, setting: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Misconfigured(
            f"{setting} is an address without a user, a query or a fragment; keys go elsewhere."
        )
    return url
