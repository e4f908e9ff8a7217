"""The public tokenizers, loaded on first use, and a cache of counts by text hash.

A text that cannot be counted is estimated at about four characters per token.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import re
import threading
from collections.abc import Callable, Iterator

CHARACTERS_A_TOKEN = 4
ENCODINGS = frozenset({"o200k_base", "cl100k_base"})

_log = logging.getLogger(__name__)

_GENERATION = 50_000
"""The number of counts in each of the two cache generations: when the younger is full, the older is dropped."""

_SLICE = 25_000
"""Longer texts are counted in slices of at least this many characters, so that other threads can run."""
_SEAM = re.compile(r"(?<=\S)(?=[ \t])|(?<=[\r\n])(?=[^\s/])|(?<=[0-9])(?=[A-Za-z])")
"""Positions where every encoding splits a text, whatever the context.

Before a space, at the start of a line (a slash may belong to the previous line ending), between a digit and a letter. A
text without such a position is counted whole.
"""


def estimate(text: str) -> int:
    """Estimate the tokens of a text by its length; at least 1 for a string that is not empty."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


class Encoding:
    """One tokenizer with a cache of counts. It is thread-safe."""

    def __init__(self, name: str, load: Callable[[str], Callable[[str], int]] | None = None) -> None:
        self.name = name
        self.broken = False
        """It could not be loaded: all counts are estimates by length."""
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._count: Callable[[str], int] | None = None
        self._tokenizer = load or load_tokenizer
        self._loading = threading.Lock()

    def count(self, text: str) -> int:
        """Count the tokens of a text. Special tokens are counted as plain text."""
        # The key includes the length, so that a collision needs both to match.
        key = (len(text) << 64) + hash(text)
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                found = self._count_uncached(text)
            self._keep(key, found)
        return found

    def _keep(self, key: int, tokens: int) -> None:
        if len(self._young) >= _GENERATION:
            self._old, self._young = self._young, {}
        self._young[key] = tokens

    def _count_uncached(self, text: str) -> int:
        count = self._count or self._load()
        try:
            return sum(count(part) for part in _slices(_without_lone_surrogates(text)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic inside the tokenizer is not an Exception
            _log.warning("A text of %d characters could not be counted with %s; estimated", len(text), self.name)
            return estimate(text)

    def _load(self) -> Callable[[str], int]:
        with self._loading:
            if self._count is None:
                try:
                    self._count = self._tokenizer(self.name)
                except Exception as problem:
                    self.broken = True
                    self._count = estimate
                    hint = " Install bpe-openai to count them." if self._tokenizer is load_tokenizer else ""
                    words = "The tokenizer %s cannot be loaded (%s); tokens are estimated by length.%s"
                    _log.warning(words, self.name, problem, hint)
            return self._count


def load_tokenizer(name: str) -> Callable[[str], int]:
    """Load the compiled tokenizer without its Python package, which would unpack all vocabularies on import."""
    package = importlib.util.find_spec("bpe_openai")
    places = package.submodule_search_locations if package else None
    spec = importlib.machinery.PathFinder.find_spec("bpe_openai._bindings", places)
    if spec is None or spec.loader is None:
        raise ImportError("bpe-openai is not installed")
    bindings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bindings)
    count: Callable[[str], int] = bindings.tokenizer_for_encoding(name).count
    return count


def _without_lone_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone ones, which cannot be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _slices(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > 2 * _SLICE and (seam := _SEAM.search(text, start + _SLICE)):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


_encodings = {name: Encoding(name) for name in ENCODINGS}


def encoding(name: str) -> Encoding:
    """Return the shared encoding of this name."""
    return _encodings[name]
