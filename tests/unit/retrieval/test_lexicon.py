"""Words and how much they are alike."""

from __future__ import annotations

import numpy as np

from contextinfinity.embedders.static import built_in
from contextinfinity.retrieval import lexicon
from contextinfinity.retrieval.lexicon import Lexicon, Word, words_of


def met(asked: str, text: str, words: Lexicon | None = None) -> float:
    """Tell how well one word is met in a text."""
    reading = (words or Lexicon(built_in().encode)).read(words_of(asked), [text])
    return float(reading.likeness[reading.rows].max(initial=0))


def test_any_form_of_a_word_is_the_word() -> None:
    assert met("walking", "She walked home") == 1
    assert met("café", "the CAFE opens") == 1


def test_similar_words_count_in_part_and_others_not() -> None:
    assert 0.3 < met("doctor", "my physician") < 1
    assert met("doctor", "the gearbox") < 0.1
    assert met("doctor", "and of the") == 0


def test_parts_of_a_name_in_code_are_words() -> None:
    assert words_of("getUserName") == [Word(term, term) for term in ("get", "user", "nam", "getusernam")]
    assert met("username", "getUserName") > met("username", "the gearbox")


def test_texts_read_before_are_read_the_same_again() -> None:
    words = Lexicon(built_in().encode)
    first = words.read(words_of("doctor"), ["my physician", "", "the gearbox"])
    again = words.read(words_of("doctor"), ["my physician", "", "the gearbox"])
    assert first.lengths.tolist() == [1, 0, 1]
    assert all((one == other).all() for one, other in zip(first, again, strict=True))


def test_what_was_met_is_forgotten_when_it_is_too_much() -> None:
    words = Lexicon(lambda written: np.ones((len(written), lexicon.DIMENSIONS), dtype=np.float32))
    for part in range(3):
        numbers = range(part * 10_000, (part + 1) * 10_000)
        texts = [" ".join(f"n{number}" for number in numbers[at : at + 100]) for at in range(0, 10_000, 100)]
        reading = words.read([Word("n5", "n5")], texts)
        assert len(reading.likeness) == 10_000
        assert reading.likeness[reading.rows].shape == (10_000, 1)
        assert reading.lengths.tolist() == [100] * 100
