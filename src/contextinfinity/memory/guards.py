"""Which words of a message are somebody's own statement about themselves.

Not theirs: what is quoted or pasted, code, what others said, a part in a play, a text to be worked on. Not stated:
questions, suppositions, wishes. What is doubtful is left: a fact that matters is said again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from contextinfinity.text.orders import gives_orders
from contextinfinity.text.sentences import asks, before_question, spoken

LONGEST_SENTENCE = 320
LONGEST_MESSAGE = 20_000
"""Characters; what is longer was hardly typed."""

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_ABOVE = re.compile(r"\b(?:above|this|that|text|it)\b", re.I)
_QUOTED = re.compile(
    r"\"[^\"]{1,300}\"|“[^”]{1,300}”|«[^»]{1,300}»|„[^“”]{1,300}[“”]|‘[^’]{3,300}’(?!\w)|`[^`]{1,300}`"
)
_CODE = re.compile(
    r"[{}<>\\]|=>|==|\w\(\w*\)|;\s*$|^\s*(?:(?:def|class|import|from \w+ import|SELECT|INSERT)\b|\$|#|\|)"
)
_LOG = re.compile(
    r"^(?:\[[^\]]{1,30}\]\s*)?(?!(?i:note|ps|p\.s|fyi|btw|update|correction|edit|remember|important|also|fact|reminder)\b)"
    r"(?:[A-Z][\w.'-]{0,15}(?: [A-Z][\w.'-]{0,15}){0,2}|(?i:me|you|user|assistant|him|her|system|human)):\s"
)
"""A line of a chat between others, or of a form."""
_TASK = re.compile(
    r"^(?:(?:please|can you|could you|would you|now|ok|okay|so|hey|hi|then|first|next|and|also|let's"
    r"|help me(?: to)?|i want you to"
    r"|i need you to|i'd like you to),? )*(?:translate|rewrite|rephrase|proofread|proof-read|summari[sz]e"
    r"|paraphrase|edit|improve"
    r"|write|draft|compose|generate|create|fix|correct|complete|continue|repeat|print|output|say|read|classify"
    r"|analy[sz]e|grade"
    r"|check|review|convert|polish|shorten|expand|finish|answer as|reply with|respond with|act|role-?play|play"
    r"|pretend|imagine"
    r"|suppose|assume|consider|take)\b",
    re.I,
)
_FOLLOWS = re.compile(
    r":\s*$|:\s|\b(?:following|below|this (?:text|e-?mail|sentence|paragraph|message|letter|essay|story|passage"
    r"|review))\b",
    re.I,
)
_PLAY = re.compile(
    r"\b(?:role-?play|in character|pretend (?:to be|that|you|i)|act as|imagine (?:that )?(?:you|i)\b|let's play"
    r"|you are now|story about"
    r"|short story|poem|song lyrics|screenplay|fiction|novel|my character|(?:the|a) character|persona"
    r"|write (?:me )?(?:a|an|some)\b)",
    re.I,
)
_SUPPOSED = re.compile(
    r"\b(?:if|unless|suppose|supposing|imagine|pretend|hypothetically|let's say|say i|as if|as though|whether"
    r"|assuming|once i|in case|what would)\b",
    re.I,
)
_UNSURE = re.compile(
    r"\b(?:would|wouldn't|could|couldn't|might|(?-i:may)(?! \d)|maybe|perhaps|probably|possibly|wish|i guess"
    r"|not sure|thinking (?:of|about)|considering"
    r"|dream(?:t|ed|ing)? (?:of|about|that)?|joking|kidding|should|almost|nearly|i'd|we'd|you'd|hope to|hoping to"
    r"|hopefully)\b",
    re.I,
)
_OTHERS = re.compile(
    r"\b(?!i\b|we\b|already\b|just\b)[\w']+ (?:said|says|told (?:me|us|him|her|them)|asked|wrote|writes|thinks"
    r"|thought|believes?|claims?|claimed|insists?"
    r"|was like|keeps saying|sings?|goes)\b",
    re.I,
)
_CLAUSE = re.compile(r"[,;:.!?–—]\s|\s(?:but|and|so|because|although|though)\s")


class Stated(Struct, frozen=True):
    """A sentence, what stands for it with quotations blanked out, and where it begins in the message."""

    text: str
    start: int
    end: int
    exact: bool
    """Whether it stands in the message letter for letter, so that places in it are places there."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Give the place of a part of it in the message."""
        return (self.start + start, self.start + end) if self.exact else (self.start, self.end)


def statements(message: str) -> Iterator[Stated]:
    """Give the sentences in which somebody states something themselves."""
    if not message.strip() or len(message) > LONGEST_MESSAGE or "<artifact" in message or gives_orders(message):
        return
    message = _own_words(message)
    played, place = _PLAY.search(message) is not None, 0
    for sentence in spoken(message).sentences:
        found = _found(message, sentence, place)
        if found is None:
            continue
        place = found[1]
        if _TASK.match(sentence):
            if _FOLLOWS.search(sentence):
                return
            continue
        stated = before_question(sentence)
        if played or len(stated) > LONGEST_SENTENCE or asks(stated) or _CODE.search(stated) or _LOG.match(stated):
            continue
        exact = found[1] - found[0] == len(sentence)
        yield Stated(_blanked(stated), found[0], found[1], exact)


def _own_words(message: str) -> str:
    """Leave what was brought along: only the first paragraph was typed for certain, unless a later one is about it."""
    end = _PARAGRAPHS.search(message, len(message) - len(message.lstrip()))
    if end is None:
        return message
    return "" if _ABOVE.search(message, end.end()) else message[: end.start()]


def _found(message: str, sentence: str, place: int) -> tuple[int, int] | None:
    """Find a sentence where it stands, however its lines were broken."""
    at = message.find(sentence, place)
    if at >= 0:
        return at, at + len(sentence)
    loose = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(message, place)
    return None if loose is None else loose.span()


def _blanked(sentence: str) -> str:
    """Put one form of apostrophe, and blanks where something is quoted; letter for letter as long."""
    return _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), sentence).replace("’", "'")


def is_meant(sentence: str, start: int, end: int) -> bool:
    """Tell whether what stands at a place of a sentence is stated by who says it."""
    before = sentence[:start]
    if _SUPPOSED.search(before) or _OTHERS.search(before):
        return False
    borders = [found.end() for found in _CLAUSE.finditer(before)]
    clause = sentence[borders[-1] if borders else 0 : end]
    return not _UNSURE.search(clause) and not _SUPPOSED.match(clause)
