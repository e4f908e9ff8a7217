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
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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


class _Ascii(dict[int, str]):
    """Maps characters that are no part of a word to ASCII; others stay as they are."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = found = sign if code < 128 or _PART.match(sign) else "'" if sign == "’" else " "
        return found


_UNDERSCORE = re.compile(r"_[\w']*")
_PART = re.compile(r"\w")
_ASCII = _Ascii()


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
    return {term for _, term in containing((text,), asked)}


def containing(texts: Iterable[str], asked: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each text with each of the given terms that it contains, each pair once or more.

    Texts of ASCII letters are searched as one text. Every form of a term begins with the term, except that "y" may be
    written "i" ("studies") and that parts may be joined ("user_name" is also "username"), so only words with that
    substring and joined words are normalised.
    """
    asked = tuple(dict.fromkeys(asked))
    plain, numbers, starts, size = list[str](), list[int](), list[int](), 0
    for number, text in enumerate(texts):
        ascii_text = text if text.isascii() else text.translate(_ASCII)
        if not ascii_text.isascii():
            yield from ((number, term) for term in set(asked).intersection(_terms_of_text(text)))
            continue
        plain.append(ascii_text)
        numbers.append(number)
        starts.append(size)
        size += len(ascii_text) + 1
    joined = "\n".join(plain)
    starts.append(size)
    fronts = tuple(_front(term) for term in asked)
    for match in _UNDERSCORE.finditer(joined):
        start, _ = _extend_to_word(joined, match.start(), match.start())
        word = joined[start : match.end()]
        if any(piece.replace("_", "").lower().startswith(fronts) for piece in words(word)):
            at = numbers[bisect_right(starts, start) - 1]
            yield from ((at, term) for term in terms(word) if term in asked)
    folded = joined.lower()
    for term in asked:
        for place in _places(joined, folded, term, starts):
            yield numbers[place], term


def _places(text: str, folded: str, term: str, starts: Sequence[int]) -> Iterator[int]:
    """Yield which of the texts that begin at ``starts`` contain a term; ``folded`` is ``text`` in lower case."""
    front = _front(term)
    endings = ("y", "i") if front != term else ("",)
    place = 0
    while (place := folded.find(front, place)) >= 0:
        end = place + len(front)
        if folded.startswith(endings, end):
            start, end = _extend_to_word(folded, place, end)
            piece = text[start:end]
            if term in (terms_of(piece) if piece.isalnum() else terms(piece)):
                number = bisect_right(starts, place)
                yield number - 1
                end = starts[number]
        place = end


def _front(term: str) -> str:
    """Return what all forms of a term begin with."""
    return term[:-1] if len(term) > 2 and term.endswith("y") else term


@lru_cache(maxsize=1 << 12)
def _terms_of_text(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _extend_to_word(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to the surrounding characters that may belong to a word."""
    while start and (text[start - 1].isalnum() or text[start - 1] in "'_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] in "'_"):
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
