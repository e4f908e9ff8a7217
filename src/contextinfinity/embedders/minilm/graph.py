"""BERT as an ONNX graph over the tensors of a safetensors file.

The graph is built at every start, in milliseconds, from standard ONNX operations. It contains no weights but refers to
their positions in the file, which onnxruntime maps into memory.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from contextinfinity.embedders.minilm.onnx_form import FLOAT, INT64, Graph, value
from contextinfinity.embedders.safetensors import Tensor, tensors

_EPSILON = 1e-12


class Shape(Struct, frozen=True, kw_only=True):
    """The dimensions of a BERT."""

    words: int
    positions: int
    width: int
    inner: int
    heads: int
    layers: int


def bert(path: Path, shape: Shape) -> bytes:
    """Build the graph; raise ``ValueError`` if the file does not contain the expected tensors.

    The inputs are ``ids``, ``positions`` and ``mask`` (0 for a token, a large negative number for padding); the output
    is ``hidden``, one row per token.
    """
    graph, found = Graph(), tensors(path)
    for name, sizes in _needed(shape).items():
        tensor = _checked(name, found.get(name), sizes)
        graph.numbers_in_file(name, sizes, path.name, tensor.start, tensor.length)
    flat, batch = _embedded(graph, shape)
    for layer in range(shape.layers):
        flat = _layer(graph, f"encoder.layer.{layer}", flat, batch, shape)
    graph.op("Reshape", flat, batch, output="hidden")
    inputs = (
        value("ids", INT64, ("texts", "tokens")),
        value("positions", INT64, ("tokens",)),
        value("mask", FLOAT, ("texts", 1, 1, "tokens")),
    )
    return graph.written(inputs, (value("hidden", FLOAT, ("texts", "tokens", shape.width)),))


def _embedded(graph: Graph, shape: Shape) -> tuple[str, str]:
    """Add token and position embeddings; return the flattened sum, and its original shape."""
    words = graph.op("Gather", "embeddings.word_embeddings.weight", "ids")
    places = graph.op("Gather", "embeddings.position_embeddings.weight", "positions")
    first = graph.op("Gather", "embeddings.token_type_embeddings.weight", graph.whole_numbers(0))
    both = graph.op("Add", graph.op("Add", words, places), first)
    flat = graph.op("Reshape", _levelled(graph, "embeddings.LayerNorm", both), graph.whole_numbers(-1, shape.width))
    return flat, graph.op("Shape", both)


def _layer(graph: Graph, name: str, flat: str, batch: str, shape: Shape) -> str:
    seen = _attention(graph, f"{name}.attention.self", flat, batch, shape)
    kept = graph.op("Add", _linear(graph, f"{name}.attention.output.dense", seen), flat)
    flat = _levelled(graph, f"{name}.attention.output.LayerNorm", kept)
    inner = graph.op("Gelu", _linear(graph, f"{name}.intermediate.dense", flat))
    kept = graph.op("Add", _linear(graph, f"{name}.output.dense", inner), flat)
    return _levelled(graph, f"{name}.output.LayerNorm", kept)


def _attention(graph: Graph, name: str, flat: str, batch: str, shape: Shape) -> str:
    size = shape.width // shape.heads
    heads = graph.whole_numbers(0, 0, shape.heads, size)

    def projected(which: str, order: tuple[int, ...]) -> str:
        whole = graph.op("Reshape", _linear(graph, f"{name}.{which}", flat), batch)
        return graph.op("Transpose", graph.op("Reshape", whole, heads), perm=order)

    query, key, said = (
        projected("query", (0, 2, 1, 3)),
        projected("key", (0, 2, 3, 1)),
        projected("value", (0, 2, 1, 3)),
    )
    scores = graph.op("Mul", graph.op("MatMul", query, key), graph.number(size**-0.5))
    weights = graph.op("Softmax", graph.op("Add", scores, "mask"), axis=-1)
    mixed = graph.op("Transpose", graph.op("MatMul", weights, said), perm=(0, 2, 1, 3))
    return graph.op("Reshape", mixed, graph.whole_numbers(-1, shape.width))


def _linear(graph: Graph, name: str, flat: str) -> str:
    return graph.op("Gemm", flat, f"{name}.weight", f"{name}.bias", transB=1)


def _levelled(graph: Graph, name: str, flat: str) -> str:
    return graph.op("LayerNormalization", flat, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=_EPSILON)


def _needed(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the names of all tensors of the model, with their shapes."""
    width, inner = shape.width, shape.inner
    needed: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (shape.words, width),
        "embeddings.position_embeddings.weight": (shape.positions, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    squares = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    level = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(shape.layers)):
        sizes = {f"{layer}.{name}": (width, width) for name in squares}
        sizes |= {f"{layer}.intermediate.dense": (inner, width), f"{layer}.output.dense": (width, inner)}
        needed |= {f"{name}.weight": size for name, size in sizes.items()}
        needed |= {f"{name}.bias": size[:1] for name, size in sizes.items()}
        level += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return needed | {f"{name}.{part}": (width,) for name in level for part in ("weight", "bias")}


def _checked(name: str, tensor: Tensor | None, sizes: tuple[int, ...]) -> Tensor:
    if tensor is None or tensor.dtype != "F32" or tensor.shape != sizes:
        raise ValueError(f"{name} is missing or has an unexpected form")
    return tensor
