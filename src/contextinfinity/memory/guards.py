"""Find the parts of a message that are the user's own statements about themselves.

Excluded are quotations, pasted text, code, other people's words, role play and texts to be edited; also questions,
hypotheticals and wishes. Doubtful cases are excluded: an important fact will be stated again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from contextinfinity.domain.memory import LONGEST_MEMORY
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.plain_prose import plain_prose
from contextinfinity.text.sentences import asks, author_sentences, before_question
from contextinfinity.text.vocabulary import patterns

_PATTERNS: Final = patterns("statements")

LONGEST_SENTENCE = 320
LONGEST_REQUEST = LONGEST_MEMORY + 60
"""The maximum length of a sentence that asks to remember something; it is stored whole or not at all."""
LONGEST_MESSAGE = 20_000
"""Longer messages are ignored: they were hardly typed."""

_QUOTED = re.compile(
    r"\"[^\"]{1,300}\"|“[^”]{1,300}”|«[^»]{1,300}»|„[^“”]{1,300}[“”]|`[^`]{1,300}`"
    r"|(?<!\w)['‘](?:[^'‘’]|(?<=\w)['’](?=\w)){3,300}['’](?!\w)"
)
_CODE = re.compile(
    r"[{}<>\\]|=>|==|\w\(\w*\)|;\s*$|^\s*(?:(?:def|class|import|from \w+ import|SELECT|INSERT)\b|\$|#|\|)"
)
_LOG = re.compile(
    r"^(?:\[[^\]]{1,30}\]\s*)?(?!(?i:note|ps|p\.s|fyi|btw|update|correction|edit|remember|important|also|fact|reminder)\b)"
    r"(?:[A-Z][\w.'-]{0,15}(?: [A-Z][\w.'-]{0,15}){0,2}|(?i:me|you|user|assistant|him|her|system|human)):\s"
)
"""A line of a chat log between others, or of a form."""
_TASK: Final = _PATTERNS["task"]
_FOLLOWS: Final = _PATTERNS["follows"]
_PLAY: Final = _PATTERNS["play"]
_OPENING: Final = _PATTERNS["opening"]
"""What precedes other people's words or a scene: the text after it is not about the user."""
_ROLE = re.compile(r"\s*you are (?:an?|the|my|our)\b", re.I)
"""The start of instructions to a model."""
_JOKE: Final = _PATTERNS["joke"]
_WRAPPED = re.compile(r"(?<=[^\s.!?:;])[ \t]*\n(?=[ \t]*[a-zà-ÿ])")
"""A line break inside a sentence."""
_SUPPOSED: Final = _PATTERNS["supposed"]
_UNSURE: Final = _PATTERNS["unsure"]
_OTHERS: Final = _PATTERNS["others"]
_DENIED: Final = _PATTERNS["denied"]
_TAKEN_BACK: Final = _PATTERNS["taken_back"]
_BEFORE_IT = """
actually again ah all also already and anyway as at because best both btw but by careful clear confession context
correction course evening exciting fact finally first forgot frankly fun fyi general good great happy hello hey hi
honest honestly hope husband i i'm i've in indeed instead is it it's just kids know known last lately life listen look
luckily mainly me mean meant mention mentioned moment morning mostly my nice no nope normally now obviously oh ok okay
once one only our out partner personally please plus point ps quick really recently remember remind right sadly said say
seriously should since so sometimes soon sorry still such sure tell thanks that that's the then there these thing
though time times to today told tonight too truth turns unfortunately update usually way we're week well when which
while why wife yeah yep yes yesterday you
"""
_LEADING = frozenset(_BEFORE_IT.split())
"""Words that may precede a statement about oneself in its clause; others make it part of another statement."""
_AT_A_TIME: Final = _PATTERNS["at_a_time"]
_IN_A_TEXT: Final = _PATTERNS["in_a_text"]
_CLAUSE = re.compile(
    r"[,;:.!?–—]\s|\s[-–—]\s|\s(?:but|and|so|because|although|though|except|und|aber|et|mais|y|pero)\s"
)


