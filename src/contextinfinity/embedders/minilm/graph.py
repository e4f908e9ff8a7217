"""BERT as an ONNX graph over the tensors of a safetensors file.

The graph is built at every start, in milliseconds, from standard ONNX operations. It contains no weights but refers to
their positions in the file, which onnxruntime maps into memory.

ONNX is a protocol buffer: a message is a sequence of fields, each with a number, a type and a value. Writing the few
messages of a graph is simpler than adding a dependency.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from contextinfinity.embedders.static import Tensor, tensors

FLOAT: Final = 1
INT64: Final = 7
"""ONNX's element types."""

Value: TypeAlias = bytes | str | int | float
Attribute: TypeAlias = int | float | Sequence[int]

_EXTERNAL = 1
_OPSET = 20
_IR = 9


class Graph:
    """A graph that is built one operation at a time; values have names."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._named = 0

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Attribute) -> str:
        """Add an operation; return the name of its output."""
        output = output or self._name()
        ends = [field(1, name) for name in inputs] + [field(2, output)]
        said = [field(5, _attribute(name, value)) for name, value in attributes.items()]
        self._nodes.append(b"".join([*ends, field(4, kind), *said]))
        return output

    def whole_numbers(self, *values: int) -> str:
        """Add a constant list of integers; return its name."""
        name, data = self._name(), struct.pack(f"<{len(values)}q", *values)
        self._constants.append(_tensor(name, INT64, (len(values),)) + field(9, data))
        return name

    def number(self, value: float) -> str:
        """Add a constant number; return its name."""
        name = self._name()
        self._constants.append(_tensor(name, FLOAT, ()) + field(9, struct.pack("<f", value)))
        return name

    def numbers_in_file(self, name: str, shape: Sequence[int], file: str, start: int, length: int) -> None:
        """Add a constant whose data stays in a file, at a byte offset."""
        places = {"location": file, "offset": str(start), "length": str(length)}
        location = [field(13, field(1, key) + field(2, value)) for key, value in places.items()]
        self._constants.append(b"".join([_tensor(name, FLOAT, shape), *location, field(14, _EXTERNAL)]))

    def written(self, inputs: Sequence[bytes], outputs: Sequence[bytes]) -> bytes:
        """Return the whole file; inputs and outputs are made with ``value``."""
        parts = (
            *(field(1, node) for node in self._nodes),
            field(2, "graph"),
            *(field(5, constant) for constant in self._constants),
            *(field(11, one) for one in inputs),
            *(field(12, one) for one in outputs),
        )
        return field(1, _IR) + field(7, b"".join(parts)) + field(8, field(1, "") + field(2, _OPSET))

    def _name(self) -> str:
        self._named += 1
        return f"value-{self._named}"


def value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """Describe an input or output; a dynamic dimension is a name."""
    sizes = [field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in shape]
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, b"".join(sizes))))


def field(number: int, value: Value) -> bytes:
    """Encode one field of a message."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    return field(1, name) + b"".join(field(8, one) for one in value) + field(20, 7)


def _tensor(name: str, kind: int, shape: Sequence[int]) -> bytes:
    return b"".join(field(1, size) for size in shape) + field(2, kind) + field(8, name)


def _varint(number: int) -> bytes:
    """Encode an integer as a varint; a negative one as 64 bits."""
    number &= (1 << 64) - 1
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


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
