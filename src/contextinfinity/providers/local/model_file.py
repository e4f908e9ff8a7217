"""A gguf file whose metadata is read on first use and cached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from re import Pattern
from typing import Any

from contextinfinity.providers.local import gguf, gguf_tokenizer
from contextinfinity.text.tokens import Counter, own_counter

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
        return gguf.window(self.facts()) if self._is_there() else None

    @property
    def counter(self) -> Counter | None:
        """A counter with the model's own tokenizer; None if that cannot be rebuilt or the file is missing."""
        if self._counter is None and self._is_there() and gguf_tokenizer.is_known(self.facts()):
            self._counter = own_counter(self.path.name, self._count)
        return self._counter

    def steering(self) -> Pattern[str] | None:
        """Return the pattern of control tokens; reading the vocabulary may be slow."""
        return self._read()[1]

    def facts(self) -> dict[str, Any]:
        """Return the metadata before the vocabulary; raise ``ProviderError`` if the file is unreadable."""
        if self._facts is None:
            self._facts = gguf.facts(self.path)
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
                values = gguf.all_values(self.path)
                try:
                    count = gguf_tokenizer.counting(values) if gguf_tokenizer.is_known(values) else None
                    self._vocabulary = count, gguf_tokenizer.controls(values)
                except Exception as error:  # a foreign file may have an invalid vocabulary
                    raise gguf.unreadable(self.path, error) from error
            return self._vocabulary