_GOES_ON: Final = _PATTERNS["goes_on"]


class Stated(Struct, frozen=True):
    """A sentence with quotations masked, and its position in the message."""

    text: str
    start: int
    end: int
    exact: bool
    """Whether it occurs in the message unchanged, so that offsets in it are offsets in the message."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position in the message of a part of the sentence."""
        return (self.start + start, self.start + end) if self.exact else (self.start, self.end)


def statements(message: str) -> Iterator[Stated]:
    """Yield the sentences in which the user makes a statement themselves."""
    if not message.strip() or len(message) > LONGEST_MESSAGE or "<artifact" in message or gives_orders(message):
        return
    if _PLAY.search(message) or _ROLE.match(message) or _JOKE.search(message):
        return
    text, place = _WRAPPED.sub(lambda gap: " " * len(gap[0]), plain_prose(message)), 0
    for sentence in author_sentences(text).sentences:
        found = _position_in(text, sentence, place)
        if found is None:
            continue
        place = found[1]
        if _OPENING.search(sentence):
            return
        if _TASK.match(sentence):
            if _FOLLOWS.search(sentence):
                return
            continue
        stated = before_question(sentence)
        if len(stated) > LONGEST_REQUEST or asks(stated) or _CODE.search(stated) or _LOG.match(stated):
            continue
        exact = found[1] - found[0] == len(sentence)
        yield Stated(_masked_quotations(stated), *found, exact)


def mentioning(message: str) -> str:
    """Return the text that may mention the user's people, with equal offsets; empty for foreign text or role play."""
    if len(message) > LONGEST_MESSAGE or "<artifact" in message or gives_orders(message):
        return ""
    if any(found.search(message) for found in (_PLAY, _JOKE, _OPENING, _CODE)) or _ROLE.match(message):
        return ""
    return _masked_quotations(plain_prose(message))


def _position_in(text: str, sentence: str, place: int) -> tuple[int, int] | None:
    """Return the position of a sentence in a text, regardless of line breaks."""
    at = text.find(sentence, place)
    if at >= 0:
        return at, at + len(sentence)
    loose = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(text, place)
    return None if loose is None else loose.span()


def _masked_quotations(sentence: str) -> str:
    """Normalise apostrophes and mask quotations, without changing the length."""
    return _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), sentence).replace("’", "'")


def with_subject(sentence: str) -> str:
    """Repeat an omitted "I" ("I live in Rome and work at Siemens") without changing the length."""
    return _GOES_ON.sub(lambda found: f"{found['said']}, I ", sentence)


def is_meant(sentence: str, start: int, end: int) -> bool:
    """Return whether a part of a sentence is stated by the speaker, and not negated, hypothetical or retracted."""
    before = sentence[:start]
    if _SUPPOSED.search(before) or _OTHERS.search(before) or _TAKEN_BACK.search(sentence, max(0, end - 20)):
        return False
    clause = clause_start(sentence, start)
    if _DENIED.search(sentence, clause, start):
        return False
    if not _may_precede_statement(sentence[clause:start]) or _IN_A_TEXT.search(before):
        return False
    return not _UNSURE.search(sentence, clause, end) and not _SUPPOSED.match(sentence, clause, end)


def _may_precede_statement(words: str) -> bool:
    """Return whether these words may precede a statement in its clause."""
    return _AT_A_TIME.match(words.lstrip()) is not None or {*re.findall(r"[\w']+", words.lower())} <= _LEADING


def clause_start(sentence: str, place: int) -> int:
    """Return where the clause that contains a position begins."""
    borders = [found.end() for found in _CLAUSE.finditer(sentence, 0, place)]
    return borders[-1] if borders else 0


def clause_end(sentence: str, place: int) -> int:
    """Return where the clause that contains a position ends."""
    border = _CLAUSE.search(sentence, place)
    return len(sentence) if border is None else border.start()
