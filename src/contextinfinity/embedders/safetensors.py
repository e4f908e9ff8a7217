"""Read the header of a safetensors file: its length, then JSON, then the data."""

from __future__ import annotations

from math import prod
from pathlib import Path

import msgspec
from msgspec import Struct

_LONGEST_HEADER = 1_000_000
_BYTES = {"F16": 2, "F32": 4, "I64": 8}


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor in a file: ``length`` bytes from ``start``."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


class _TensorInfo(Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file; raise ``ValueError`` if it is invalid or truncated."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, _LONGEST_HEADER))
    try:
        info = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        info.pop("__metadata__", None)
        found = {name: _tensor(msgspec.json.decode(raw, type=_TensorInfo), 8 + length) for name, raw in info.items()}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} has no header: {error}") from error
    if path.stat().st_size < max((tensor.start + tensor.length for tensor in found.values()), default=0):
        raise ValueError(f"{path} is cut off")
    return found


def _tensor(info: _TensorInfo, numbers: int) -> Tensor:
    begin, end = info.data_offsets
    if begin < 0 or end - begin != prod(info.shape) * _BYTES.get(info.dtype, 0):
        raise ValueError(f"{info.shape} numbers of {info.dtype} do not take {end - begin} bytes")
    return Tensor(dtype=info.dtype, shape=info.shape, start=numbers + begin, length=end - begin)
