"""Which embedder this deployment uses."""

from __future__ import annotations

import httpx

from recollect.engine.embedding.encoder import SentenceEncoder
from recollect.engine.embedding.endpoint import EndpointEmbedder
from recollect.engine.embedding.models import Embedder
from recollect.engine.embedding.pulled import MINILM
from recollect.engine.embedding.remembering import RememberingEmbedder
from recollect.engine.embedding.static import StaticEmbedder
from recollect.errors import Misconfigured
from recollect.settings import Settings


def open_embedder(settings: Settings, http: httpx.AsyncClient) -> Embedder:
    """An endpoint if one is configured, else the pulled model if it is there, else the table of words."""
    return RememberingEmbedder(_choose(settings, http))


def _choose(settings: Settings, http: httpx.AsyncClient) -> Embedder:
    match settings.embedding:
        case "endpoint":
            return _endpoint(settings, http)
        case "minilm":
            if not MINILM.is_in(settings.models_dir):
                raise Misconfigured(
                    f"{MINILM.name} is not in {settings.models_dir}; fetch it with "
                    '"recollect models pull", or set RECOLLECT_EMBEDDING=auto.'
                )
            return _minilm(settings)
        case "static":
            return StaticEmbedder()
        case "auto":
            if settings.embedding_url is not None:
                return _endpoint(settings, http)
            return _minilm(settings) if MINILM.is_in(settings.models_dir) else StaticEmbedder()


def _minilm(settings: Settings) -> Embedder:
    return SentenceEncoder(MINILM.name, MINILM.dimension, MINILM.folder(settings.models_dir))


def _endpoint(settings: Settings, http: httpx.AsyncClient) -> Embedder:
    if settings.embedding_url is None or settings.embedding_model is None:
        raise Misconfigured(
            "An embedding endpoint needs RECOLLECT_EMBEDDING_URL, such as http://127.0.0.1:11434/v1, "
            "and RECOLLECT_EMBEDDING_MODEL."
        )
    key = settings.embedding_api_key
    return EndpointEmbedder(
        http,
        str(settings.embedding_url),
        settings.embedding_model,
        key.get_secret_value() if key else None,
        settings.embedding_dimension,
    )
