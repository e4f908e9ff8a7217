"""The content words of a text: lower case, without stop words and plural endings.

Two texts with the same meaning share most of them. Scripts without spaces are split into pairs of characters.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:[._/'’-][^\W_]+)*")
_EASTERN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_STOP = """
a about after again all also am an and any are as at be because been before being between both but by can could did do
does doing done down each else ever few for from get go going gonna got had has have having he her here hers him his
how i if in into is it its just let lets like ll made make makes many may me might more most much my no. now of off ok
okay on once one or other our out over own please put re really right s said same say see she should so some still such
t take than thanks that the their them then there these they thing things think this those through to too two up us ve
very want was way we well were what when where which while who why will with would yes you your yours d m
aber alle als also am an auch auf aus bei bin bis bitte das dass dem den der des die dies diese doch du ein eine einen
einer es für haben hat hier ich ihr im in ist ja jetzt kann mal man mich mir mit nach noch nur oder schon sein sich sie
sind so und uns von vor war was weil wenn wer wie wir wird zu zum zur
au aux avec ce ces cette dans de des donc du elle en est et il ils je la le les leur lui ma mais me mes moi mon nous on
ou par pas pour qu que qui sa se ses son sont sur ta te tes toi ton tu un une vos votre vous
al algo como con cual de del desde donde el ella ellos en entre era es esa ese eso esta este esto ha hay la las le lo
los me mi mis muy nos o para pero por que se ser si sin sobre son su sus te ti tu un una uno y ya yo
"""


STOP_WORDS = frozenset(_STOP.split()) - {"no"}


def content_words(text: str) -> frozenset[str]:
    """Return the content words of a text."""
    low = text.lower()
    found = {_stem(word) for word in _WORD.findall(low) if word not in STOP_WORDS}
    if not low.isascii():
        for run in _EASTERN.findall(low):
            found.discard(run)
            found.update(run[place : place + 2] for place in range(max(1, len(run) - 1)))
    return frozenset(found)


def _stem(word: str) -> str:
    if word in ("don't", "don’t", "doesn't", "doesn’t", "didn't", "didn’t", "won't", "mustn't", "nicht"):
        return "not"
    word = word.removesuffix("'s").removesuffix("’s")
    if len(word) > 4 and word.endswith("s") and not word.endswith("ss") and word.isalpha():
        return word[:-1]
    return word


def share(part: frozenset[str], whole: frozenset[str]) -> float:
    """Return the share of ``part`` that is in ``whole``; 1.0 when ``part`` is empty."""
    return len(part & whole) / len(part) if part else 1.0
