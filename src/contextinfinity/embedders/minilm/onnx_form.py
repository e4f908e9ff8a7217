"""A minimal writer for ONNX files.

ONNX is a protocol buffer: a message is a sequence of fields, each with a number, a type and a value. Writing the few
messages of a graph is simpler than adding a dependency.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

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
