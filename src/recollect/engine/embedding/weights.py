"""The safetensors format: a length, a JSON object that says where each tensor lies, the tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_HEADER_BYTES = 10_000_000
_TYPES = {"F16": np.float16, "F32": np.float32, "I64": np.int64}


class UnreadableWeights(ValueError):
    """The file does not hold tensors as it should."""


@dataclass(frozen=True)
class Tensor:
    """Where one lies: ``offset`` counts from the beginning of the file."""

    type: str
    shape: tuple[int, ...]
    offset: int
    length: int


def describe(path: Path) -> dict[str, Tensor]:
    """Every tensor in the file, by name."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER_BYTES:
            raise UnreadableWeights(f"{path.name} does not begin as weights do.")
        try:
            header = json.loads(file.read(size))
            tensors = {name: _tensor(8 + size, said) for name, said in header.items() if name[:2] != "__"}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableWeights(f"{path.name} does not say which weights it holds.") from error
    end = max((tensor.offset + tensor.length for tensor in tensors.values()), default=0)
    if end > path.stat().st_size:
        raise UnreadableWeights(f"{path.name} ends too early.")
    return tensors


def _tensor(base: int, said: dict[str, Any]) -> Tensor:
    begin, end = map(int, said["data_offsets"])
    return Tensor(str(said["dtype"]), tuple(map(int, said["shape"])), base + begin, end - begin)


def mapped(path: Path, name: str) -> NDArray[Any]:
    """One tensor, read from the disk as far as it is looked at."""
    tensor = describe(path)[name]
    return np.memmap(path, dtype=_TYPES[tensor.type], mode="r", offset=tensor.offset, shape=tensor.shape)
