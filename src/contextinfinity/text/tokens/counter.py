"""Count the tokens of a value for a model, without a provider call.

Counting never fails: what cannot be counted is estimated at about four characters per token. The usage that a provider
reports calibrates later estimates.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from contextinfinity.domain.prompt import Prompt
from contextinfinity.text.tokens.encodings import ENCODINGS, Encoding, encoding
from contextinfinity.text.tokens.families import family_of
from contextinfinity.text.tokens.images import Picture, picture_tokens, rule_of
from contextinfinity.text.tokens.pieces import Piece, pieces, prompt_pieces, rough
from contextinfinity.vendors.record import Family, PictureRule

_LEAST_COUNTED = 200
"""A shorter prompt is mostly framing and says little about its text."""
_BELIEVED = 4
"""A report that differs by more than this factor is ignored."""
_BOUNDS = (0.5, 2.0)
_LEAST_WEIGHT = 0.1
_DRIFT = 0.1
"""An exact encoding that is consistently this far off is not the model's."""
_AGREEING = 5
_ALIKE = 0.02
"""Consistently: in ``_AGREEING`` successive reports that differ from each other by no more than this.

Content that a provider adds to some requests, such as search results, makes them differ.
"""

Weight: TypeAlias = tuple[int, int]
"""Tokens that are not scaled, and tokens of the encoding."""


class Counter:
    """The token counter of one model."""

    def __init__(self, family: Family, rule: PictureRule, own: Encoding | None = None) -> None:
        self._family = family
        self._rule = rule
        self._encoding = own or encoding(family.encoding)
        self._learned = 1.0
        self._reports = 0
        self._latest: deque[float] = deque(maxlen=_AGREEING)
        self._lock = threading.Lock()

    @property
    def exact(self) -> bool:
        """Whether texts are counted exactly. Framing, schemas and images are always estimates."""
        return self._family.exact and not self._encoding.broken and self._learned == 1.0

    @property
    def error(self) -> float:
        """The maximum relative error of a text's count."""
        if self._encoding.broken:
            return max(0.3, self._family.error)
        return self._family.error if self.exact or not self._family.exact else _DRIFT

    @property
    def scale(self) -> float:
        """The factor for the tokens of the encoding."""
        return self._family.factor * self._learned

    def count(self, value: Any) -> int:
        """Count the tokens of a text, message, block, tool, a dictionary of one of these, or a list of them."""
        return self._sum(value, pieces(value))

    def weigh(self, value: Any) -> Weight:
        """Return the unscaled parts of a count: fixed tokens, and tokens before scaling."""
        try:
            return self._weigh(pieces(value))
        except Exception:
            return rough(value), 0

    def total(self, weights: Iterable[Weight]) -> int:
        """Return the current count of values with these weights, as ``count`` would return."""
        scale = self.scale
        return sum([fixed + math.ceil(words * scale) for fixed, words in weights])

    def prompt(self, prompt: Prompt) -> int:
        """Count a whole request: system texts, messages, tools, response format."""
        return self._sum(prompt, prompt_pieces(prompt, self._family.tool_tokens))

    def learn(self, counted: int, reported: int) -> None:
        """Calibrate: this counter estimated ``counted`` tokens of a prompt, the provider ``reported`` its input."""
        if counted < _LEAST_COUNTED or not counted <= _BELIEVED * reported <= _BELIEVED**2 * counted:
            return
        with self._lock:
            seen = min(max(self._learned * reported / counted, _BOUNDS[0]), _BOUNDS[1])
            if self._family.exact:
                self._correct_exact(seen)
            else:
                self._learned += (seen - self._learned) * max(_LEAST_WEIGHT, 1 / (self._reports + 2))
            self._reports += 1

    def _correct_exact(self, seen: float) -> None:
        """Correct an exact encoding only if successive reports agree on a different value."""
        self._latest.append(seen)
        if len(self._latest) == _AGREEING and max(self._latest) <= min(self._latest) * (1 + _ALIKE):
            mean = sum(self._latest) / _AGREEING
            self._learned = mean if abs(mean - 1.0) > _DRIFT else 1.0

    def recall(self, scale: float, counted: int, reported: int) -> None:
        """Calibrate from a count that an earlier process made at that scale, unless there are newer reports."""
        if self._reports == 0:
            self.learn(round(counted / scale * self.scale), reported)

    @property
    def is_calibrated(self) -> bool:
        """Whether it has been calibrated yet."""
        return self._reports > 0

    def _sum(self, value: Any, parts: Iterable[Piece]) -> int:
        try:
            fixed, words = self._weigh(parts)
            return fixed + math.ceil(words * self.scale)
        except Exception:
            return rough(value)

    def _weigh(self, parts: Iterable[Piece]) -> Weight:
        words = fixed = 0
        for part in parts:
            if isinstance(part, str):
                words += self._encoding.count(part)
            elif isinstance(part, Picture):
                fixed += picture_tokens(self._rule, part)
            else:
                fixed += part
        return fixed, words


def counter_of(provider: str, model_id: str, encoding: str | None = None) -> Counter:
    """Return the shared counter of a model. ``encoding`` names its tokenizer if that is known."""
    with _sharing:
        return _counter(provider, model_id, encoding)


def own_counter(name: str, load: Callable[[], Callable[[str], int]]) -> Counter:
    """Return a counter for a model with its own tokenizer; ``load`` is called when the first text is counted."""
    family = Family("", encoding=name, exact=True, error=0)
    return Counter(family, rule_of("", name), Encoding(name, lambda _: load()))


def forget() -> None:
    """Discard all calibration: new counters start from the defaults."""
    with _sharing:
        _counter.cache_clear()


_sharing = threading.Lock()


@lru_cache(maxsize=1024)
def _counter(provider: str, model_id: str, name: str | None) -> Counter:
    family = family_of(provider, model_id)
    if name in ENCODINGS:
        family = Family("", encoding=name, exact=True, error=0, tool_tokens=family.tool_tokens)
    return Counter(family, rule_of(provider, model_id))
