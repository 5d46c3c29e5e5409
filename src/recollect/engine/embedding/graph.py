"""A BERT encoder's weights as an ONNX graph, which says what to do with them and leaves them where they are.

The graph names places in the safetensors file, so it is small, and the weights stay as they were published.
ONNX Runtime transposes and joins them while it loads, in less time than reading a second copy would take.
Attention, LayerNorm and GELU are the runtime's own fused operators, those its optimiser would aim at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from recollect.engine.embedding.weights import Tensor, UnreadableWeights, describe

EPSILON = 1e-12
FUSED = "com.microsoft"
STANDARD_VERSION, FUSED_VERSION, FORMAT_VERSION = 17, 1, 8


def build(weights: Path, heads: int) -> bytes:
    """``input_ids`` and ``mask`` to ``vectors``: mean over the mask, unit length."""
    graph = _Graph(describe(weights), weights.name)
    x = _embeddings(graph)
    layer = 0
    while graph.has(f"encoder.layer.{layer}.output.dense.weight"):
        x = _layer(graph, f"encoder.layer.{layer}", x, heads)
        layer += 1
    if layer == 0:
        raise UnreadableWeights(f"{weights.name} holds no encoder.")
    return graph.finish(_pooled(graph, x))


class _Graph:
    def __init__(self, tensors: dict[str, Tensor], location: str) -> None:
        self._tensors = tensors
        self._location = location
        self._nodes: list[NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}

    def has(self, name: str) -> bool:
        return name in self._tensors

    def weight(self, name: str) -> str:
        """A tensor of the file, by where it lies."""
        if (tensor := self._tensors.get(name)) is None or tensor.type != "F32":
            raise UnreadableWeights(f"{self._location} holds no {name} of 32-bit numbers.")
        proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=tensor.shape)
        proto.data_location = TensorProto.EXTERNAL
        place = {"location": self._location, "offset": tensor.offset, "length": tensor.length}
        for key, value in place.items():
            proto.external_data.add(key=key, value=str(value))
        self._initializers[name] = proto
        return name

    def transposed(self, name: str) -> str:
        """What was published multiplies from the left."""
        return self.apply("Transpose", self.weight(name), perm=[1, 0])

    def numbers(self, *values: int) -> str:
        name = f"numbers {values}"
        self._initializers[name] = numpy_helper.from_array(np.array(values, dtype=np.int64), name)
        return name

    def apply(self, operator: str, *inputs: str, also: tuple[str, ...] = (), **attributes: Any) -> str:
        """One node, and the name of its result; ``also`` names further ones."""
        result = f"{operator} {len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [result, *also], **attributes))
        return result

    def finish(self, result: str) -> bytes:
        self._nodes.append(helper.make_node("Identity", [result], ["vectors"]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"])
            for name in ("input_ids", "mask")
        ]
        output = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", "dimension"])
        graph = helper.make_graph(
            self._nodes, "sentence encoder", inputs, [output], list(self._initializers.values())
        )
        versions = [helper.make_opsetid("", STANDARD_VERSION), helper.make_opsetid(FUSED, FUSED_VERSION)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=FORMAT_VERSION)
        written: bytes = model.SerializeToString()
        return written


def _embeddings(graph: _Graph) -> str:
    return graph.apply(
        "EmbedLayerNormalization",
        "input_ids",
        # Every token is of type 0: there is one sentence, never a pair.
        graph.apply("Sub", "mask", "mask"),
        *(
            graph.weight(f"embeddings.{kind}_embeddings.weight")
            for kind in ("word", "position", "token_type")
        ),
        graph.weight("embeddings.LayerNorm.weight"),
        graph.weight("embeddings.LayerNorm.bias"),
        "mask",
        also=("lengths",),
        domain=FUSED,
        epsilon=EPSILON,
    )


def _layer(graph: _Graph, name: str, x: str, heads: int) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    joined = graph.apply("Concat", *(graph.weight(f"{part}.weight") for part in parts), axis=0)
    attention = graph.apply(
        "Attention",
        x,
        graph.apply("Transpose", joined, perm=[1, 0]),
        graph.apply("Concat", *(graph.weight(f"{part}.bias") for part in parts), axis=0),
        "lengths",
        domain=FUSED,
        num_heads=heads,
    )
    x = _added(graph, f"{name}.attention.output", attention, x)
    widened = graph.apply("MatMul", x, graph.transposed(f"{name}.intermediate.dense.weight"))
    bias = graph.weight(f"{name}.intermediate.dense.bias")
    return _added(graph, f"{name}.output", graph.apply("BiasGelu", widened, bias, domain=FUSED), x)


def _added(graph: _Graph, name: str, change: str, x: str) -> str:
    """A dense layer's result added to what went in, and evened out."""
    return graph.apply(
        "SkipLayerNormalization",
        graph.apply("MatMul", change, graph.transposed(f"{name}.dense.weight")),
        x,
        graph.weight(f"{name}.LayerNorm.weight"),
        graph.weight(f"{name}.LayerNorm.bias"),
        graph.weight(f"{name}.dense.bias"),
        domain=FUSED,
        epsilon=EPSILON,
    )


def _pooled(graph: _Graph, x: str) -> str:
    weights = graph.apply("Unsqueeze", graph.apply("Cast", "mask", to=TensorProto.FLOAT), graph.numbers(-1))
    # The sum: its length is made 1 anyway, so dividing it for the mean would change nothing.
    summed = graph.apply("ReduceSum", graph.apply("Mul", x, weights), graph.numbers(1), keepdims=0)
    return graph.apply("LpNormalization", summed, axis=-1, p=2)
