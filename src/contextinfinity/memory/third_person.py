"""Convert a user's own words into a sentence about them."""

from __future__ import annotations

import re

_MINE = {
    "my": "their", "our": "their", "mine": "theirs", "ours": "theirs", "me": "them", "us": "them", "myself":
    "themselves",
    "ourselves": "themselves", "i": "they", "we": "they", "i'm": "they are", "i've": "they have", "i'll": "they will",
    "i'd": "they would", "we're": "they are", "we've": "they have", "am": "are",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_TRAILING = re.compile(
    r"""(?:\s+|^)(?:now|nowadays|currently|these\ days|at\ the\ moment|right\ now|today|recently|lately|again|already
    |too    |as\ well|either|anymore|any\ more|any\ longer|actually|though|tbh|honestly|really|permanently|originally
    |at\ all|after\ all|temporarily|for\ now|fluently|natively
    |so\ much|very\ much|a\ lot|a\ bit|the\ most|the\ best|best|most|more\ than\ anything(?:\ else)?|of\ all|btw
    |by\ the\ way
    |by\ now|instead|please|thanks|you\ know|i\ think|i\ guess|lol|haha|since\ .{1,40}|for\ (?:\w+\ ){1,3}(?:years?
    |months?|weeks?|days?)
    |for\ (?:a|the)\ (?:while|time\ being|moment)|(?:last|this|next)\ (?:week|month|year|spring|summer|autumn|fall
    |winter|\w+day)
    |(?:a|two|three|some|few|\d+)\ (?:few\ )?(?:years?|months?|weeks?|days?)\ ago|yesterday|tomorrow|in\ (?:19|20)\d\d
    |in\ (?:january|february|march|april|may|june|july|august|september|october|november|december)(?:\ (?:19|20)\d\d)?
    |from\ now\ on|ever\ since|from\ (?:january|february|march|april|may|june|july|august|september|october|november
    |december|monday|tomorrow|next\ \w+)(?:\ on)?)[.!]*$""",
    re.I | re.X,
)
_BEFORE = re.compile(
    r"^(?:(?:just|really|only|mostly|mainly|also|actually|still|both|now|currently|always|usually)\s+)+", re.I
)
LONGEST = 160
"""The maximum number of characters of an extracted fact; a longer one is a story."""


def thing(text: str) -> str:
    """Return the part of a phrase that names the thing, without times, amounts and other additions."""
    text = " ".join(text.split()).strip(" .!,;:-–—*_")
    text = _BEFORE.sub("", text)
    for _ in range(4):
        shorter = _TRAILING.sub("", text).rstrip(" ,.!-")
        if shorter == text:
            break
        text = shorter
    return text


def to_third_person(text: str) -> str:
    """Replace the first person by the third: "my kids" becomes "their kids"."""
    theirs = _WORD.sub(lambda word: _MINE.get(word[0].lower(), word[0]), text)
    return theirs.replace("they was ", "they were ")


def sentence(text: str) -> str:
    """Format a fact as one line with a capital letter and a full stop."""
    text = " ".join(text.split()).rstrip(" ,;:.!-")
    return f"{text[:1].upper()}{text[1:]}."
