"""Everything that can be configured; the only place that reads the environment.

Names are ``RECOLLECT_<FIELD>`` unless a field names others; ``.env`` in the working directory counts too.
"""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, AnyHttpUrl, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

CommaSeparated = Annotated[tuple[str, ...], NoDecode]
Price = Annotated[Decimal, Field(ge=0, le=1_000_000)]


def default_home() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/recollect")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "recollect"
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "recollect"


def default_models_dir() -> Path:
    """Of the user, not of a home: what is pulled is the same for all of them, and can be pulled again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "recollect" / "models"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "recollect" / "models"


def keep_mem0_at_home(home: Path) -> None:
    """What its library reads when it is loaded: that it is to tell nobody, and where it may write."""
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(home)


def _also(name: str, field: str) -> AliasChoices:
    return AliasChoices(f"RECOLLECT_{field}", name)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="RECOLLECT_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
    )

    home: Path = Field(default_factory=default_home, description="Where data and secrets lie.")
    secret_key: SecretStr | None = Field(
        None, min_length=32, description="Secret of the deployment; made in the home if not set."
    )
    public_url: AnyHttpUrl | None = Field(None, description="Address under which people reach this server.")
    host: str = Field("127.0.0.1", validation_alias=_also("SERVICE_HOST", "HOST"))
    port: int = Field(8000, ge=1, le=65535, validation_alias=_also("SERVICE_PORT", "PORT"))
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", validation_alias=_also("LOG_LEVEL", "LOG_LEVEL")
    )
    user: str | None = Field(
        None, description="E-mail of the user for whom commands act that are not told by --user."
    )

    trusted_proxies: CommaSeparated = Field(
        (), description="Addresses of reverse proxies whose X-Forwarded-For and -Proto are believed."
    )

    database_url: SecretStr | None = Field(
        None, description="Another Postgres instead of the embedded one, as its owner."
    )
    database_pool_size: int = Field(10, ge=1, le=500)

    smtp_host: str | None = Field(None, description="Without one, messages stay in the dashboard.")
    smtp_port: int = Field(587, ge=1, le=65535)
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_username: str | None = None
    smtp_password: SecretStr | None = None
    mail_from: str | None = Field(None, description="Recollect <noreply@example.com>")

    max_body_bytes: int = Field(1_048_576, ge=1024)
    body_timeout_seconds: float = Field(20, gt=0)
    requests_per_minute: int = Field(0, ge=0, description="For each caller; 0 means without limit.")
    session_idle_hours: float = Field(72, gt=0)
    session_max_days: float = Field(30, gt=0)
    sign_in_attempts: int = Field(10, ge=1, description="Failures within 15 minutes, per account.")

    worker_concurrency: int = Field(10, ge=1, le=200, description="Jobs at once, per worker.")
    schedule: dict[str, str] = Field(
        default_factory=dict,
        description='When scheduled jobs run, e.g. {"bank-purge": "17 3 * * *"}; or "off".',
    )
    jobs_keep_days: int = Field(30, ge=1, description="How long the record of a finished job is kept.")
    memories_keep_deleted_days: int = Field(
        30, ge=0, description="How long a deleted memory can be restored."
    )
    events_keep_days: int = Field(7, ge=1, description="How long events can be read again.")

    entity_id_scheme: str = Field(
        "cl.rut",
        description="Which number people and companies are known by: a module of python-stdnum, or uuid.",
    )
    brain_language: str = Field(
        "es", pattern="^[a-z]{2}$", description="Of the memories that are made from forms and existing data."
    )
    brain_agent_writes: Literal["save", "propose"] = Field(
        "save",
        description="What becomes of a fact that an agent records; propose: a person has to approve it.",
    )

    profile_schema: str = Field(
        "recollect.profile.schemas:STATE",
        pattern=r"^[\w.]+:\w+$",
        description="The form of a profile's document: a Schema, as package.module:NAME.",
    )
    profile_checkpoint_every: int = Field(
        50, ge=1, le=10_000, description="Versions from one whole document to the next."
    )
    profile_max_drop: float = Field(
        0.3, ge=0, le=1, description="The largest share of a profile that one update may do away with."
    )
    profile_updates_safety_notes: bool = Field(
        False, description="Let updates change safety_notes; otherwise only people do."
    )
    activities_keep_days: int = Field(
        365, ge=1, description="How long an activity is kept that the profile has taken into account."
    )

    rules_run_tokens: int = Field(
        200_000,
        ge=0,
        description="What one extraction of rules may send to a model; the rest waits for the next. 0: all.",
    )

    embedding: Literal["auto", "minilm", "static", "endpoint"] = Field(
        "auto", description="What turns text into vectors: the endpoint, else the pulled model, else words."
    )
    models_dir: Path = Field(default_factory=default_models_dir, description="Where pulled models lie.")
    embedding_url: AnyHttpUrl | None = Field(None, description="An endpoint as OpenAI has, up to its /v1.")
    embedding_model: str | None = Field(None, min_length=1, max_length=200)
    embedding_api_key: SecretStr | None = None
    embedding_dimension: int | None = Field(
        None, ge=1, le=16_000, description="Asked of models that can shorten their vectors."
    )

    webhooks_allow_private: bool = Field(
        False, description="Let webhooks go to private addresses and over plain http."
    )

    bank_note_upgrades: bool = Field(
        False, description="Write meta/upgradedAt into the bank of a user who becomes premium."
    )
    bank_retention_days: dict[str, Annotated[int, Field(ge=1, le=36_500)]] = Field(
        default_factory=dict, description='Age limit per namespace, e.g. {"icebreakers": 90}.'
    )
    bank_encrypted_namespaces: CommaSeparated = Field((), description="Sealed with the keys below.")
    bank_encryption_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="name:base64 of 32 bytes, comma separated; the first one seals."
    )

    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: AnyHttpUrl | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    model: str | None = Field(None, max_length=200, description="Its name; with a key alone, a small Claude.")
    model_url: AnyHttpUrl | None = Field(
        None, description="Where another model answers that speaks OpenAI's protocol; it ends in /v1."
    )
    model_api_key: SecretStr | None = Field(None, validation_alias=_also("OPENAI_API_KEY", "MODEL_API_KEY"))
    model_timeout_seconds: float = Field(
        120, gt=0, le=1_800, description="For one answer, all tries included."
    )
    model_daily_tokens: int = Field(
        0, ge=0, description="For each user and each workspace; 0 means without limit."
    )
    model_price: Annotated[tuple[Price, Price] | None, NoDecode] = Field(
        None, description="USD for a million tokens of input and of output, e.g. 0.10,0.50."
    )
    model_calls_keep_days: int = Field(90, ge=1, description="How long the record of a model's call is kept.")

    service_key: SecretStr | None = Field(
        None,
        min_length=32,
        validation_alias=_also("SUPABASE_SERVICE_ROLE_KEY", "SERVICE_KEY"),
        description="Bearer that may act for every user; creates users on Supabase.",
    )
    supabase_url: AnyHttpUrl | None = Field(None, validation_alias="SUPABASE_URL")
    supabase_jwt_secret: SecretStr | None = Field(None, validation_alias="SUPABASE_JWT_SECRET")
    mem0_mode: Literal["self-hosted", "platform", "oss"] = Field(
        "self-hosted",
        validation_alias=_also("MEM0_MODE", "MEM0_MODE"),
        description="Who keeps memories: Recollect itself, mem0's platform, or mem0's library.",
    )
    mem0_api_key: SecretStr | None = Field(None, validation_alias="MEM0_API_KEY")
    mem0_host: AnyHttpUrl = Field(
        AnyHttpUrl("https://api.mem0.ai"),
        validation_alias=_also("MEM0_HOST", "MEM0_HOST"),
        description="Where mem0's platform answers, or another server that speaks as it does.",
    )
    mem0_webhook_secret: SecretStr | None = Field(None, validation_alias="MEM0_WEBHOOK_SECRET")
    cron_secret: SecretStr | None = Field(None, validation_alias="CRON_SECRET")
    stripe_webhook_secret: SecretStr | None = Field(None, validation_alias="STRIPE_WEBHOOK_SECRET")
    redis_url: SecretStr | None = Field(None, validation_alias="REDIS_URL")

    @field_validator(
        "bank_encrypted_namespaces", "bank_encryption_keys", "trusted_proxies", "model_price", mode="before"
    )
    @classmethod
    def _split(cls, given: object) -> object:
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        return given

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, given: object) -> object:
        return given.upper() if isinstance(given, str) else given
