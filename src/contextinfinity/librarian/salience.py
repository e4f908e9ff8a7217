"""How much a sentence of a person is worth remembering: many weak signs, added up.

Nobody says "we decided" each time. That a sentence speaks of the speaker or their people, gives a number, a date or a
name, forbids, limits, likes or changes something are weak signs each; a few of them together make it worth keeping.
Small talk, tales, guesses and requests count against it. The table is in ``signs``; numbers and names are added here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from contextinfinity.librarian.signs import SIGNS, Leaning
from contextinfinity.librarian.words import listed, named, telling
from contextinfinity.text.entities import ARTIFACTS

WORTH = 1.0
"""Points from which a sentence is worth keeping."""
BINDS = 6.0
"""Points from which it also binds, if it leans to something that does."""
CLEAR = 5.0
"""Points from which nobody doubts it."""
_LEANS = 2.0
"""Points that have to lean the same way."""

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_QUANTITY = re.compile(
    r"[€$£¥]\s?\d|\d\s?[€$£¥%°]|\b\d{1,2}:\d\d\b|\b\d{1,3}(?:[.,]\d{3})+\b|\d\.\d|\d(?:st|nd|rd|th)\b|\d[\d -]{5,}\d"
    r"|\d\s?(?:k|km|kg|g|mg|ml|l|cm|mm|m|mb|gb|kb|tb|ms|s|h|am|pm|eur|usd|euros?|dollars?|pounds?|quid|percent|people"
    r"|users|guests|degrees|hours?|minutes?|mins?|days?|weeks?|months?|years?|miles|metres|meters|kilos|words"
    r"|pages|rooms"
    r"|seats|ans|jahre|uhr|personas|invitados|años|heures)\b"
    r"|\b(?:a|per|im|par|al) (?:month|year|week|day|night|head|hour|monat|jahr|mois|an|mes|año)\b"
)
_DIGIT = re.compile(r"\d")
_COUNTED = listed(
    """
    two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty seventy eighty
    ninety hundred thousand million dozen half zwei drei vier fünf sechs sieben acht neun zehn deux trois quatre cinq
    dix dos tres cuatro cinco seis diez
    """
)
_WHEN = listed(
    """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february april june july august september october november december montag dienstag mittwoch
    donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles
    jueves viernes sábado domingo morning mornings evening evenings noon midnight tomorrow spring summer autumn winter
    christmas easter weekend weekends
    """
)
_NAMING = re.compile(r"\w\s+[^\W\d_a-z]|[/\\_@=]|\w\.\w|[a-z][A-Z]|\d")
"""What a sentence has that may name something."""


_SHORTEST = 3
_LOOKED_AT = 300
_TELLING = 2
"""Words that say something, from which a sentence has a matter of its own."""
_FIRST = re.compile(
    r"(?:(?:ok(?:ay)?|so|well|right|yes|yeah|yep|nah|no|oh|and|but|also|please|pls|btw|just|then|now|ah|um"
    r"|hm+)\b[,.:!]? )*([^\W\d_]+)"
)
_POINTING = listed(
    """
    it that this these those they he she there what which who how why when where if maybe perhaps someone somebody
    everybody everyone some people that's es das dies ce cela ça c eso esto ello can could would should do does did is
    are
    """
)
"""Words with which one begins who goes on about what was said before, or asks."""
_IMPERATIVE = listed(
    """
    add address aim allow always answer apply ask assume avoid begin book bring build call cancel cap cc change charge
    check choose clean close copy count cut default delete deploy disable don double drop email enable ensure exclude
    explain export fall fix flag focus forget format get give go guard hand handle hide hire hold host ignore include
    install invite keep label launch lay leave limit link list lock log mail make mark mask match meet mention merge
    mind move name never notify offer only order pack pay pick pin plan post prefer prepare print put quote raise read
    rebuild record reduce refer refinance refuse release remember remove rename repeat replace reply report reserve
    respond restart return reuse round run save say schedule select sell send separate serve set ship show sign skip
    sort speak spell split stack start stay stick stop store stream support swap switch tag take talk target test text
    throw translate treat trim try turn type update use validate wait walk warn wear work wrap write
    """
)
"""Verbs with which one tells somebody to do something."""


class Salience(Struct, frozen=True):
    """How much a sentence is worth, and where it leans."""

    points: float
    leans: Leaning | None


@lru_cache(maxsize=1024)
def salience(sentence: str) -> Salience:
    """Add up the signs of a sentence."""
    low = sentence.lower().replace("’", "'")
    words = frozenset(_WORD.findall(low))
    points = _named(sentence, low, words) + _shape(low, words)
    leanings: dict[Leaning, float] = {}
    for sign in SIGNS:  # a loop: this runs for every sentence
        if sign.words.isdisjoint(words) or (sign.phrases is not None and not sign.phrases.search(low)):
            continue
        points += sign.points
        if sign.leans is not None:
            leanings[sign.leans] = leanings.get(sign.leans, 0.0) + sign.points
    leans = max(leanings, key=lambda each: leanings[each], default=None)
    return Salience(points, leans if leans is not None and leanings[leans] >= _LEANS else None)


def _shape(low: str, words: frozenset[str]) -> float:
    """Give points for how a sentence is built: telling somebody to do something, or having a matter of its own."""
    if len(words) < _SHORTEST:
        return -1.0
    first = _FIRST.match(low)
    began = first[1] if first else ""
    points = 1.0 if began in _IMPERATIVE else 0.0
    if began not in _POINTING and len(telling(low[:_LOOKED_AT])) >= _TELLING:
        points += 1.0
    return points


def _named(sentence: str, low: str, words: frozenset[str]) -> float:
    """Give points for numbers, dates, names and things one can go to."""
    points = 0.0
    if _QUANTITY.search(low):
        points = 2.0
    elif _DIGIT.search(low):
        points = 1.5
    elif not words.isdisjoint(_COUNTED):
        points = 1.0
    if not words.isdisjoint(_WHEN):
        points += 1.0
    if _NAMING.search(sentence):
        kinds = {found.kind for found in named(sentence)}
        points += 1.5 * (not kinds.isdisjoint(ARTIFACTS)) + 1.5 * ("name" in kinds)
    return points
