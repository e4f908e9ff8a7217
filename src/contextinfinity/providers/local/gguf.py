"""Read the metadata of a gguf file without loading the model.

The file starts with a list of names and values; the tensors follow. The facts that we need come first and the long
vocabulary lists last, so reading the facts is fast.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from contextinfinity.errors import ProviderError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
VOCABULARY = "tokenizer."
LONGEST_TEXT = 16 * 1024 * 1024
MOST_VALUES = 10_000_000

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


def facts(path: Path) -> dict[str, Any]:
    """Return the metadata before the vocabulary: window, architecture, tokenizer type. Raises ``ProviderError``."""
    return _read(path, whole=False)


def all_values(path: Path) -> dict[str, Any]:
    """Return all metadata including the vocabulary; raise ``ProviderError`` if the file is unreadable."""
    return _read(path, whole=True)


def window(values: dict[str, Any]) -> int | None:
    """Return the context window that the model was trained for, or None."""
    found = values.get(f"{values.get('general.architecture')}.context_length")
    return found if isinstance(found, int) and found > 0 else None


def _read(path: Path, *, whole: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return dict(_values(file, whole=whole))
    except FileNotFoundError:
        raise ProviderError(
            f"There is no model file {path}.", kind="not_found", hint="Check path under [models] in config.toml."
        ) from None
    except (OSError, ValueError, KeyError, struct.error, MemoryError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> ProviderError:
    """Return the error for a file that is not a usable model."""
    return ProviderError(
        f"The model file {path} cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}.",
        kind="not_found",
        hint="It must be a complete gguf file; `cix model get` downloads the built-in one again.",
    )


def _values(file: BinaryIO, *, whole: bool) -> Iterator[tuple[str, Any]]:
    if file.read(4) != MAGIC:
        raise ValueError("it does not have the header of a gguf file")
    version, _, count = _numbers(file, "IQQ")
    if version not in VERSIONS:
        raise ValueError(f"it is of version {version}")
    for _ in range(count):
        name = _text(file)
        (kind,) = _numbers(file, "I")
        if kind == _LIST and name.startswith(VOCABULARY) and not whole:
            return
        yield name, _value(file, kind)


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind == _LIST:
        inner, count = _numbers(file, "IQ")
        if count > MOST_VALUES:
            raise ValueError(f"a list of {count} values")
        if inner == _TEXT:
            return [_text(file) for _ in range(count)]
        if inner == _LIST:
            raise ValueError("a list of lists")
        return list(_numbers(file, f"{count}{_NUMBERS[inner]}"))
    (number,) = _numbers(file, _NUMBERS[kind])
    return number


def _numbers(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _text(file: BinaryIO) -> str:
    (length,) = _LENGTH.unpack(file.read(8))
    if length > LONGEST_TEXT:
        raise ValueError(f"a text of {length} bytes")
    return file.read(length).decode("utf-8", "replace")


_LENGTH = struct.Struct("<Q")
