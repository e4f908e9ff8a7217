"""Words and how much they are alike: what lets a question about a car find what was said of a vehicle.

Each word has a place in the space of the built-in embedder, whatever embedder places whole texts. A word of the
question is met in a text as well as the most similar word there meets it: 1 for the same word in any form, nothing for
one that is no more alike than any two words are.

Words and texts that were met are remembered, within bounds: most of a search's work is to read the same texts again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from contextinfinity.text.keywords import terms_of, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]
    Ids: TypeAlias = NDArray[np.int32]

WordPlace: TypeAlias = "Callable[[Sequence[str]], Matrix]"

UNLIKE = 0.3
"""The cosine up to which two words have nothing in common."""
DIMENSIONS = 128
"""Numbers of a word's place that count: the first ones say most, and half of them say nearly all."""
MOST_WORDS = 1 << 16
"""More than a ledger of 100,000 messages says: to meet them anew takes longer than all the rest of a search. 40 MB."""
MOST_TEXTS = 1 << 13
LONGEST = 6_000
"""Characters of a text that are read: more than any chunk has."""
_PART = 256
"""Words that are compared with the question at a time."""


class Word(NamedTuple):
    """A word as it was written, and as the index knows it."""

    written: str
    term: str


def words_of(text: str) -> list[Word]:
    """Give the words of a text that mean something, in their order."""
    return [each for word in words(text[:LONGEST]) for each in _known_as(word)]


def _known_as(word: str) -> list[Word]:
    found = terms_of(word)
    return [Word(word.lower(), found[0])] if len(found) == 1 else [Word(term, term) for term in found]


class Reading(NamedTuple):
    """All words of some texts, one after the other: how many each text has, and the row of each in a table that tells
    how well it meets each word of the question."""

    lengths: Ids
    rows: Ids
    likeness: Matrix


class _Heard(dict[str, tuple[int, ...]]):
    """Words as they stand in texts, and the numbers of what each is known as: a lookup a word, once it was met."""

    def __init__(self, number: Callable[[Word], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = self[word] = tuple(map(self._number, _known_as(word)))
        return found


class Lexicon:
    """The words that were met so far."""

    def __init__(self, place: WordPlace) -> None:
        self._place = place
        self._lock = Lock()
        self._forget()

    def read(self, asked: Sequence[Word], texts: Sequence[str]) -> Reading:
        """Read texts for the words of a question."""
        with self._lock:
            ids = self._read(texts)
            if max(len(self._ids), len(self._heard) // 2) > MOST_WORDS:
                self._forget()
                ids = self._read(texts)
            self._learn()
            return self._reading(asked, ids)

    def _forget(self) -> None:
        import numpy as np

        self._heard = _Heard(self._id)
        self._ids: dict[str, int] = {}
        self._forms: dict[str, list[int]] = {}
        self._texts: OrderedDict[str, Ids] = OrderedDict()
        self._new: list[str] = []
        self._rows = np.zeros((0, DIMENSIONS), dtype=np.float32)

    def _read(self, texts: Sequence[str]) -> list[Ids]:
        found = [self._text(text) for text in texts]
        while len(self._texts) > MOST_TEXTS:
            self._texts.popitem(last=False)
        return found

    def _text(self, text: str) -> Ids:
        import numpy as np

        known = self._texts.get(text)
        if known is None:
            found = chain.from_iterable(map(self._heard.__getitem__, words(text[:LONGEST])))
            known = self._texts[text] = np.fromiter(found, dtype=np.int32)
        else:
            self._texts.move_to_end(text)
        return known

    def _id(self, word: Word) -> int:
        known = self._ids.get(word.written)
        if known is None:
            known = self._ids[word.written] = len(self._ids)
            self._forms.setdefault(word.term, []).append(known)
            self._new.append(word.written)
        return known

    def _learn(self) -> None:
        """Place the words that are new."""
        import numpy as np

        size, end = len(self._ids) - len(self._new), len(self._ids)
        if end > len(self._rows):
            larger = np.zeros((end + end // 2, DIMENSIONS), dtype=np.float32)
            larger[:size] = self._rows[:size]
            self._rows = larger
        if self._new:
            self._rows[size:end] = self._placed(self._new)
            self._new = []

    def _placed(self, written: Sequence[str]) -> Matrix:
        import numpy as np

        rows = self._place(written)[:, :DIMENSIONS]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        placed: Matrix = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
        return placed

    def _reading(self, asked: Sequence[Word], ids: Sequence[Ids]) -> Reading:
        import numpy as np

        lengths = np.array([len(each) for each in ids], dtype=np.int32)
        everything = np.concatenate([*ids, np.zeros(0, dtype=np.int32)])
        stands = np.zeros(len(self._ids), dtype=np.bool_)
        stands[everything] = True
        places = np.cumsum(stands, dtype=np.int32) - 1
        return Reading(lengths, places[everything], self._likeness(asked, stands, places))

    def _likeness(self, asked: Sequence[Word], stands: NDArray[np.bool_], places: Ids) -> Matrix:
        """Compare the words that stand in the texts with those of the question; ``places`` are their rows."""
        import numpy as np

        words = self._rows[: len(stands)][stands]
        columns = self._placed([word.written for word in asked]).T
        # In parts: a large product would start threads of the library, which cost more than they save.
        parts = [words[start : start + _PART] @ columns for start in range(0, len(words), _PART)]
        cosines = np.concatenate(parts) if parts else np.zeros((0, len(asked)), dtype=np.float32)
        alike: Matrix = np.clip((cosines - UNLIKE) / (1 - UNLIKE), 0, 1)
        for column, word in enumerate(asked):
            forms = np.array(self._forms.get(word.term, ()), dtype=np.int32)
            alike[places[forms[stands[forms]]], column] = 1
        return alike


@cache
def built_in_lexicon() -> Lexicon:
    """Give the one of this process, with the words' places of the built-in embedder."""
    from contextinfinity.embedders.static import built_in

    return Lexicon(built_in().encode)
