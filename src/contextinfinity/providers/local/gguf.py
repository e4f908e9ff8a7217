"""Read the metadata and the tokenizer of a gguf file without loading the model.

The file starts with a list of names and values; the tensors follow. The facts that we need come first and the long
vocabulary lists last, so reading the facts is fast.

Byte-level BPE tokenizers are rebuilt from the file, so texts are counted exactly without loading the model. For other
types the count is an estimate that is corrected by what the model reports.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import Pattern
from typing import Any, BinaryIO

from contextinfinity.errors import ProviderError
from contextinfinity.text.tokens import Counter, own_counter

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


BY_MERGES = "gpt2"
"""The name of byte-level BPE tokenizers in gguf files."""
CONTROL = 3
"""The type of control tokens, which open and close messages."""

_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {
    "llama-bpe": rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_WORDS}|\p{{N}}|{_REST}",
}
"""Pre-tokenizer patterns, by the name that gguf files use."""
_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})
"""Pre-tokenizers for which a word that is a token is used before any merges."""


def is_known(values: dict[str, Any]) -> bool:
    """Return whether this model's tokenizer can be rebuilt."""
    rule = str(values.get("tokenizer.ggml.pre"))
    known = rule == "gpt-2" or rule in _SINGLE_DIGITS or rule in _PATTERNS
    return values.get("tokenizer.ggml.model") == BY_MERGES and known


def counting(values: dict[str, Any]) -> Callable[[str], int]:
    """Rebuild a model's tokenizer and return a function that counts the tokens of a text."""
    from tokenizers import Tokenizer, models

    rule = values["tokenizer.ggml.pre"]
    vocabulary = {token: place for place, token in enumerate(values["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=rule in _WHOLE_WORDS_FIRST))
    tokenizer.pre_tokenizer = _cutting(rule)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count


def _cutting(rule: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if rule in _PATTERNS:
        cut = pre_tokenizers.Split(Regex(_PATTERNS[rule]), "isolated")
        return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule in _SINGLE_DIGITS:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    return words


def controls(values: dict[str, Any]) -> re.Pattern[str] | None:
    """Return a pattern that matches control tokens in a text, or None if the model has none."""
    kinds = values.get("tokenizer.ggml.token_type", [])
    tokens = zip(values.get("tokenizer.ggml.tokens", []), kinds, strict=False)
    found = sorted({token for token, kind in tokens if kind == CONTROL and len(token) > 1}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None


def plain(text: str, steering: re.Pattern[str] | None) -> str:
    """Break control tokens in a text: llama.cpp would interpret them, and a message could end itself."""
    return text if steering is None else steering.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


LOOK_SECONDS = 1.0


class ModelFile:
    """One gguf file, which may not exist yet. It is thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._facts: dict[str, Any] | None = None
        self._was_there = False
        self._look_at = 0.0
        self._counter: Counter | None = None
        self._vocabulary: tuple[Callable[[str], int] | None, Pattern[str] | None] | None = None

    @property
    def window(self) -> int | None:
        """The context window that the model was trained for, or None if unknown."""
        return window(self.facts()) if self._is_there() else None

    @property
    def counter(self) -> Counter | None:
        """A counter with the model's own tokenizer; None if that cannot be rebuilt or the file is missing."""
        if self._counter is None and self._is_there() and is_known(self.facts()):
            self._counter = own_counter(self.path.name, self._count)
        return self._counter

    def steering(self) -> Pattern[str] | None:
        """Return the pattern of control tokens; reading the vocabulary may be slow."""
        return self._read()[1]

    def facts(self) -> dict[str, Any]:
        """Return the metadata before the vocabulary; raise ``ProviderError`` if the file is unreadable."""
        if self._facts is None:
            self._facts = facts(self.path)
        return self._facts

    def _is_there(self) -> bool:
        """Return whether the file exists; the file system is checked at most once per second."""
        if self._facts is not None:
            return True
        if time.monotonic() >= self._look_at:
            self._was_there, self._look_at = self.path.is_file(), time.monotonic() + LOOK_SECONDS
        return self._was_there

    def _count(self) -> Callable[[str], int]:
        count = self._read()[0]
        if count is None:
            raise ValueError(f"{self.path.name} has an unknown tokenizer")
        return count

    def _read(self) -> tuple[Callable[[str], int] | None, Pattern[str] | None]:
        with self._reading:
            if self._vocabulary is None:
                values = all_values(self.path)
                try:
                    count = counting(values) if is_known(values) else None
                    self._vocabulary = count, controls(values)
                except Exception as error:  # a foreign file may have an invalid vocabulary
                    raise unreadable(self.path, error) from error
            return self._vocabulary
