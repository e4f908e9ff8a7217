"""Answers of the fake that come from its prompt, so that a test can check what the model was shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile

from contextinfinity_testing.vendors.wire import Part

CHILDREN = re.compile(r"(?P<who>[A-Z]\w{0,40}(?: [A-Z]\w{0,40}){0,3})['’]s? children are (?P<names>[^.?\n]{1,200})")
PARENT = re.compile(r"\bwho are (?P<who>[^?\n]{1,80}?)['’]s? children", re.IGNORECASE)
MENTION = re.compile(r"code word for (?P<what>[^?\n]{1,80}?) is (?P<word>[^\s.,;:!?\"'<>()\[\]{}\\]+)", re.IGNORECASE)
QUESTION = re.compile(r"code word for (?P<what>[^?\n]{1,80}?)\s*\?", re.IGNORECASE)
SHORT = 80


def from_prompt(parts: Sequence[Part]) -> str:
    """Answer the last question for a code word, or for a person's children, with the newest mention.

    Any other message is repeated.
    """
    last = last_words(parts)
    questions = QUESTION.findall(last)
    if parents := PARENT.findall(last):
        told = {mention["who"]: mention["names"] for part in parts for mention in CHILDREN.finditer(part.said)}
        return told.get(parents[-1], f"I do not know the children of {parents[-1]}.")
    if not questions:
        return f"You said: {last[:SHORT]}"
    asked = _bare(questions[-1])
    word = None
    for part in parts:
        for mention in MENTION.finditer(part.said):
            word = mention["word"] if _bare(mention["what"]) == asked else word
    return word or f"I do not know the code word for {questions[-1]}."


def last_words(parts: Sequence[Part]) -> str:
    """Return the user's last message, which tool calls and their results may follow."""
    backwards = dropwhile(lambda part: part.role != "user", reversed(parts))
    return "\n".join(reversed([part.said for part in takewhile(lambda part: part.role == "user", backwards)]))


def _bare(what: str) -> str:
    return re.sub(r"^(the|my|our|your)\s+", "", what.strip().casefold())
