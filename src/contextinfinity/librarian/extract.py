"""Extract the sentences of new turns that are worth keeping, with their kind and score.

Only the own words of people and models can be decisions, constraints or preferences. Of tool results, system texts and
pasted blocks only files and identifiers are used. Sentences that instruct the model are dropped, and nothing in a
message that contains one is binding. A short answer is kept with its question; an accepted proposal becomes a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from contextinfinity.librarian.contract import Pause, TranscriptMessage
from contextinfinity.librarian.digest import Kind, SummaryEntry, entry
from contextinfinity.librarian.entry_kinds import kind_of
from contextinfinity.librarian.scoring import score, words_of
from contextinfinity.librarian.shorten import shortened
from contextinfinity.librarian.summary_vocabulary import PHRASES
from contextinfinity.text.content_words import STOP_WORDS, content_words
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.own_words import READ
from contextinfinity.text.plain_prose import plain_prose
from contextinfinity.text.sentences import asks, author_sentences, reported

PER_MESSAGE = 2
"""The maximum number of notes of a message, besides up to twice as many binding entries."""
_SENTENCES = 120
"""The number of sentences of a message that are read."""
_SLICE = 3_000
"""The number of characters that are searched for orders between two pauses."""
_OVERLAP = 300
_SHORT_ANSWER = 8
"""The maximum number of words of an answer that is kept with its question."""
_LONGEST_QUESTION = 160
_WORD = re.compile(r"\w+")
_EASTERN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{4}")
_CUT_OFF = re.compile(
    r"[×÷=≈≤≥<>)\]},;:|%&^]|which (?:\w+ly|is|are|was|were|has|have|had|means|makes|will|would|can|could)\b(?!.*\?)",
    re.IGNORECASE,
)
"""The beginning of a text that continues what was before it: "× 12 = 144", "which currently takes 250 ms"."""
_OTHER_SIGNS = re.compile(r"[^\w\s,.'’!?%€$£-]")
_IDENTIFIER = re.compile(
    r"https?://.{4,120}|~?/?(?:[\w.~-]{1,60}/){1,8}[\w.-]{1,60}\.\w{1,6}|~?/[\w.-]{2,60}(?:/[\w.-]{1,60}){1,8}"
    r"|[\w-]{1,60}\.(?:py|pyi|js|ts|tsx|jsx|rs|go|java|kt|rb|c|h|cpp|cs|sql|toml|json|ya?ml|md|sh|ini|cfg|lock|csv|html|css)"
    r"|[A-Z][A-Z0-9]{1,9}-\d{1,8}|[A-Za-z]\w{0,60}_\w{1,60}(?:\(\))?|\w{2,60}\(\)|#\d{2,9}"
)
_AROUND = "\"'`<>[]{}|=,;:.!?*"
_SPECIFIC = re.compile(r"\d|(?<=[a-z,] )(?!I\b)[A-Z]")
_PASTED = 4_000


class ScoredStatement(Struct, frozen=True):
    """A statement with its score."""

    entry: SummaryEntry
    score: float


class ExtractedStatements(Struct):
    """The content of new turns: statements, identifiers with their turns, and message lengths by role."""

    found: list[ScoredStatement]
    identifiers: dict[str, list[int]]
    lengths: dict[str, list[int]]


async def read_turns(
    said: Sequence[TranscriptMessage], waiting: Iterable[SummaryEntry], pause: Pause
) -> ExtractedStatements:
    """Read new turns; ``waiting`` are open questions of the previous turn, which the first message may answer."""
    reading = ExtractedStatements([], {}, {})
    asked = _Asked(waiting)
    for one in said:
        _identifiers(one, reading.identifiers)
        if one.role in ("user", "assistant"):
            await _read_message(one, asked, reading, pause)
        await pause()
    reading.found += [ScoredStatement(each, 0.5) for each in asked.still_open()]
    return reading


async def _read_message(one: TranscriptMessage, asked: _Asked, reading: ExtractedStatements, pause: Pause) -> None:
    assistant = one.role == "assistant"
    orders = await gives_orders_in(one.text, pause)
    said = [] if orders else reported(one.text, everything=assistant)
    if len(said) > _SENTENCES:
        said = [*said[: _SENTENCES // 2], *said[-_SENTENCES // 2 :]]
    total = max(1, len(said))
    reading.lengths.setdefault(one.role, []).append(total)
    made: list[tuple[float, Kind, str]] = []
    for place, sentence in enumerate(said):
        text = shortened(sentence, one.at)
        if is_prose(text) and _says_something(text, words := words_of(text)):
            kind = kind_of(text, frozenset(words), assistant=assistant)
            if kind != "fact" and sentence not in _certain(one):
                kind = "fact"
            made.append((score(text, words, place, total), kind, text))
        if place % 16 == 15:
            await pause()
    joined = asked.add_message(one, readable=not orders)
    answered = any(each.entry.turn_seq == one.turn_seq and each.entry.who == one.role for each in joined)
    for value, kind, text in _best(made):
        if not (answered and kind == "fact") and (each := entry(kind, text, one.turn_seq, one.role)):
            reading.found.append(ScoredStatement(each, value))
    reading.found += joined


def _certain(one: TranscriptMessage) -> list[str]:
    """Return the sentences of a message that can bind."""
    return author_sentences(one.text if one.role == "assistant" else plain_prose(one.text)).sentences


def _best(made: list[tuple[float, Kind, str]]) -> list[tuple[float, Kind, str]]:
    """Return the best notes of a message and its binding entries."""
    made.sort(reverse=True)
    binding = [each for each in made if each[1] != "fact"][: 2 * PER_MESSAGE]
    return [*binding, *[each for each in made if each[1] == "fact"][: max(1, PER_MESSAGE - len(binding))]]


def is_prose(text: str) -> bool:
    """Return whether a text is a sentence rather than code, a table row, a label or a title."""
    if len(text) < 8 or text.endswith(":") or _CUT_OFF.match(text):
        return False
    if len(_OTHER_SIGNS.findall(text)) > 2 + len(text) // 25:
        return False
    return len(_WORD.findall(text)) >= 3 or _EASTERN.search(text) is not None


def _says_something(text: str, words: Iterable[str]) -> bool:
    """Return whether a sentence has several content words, a name or a number: "I am glad." has not."""
    return _SPECIFIC.search(text) is not None or not text.isascii() or len({*words} - STOP_WORDS) > 1


async def gives_orders_in(text: str, pause: Pause) -> bool:
    """Search both ends of a message for orders to the model, in overlapping slices."""
    for part in (text[:READ], text[max(READ, len(text) - READ) :]):
        for start in range(0, len(part), _SLICE):
            if gives_orders(part[max(0, start - _OVERLAP) : start + _SLICE]):
                return True
            if len(part) > _SLICE:
                await pause()
    return False


def _identifiers(one: TranscriptMessage, known: dict[str, list[int]]) -> None:
    text = one.text if len(one.text) <= 2 * _PASTED else f"{one.text[:_PASTED]}\n{one.text[-_PASTED:]}"
    for word in dict.fromkeys(text.split()):
        if word.isalpha() or len(word) < 4 or len(word) > 200:
            continue
        name = word.strip(_AROUND)
        name = name if name.endswith("()") else name.strip("()")
        if _IDENTIFIER.fullmatch(name):
            known.setdefault(name, []).append(one.turn_seq)


class _Asked:
    """Questions and proposals that are still open."""

    def __init__(self, waiting: Iterable[SummaryEntry]) -> None:
        self._waiting = [*waiting]
        self._open: list[SummaryEntry] = []
        self._last: tuple[TranscriptMessage, bool] | None = None

    def add_message(self, one: TranscriptMessage, *, readable: bool) -> list[ScoredStatement]:
        """Process a message that may answer an earlier question; return answers joined with their questions.

        Nothing is taken from a message that is not ``readable``.
        """
        made: list[ScoredStatement] = []
        before = self._last[0] if self._last and self._last[1] and self._last[0].role != one.role else None
        if self._waiting and one.role == "user":
            self._open += [each for each in self._waiting if not _answers(one.text, each.text)]
            self._waiting = []
        if before is not None:
            made = _joined(before, one)
            if one.role == "assistant" and readable and PHRASES["unknown"].search(one.text):
                if any(map(PHRASES["unknown"].search, author_sentences(one.text).sentences)):
                    self._open += _questions(before)
            elif one.role == "user" and asks(one.text):
                self._open += [each for each in _questions(before) if not _answers(one.text, each.text)]
        self._last = (one, readable)
        return made

    def still_open(self) -> list[SummaryEntry]:
        """Return the unanswered questions."""
        last = _questions(self._last[0]) if self._last and self._last[1] else []
        return [*self._open, *self._waiting, *last]


def _questions(one: TranscriptMessage) -> list[SummaryEntry]:
    if "?" not in one.text and "？" not in one.text:
        return []
    put = [
        each
        for each in author_sentences(one.text).sentences
        if asks(each) and len(each) <= _LONGEST_QUESTION and not PHRASES["polite"].search(each)
    ]
    put = [each for each in put if len(content_words(each)) >= 2]
    made = (entry("question", shortened(each) or each, one.turn_seq, one.role) for each in put[-1:])
    return [each for each in made if each is not None]


def _answers(text: str, question: str) -> bool:
    """Return whether a message answers the question before it: it asks nothing itself, or repeats its words."""
    return not asks(text) or bool(content_words(question) & content_words(text[:1000]))


def _lowered(text: str) -> str:
    return text if text[:2].isupper() or text.startswith("I ") else text[:1].lower() + text[1:]


def _joined(before: TranscriptMessage, one: TranscriptMessage) -> list[ScoredStatement]:
    """Join a short answer with its question, and an acceptance with the proposal."""
    text = one.text.strip()
    if len(text) > 80 or asks(text) or not (sentences := author_sentences(before.text).sentences):
        return []
    if PHRASES["accepts"].match(text) and one.role == "user":
        proposal = next(
            (each for each in reversed(sentences) if PHRASES["proposes"].search(each) and not asks(each)), ""
        )
        made = (
            entry("decision", f"Agreed: {_lowered(shortened(proposal))}", before.turn_seq, "assistant")
            if proposal
            else None
        )
        return [ScoredStatement(made, 0.5)] if made else []
    question = sentences[-1]
    if len(_WORD.findall(text)) > _SHORT_ANSWER or PHRASES["empty_answer"].fullmatch(text) or not asks(question):
        return []
    if len(question) > _LONGEST_QUESTION or PHRASES["polite"].search(question) or gives_orders(text):
        return []
    made = entry("fact", f"{shortened(question) or question} – {text}", one.turn_seq, one.role)
    return [ScoredStatement(made, score(made.text, words_of(made.text.replace("?", ""))))] if made else []
