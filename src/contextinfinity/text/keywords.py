"""Normalise words for the index and for queries in the same way.

    café, CAFÉ                      cafe                without case and accents
    walks, walked, walking          walk                without English inflections
    getUserName, get_user_name      get user name, and getusername as one
    東京都                          東京, 京都           pairs, in scripts without spaces

Stop words are omitted. A change here makes stored keywords unfindable: increase ``VERSION``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

VERSION = 1
"""Stored with the index; entries of another version are indexed again."""

LONGEST = 40
"""The maximum length of a word: longer ones are data, and their start identifies them."""

_WORD = re.compile(r"[^\W_]+(?:[_'’][^\W_]+)*")
_BLANKS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_'")}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_'’]")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters: scripts without spaces."""

_WITHOUT_MEANING = """
    a an and are as at be been but by did do does for from had has have he her him his how i if in is it its me my of
    on or our she so than that the their them then there these they this those to us was we were what when where which
    who whom whose why will with would you your s t d ll m re ve don doesn didn isn wasn
    """
_EMPTY = frozenset(_WITHOUT_MEANING.split())


def terms(text: str) -> list[str]:
    """Return the normalised terms of a text in order, with repetitions."""
    found: list[str] = []
    for each in map(terms_of, words(text)):
        found += each
    return found


def words(text: str) -> list[str]:
    """Return the words of a text unchanged; ASCII text is split without the regular expression, which is faster."""
    if not text.isascii():
        return _WORD.findall(text)
    pieces = text.translate(_BLANKS).split()
    if "_" not in text and "'" not in text:
        return pieces
    found: list[str] = []
    for piece in pieces:
        found += (piece,) if piece.isalnum() else _WORD.findall(piece)
    return found


def among(text: str, asked: Iterable[str]) -> set[str]:
    """Return which of the given terms a text contains; faster than ``terms`` for a long text."""
    if not text.isascii() or "_" in text:
        return set(asked) & set(terms(text))
    return {term for _, term in occurrences(text, asked)}


def occurrences(text: str, asked: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield where an ASCII text without underscores contains which of the given terms.

    Every form of a term begins with the term, except that "y" may be written "i" ("studies"), so only the words with
    that substring are normalised.
    """
    folded = text.lower()
    for term in asked:
        front, endings = (term[:-1], ("y", "i")) if len(term) > 2 and term.endswith("y") else (term, ("",))
        place = 0
        while (place := folded.find(front, place)) >= 0:
            end = place + len(front)
            if folded.startswith(endings, end):
                start, end = _extend_to_word(folded, place, end)
                piece = text[start:end]
                if term in (terms(piece) if "'" in piece else terms_of(piece)):
                    yield place, term
            place = end


def _extend_to_word(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to the surrounding characters that may belong to a word."""
    while start and (text[start - 1].isalnum() or text[start - 1] == "'"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "'"):
        end += 1
    return start, end


@lru_cache(maxsize=1 << 16)
def terms_of(word: str) -> tuple[str, ...]:
    """Return the terms of one word: none, its normal form, or those of its parts and of the whole."""
    if word.isascii() and word.isalnum() and word.islower():  # most words: already normalised
        return () if word in _EMPTY else (stem(word[:LONGEST]),)
    pieces = [piece for piece in _HUMP.split(word) if piece]
    found = [term for piece in pieces for term in _normalised(piece)]
    if len(pieces) > 1 and "'" not in word and "’" not in word:
        found += _normalised("".join(pieces))
    return tuple(found)


def _normalised(piece: str) -> list[str]:
    """Normalise a word; return nothing for a stop word."""
    if piece.isascii():
        word = piece.lower()
    else:
        folded = unicodedata.normalize("NFKD", piece).casefold()
        word = "".join(sign for sign in folded if not unicodedata.combining(sign))
    if _UNSPACED.search(word):
        return bigrams(word)
    return [] if word in _EMPTY or not word else [stem(word[:LONGEST])]


def bigrams(word: str) -> list[str]:
    """Split text without spaces into overlapping pairs; other parts are kept whole."""
    found: list[str] = []
    place = 0
    for run in _UNSPACED.finditer(word):
        found += filter(None, (word[place : run.start()],))
        signs = run.group()
        found += [signs[at : at + 2] for at in range(max(1, len(signs) - 1))]
        place = run.end()
    return [*found, *filter(None, (word[place:],))]


def stem(word: str) -> str:
    """Remove the most common English endings; numbers and short words are returned unchanged."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and _has_vowel(word[: -len(ending)]):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _has_vowel(word: str) -> bool:
    return any(letter in "aeiouy" for letter in word)
