"""Words taken from what was said: the gist of an answer, the longer form of a noun, the items of a list.

Nothing is put together anew: each phrase stands in the text as it is given back, without the marks around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from contextinfinity.rewriting.lexicon import listed

GIST = 24
"""Words of an answer that are repeated."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])|\n")
_DETERMINERS = listed(
    """
    the a an his her their its my our your this that these those some any many several few each every both all
    no another
    """
)
_BOUNDARY = listed(
    """
    is are was were be been has have had do does did can could will would should may might must and or but nor
    so that which who whom whose when where while if because as to of in on at by with from for into onto about
    after before during since until over under between among through against than then also not only he she it
    they we you i him them us me there here what how why
    """
)
_GENERIC = listed(
    """
    article same only first last next other most way end beginning name kind type rest time times year years day
    days people thing things world one ones main best biggest following past future subject topic section
    """
)
"""Nouns that say too little to look for what they mean."""
_ITEM = re.compile(r"^\s{0,8}(?:[-*•]|\d{1,2}[.)])\s+(?:\*\*)?([^\n:*–—]{2,80})", re.M)
_PLURAL = re.compile(
    r"\b(?:[Tt]he|[Ss]ome|[Mm]any|[Ss]everal|[Hh]is|[Hh]er|[Tt]heir|other|\d[\d,]{0,12})\s"
    r"((?:[a-z-]{1,30}\s){0,2}(?:[a-z-]{3,30}[^su\W]s|people|men|women|children))\b"
    r"|\b([a-z-]{3,30}s and [a-z-]{3,30}s)\b"
)
_AFTER = re.compile(
    r" (?:of|at|for|with|against|on|in) (?:the |a )?(?:[A-Z][\w'’-]{0,40}|\d{4})(?: [A-Z][\w'’-]{0,40}){0,3}"
)


def gist(text: str, most: int = GIST) -> str:
    """Give the first sentence, or as much of it as may be repeated."""
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=3)
    words = next((part for part in sentences if " " in part.strip()), sentences[0]).split()
    if len(words) > most:
        ends = [place for place in range(most // 2, most) if words[place].endswith((",", ";", ":"))]
        words = words[: (ends[-1] if ends else most - 1) + 1]
    return tidy(" ".join(words))


def gists(texts: Iterable[str], most: int) -> str:
    """Give the gist of several texts, of the first in full and of the others what is left of the room."""
    told: list[str] = []
    for text in texts:
        if most > 3 and (said := gist(text, min(most, GIST))) and said not in told:
            told.append(said)
            most -= len(said.split())
    return ", ".join(told)


def tidy(phrase: str) -> str:
    """Drop the marks at both ends, and brackets and quotation marks that have no partner."""
    phrase = phrase.strip(" .,;:?!-–—*#>`")
    if phrase.count("(") != phrase.count(")"):
        phrase = phrase.replace("(", "").replace(")", "")
    if phrase.count('"') % 2:
        phrase = phrase.replace('"', "")
    return phrase.strip(" .,;:?!")


def items(text: str) -> list[str]:
    """Give the entries of a list that stands in a text."""
    return [tidy(entry) for entry in _ITEM.findall(text)][:20]


def plural(text: str) -> str:
    """Give the last phrase that stands for several."""
    found = [match[1] or match[2] for match in _PLURAL.finditer(text)]
    return found[-1] if found else ""


def longer_form(noun: str, texts: Iterable[str]) -> str:
    """Find a noun in what was said, newest first, with the words that say which one: "severe quality violations"."""
    if noun in _GENERIC or len(noun) < 3:
        return ""
    pattern = re.compile(rf"\b{re.escape(noun.lower().removesuffix('s'))}(?:s|es)?\b", re.I)
    for line in (line for text in texts for line in text.split("\n")):
        for match in pattern.finditer(line):
            phrase = _around(line, match.start(), match.end())
            if " " in phrase:
                return phrase
    return ""


def _around(text: str, start: int, end: int) -> str:
    """Take the words in front of a noun that tell it from others, and a name that follows with "of"."""
    front: list[str] = []
    for word in reversed(text[max(0, start - 80) : start].split()[-4:]):
        low = word.lower().strip('"“(')
        if low in _DETERMINERS or low in _BOUNDARY or word[-1] in ".,;:!?)":
            break
        front.insert(0, word.lstrip('"“('))
    after = _AFTER.match(text, end)
    return tidy(" ".join([*front, text[start:end]]) + (after[0] if after else ""))
