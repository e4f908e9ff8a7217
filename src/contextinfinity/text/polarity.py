"""Detect whether two texts contradict each other: one negates, limits or times what the other does not.

"Never send it" and "always send it" share nearly all of their words. So each word that reverses a meaning is matched
with its scope: the words after it in its clause, or before it if none follow. Two texts are opposed if such a word
applies in one text to something that the other mentions without it.
"""

from __future__ import annotations

import re

from contextinfinity.text.content_words import content_words

_NUMBER = (
    r"(?=\s(?:the\s|den\s|dem\s|le\s|el\s)?(?:[€$£]?\d|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|noon"
    r"|midnight|tomorrow|today|tonight|next|end|mon|tues|wednes|thurs|fri|satur|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct"
    r"|nov|dec|mai|dez|dienst|mitt|donners|frei|sams|sonn|ende))"
)
"""What follows if such a word is about an amount or a time: "by Friday", not "by Ingrid"."""
_TURNS: dict[str, str] = {
    "most": rf"""
        no\s(?:more|later|longer|bigger|larger|higher|greater)\sthan|not\s(?:more|later|longer|exceed)(?:\sthan)?|at\smost
        |at\sthe\slatest|up\sto|less\sthan|fewer\sthan|shorter\sthan|(?:under|below|within){_NUMBER}|max(?:imum|imal)?
        |capped\sat|tops|höchstens|spätestens|maximal|weniger\sals|au\s(?:maximum|plus)|moins\sde|como\smáximo
        |a\smás\stardar|menos\sde""",
    "least": rf"""
        no\s(?:less|fewer|earlier|smaller)\sthan|not\s(?:less|earlier)\sthan|at\sleast|more\sthan|longer\sthan
        |(?:over|above){_NUMBER}|exceeds?|min(?:imum|imal)?|mindestens|mehr\sals|au\smoins|plus\sde|al\smenos|más\sde""",
    "before": rf"before|until|till|prior\sto|(?:by|bis|vor){_NUMBER}|avant|jusqu'à|antes|hasta",
    "after": rf"after|(?:since|from|nach|seit|ab){_NUMBER}|après|depuis|después|desde",
    "except": r"except|unless|excluding|apart\sfrom|other\sthan|außer|sauf|excepto|salvo",
    "not": r"""
        no|not|never|cannot|can't|cant|\w+n't|dont|doesnt|wont|nobody|nothing|none|no\slonger|neither|nor|without|avoid
        |forbidden|prohibited|banned|stop|stopped|refuse[ds]?|instead\sof|rather\sthan|drop|dropped
        |nicht|nie|niemals|kein|keine|keinen|keiner|keinem|ohne|verboten|statt|ne|pas|jamais|sans|aucune?|interdit
        |nunca|jamás|sin|ningún|ninguna|prohibido""",
}  # fmt: skip
_TURN = re.compile(rf"\b(?:{'|'.join(rf'(?P<{name}>{words})' for name, words in _TURNS.items())})\b", re.VERBOSE)
_EASTERN = re.compile(r"不|没|未|禁止|勿|无")
_CLAUSE = re.compile(r"[,;:.!?()–—]|\bbut\b|\baber\b|\bmais\b|\bpero\b")
_EMPHASIS = re.compile(r"\b(?:under any circumstances|whatever happens|no matter what|at all|ever|please|by the way)\b")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")
_REACH = 8
"""The maximum number of words in its scope."""
_READ = 1000


def opposed(one: str, other: str) -> bool:
    """Return whether one text contradicts the other."""
    first, second = _reversed_words(one), _reversed_words(other)
    if not first and not second:
        return False
    words = _stems(one), _stems(other)
    for kind in first.keys() | second.keys():
        mine, theirs = first.get(kind, frozenset()), second.get(kind, frozenset())
        if (mine & words[1] or theirs & words[0]) and not mine & theirs:
            return True
    return False


def _stems(text: str) -> frozenset[str]:
    return frozenset(_ENDING.sub("", word)[:5] for word in content_words(text))


def _reversed_words(text: str) -> dict[str, frozenset[str]]:
    """Return the words in the scope of each kind of reversal."""
    low = _EMPHASIS.sub("", text[:_READ].lower().replace("’", "'").replace("under no circumstances", "never"))
    found: dict[str, frozenset[str]] = {}
    for match in _TURN.finditer(low):
        if match.lastgroup:
            found[match.lastgroup] = found.get(match.lastgroup, frozenset()) | _words_in_scope(low, match)
    if not low.isascii() and _EASTERN.search(low):
        found["not"] = found.get("not", frozenset()) | _stems(_EASTERN.sub("", low))
    return found


def _words_in_scope(low: str, match: re.Match[str]) -> frozenset[str]:
    following = low[match.end() :]
    if following.startswith(","):  # "never, as I said, ..."
        return _content_words_at_end(_TURN.sub(" ", following).split(), 1)
    for clause in _CLAUSE.split(following):
        if words := _content_words_at_end(_TURN.sub(" ", clause).split(), 1):
            return words
    return _content_words_at_end(_TURN.sub(" ", _CLAUSE.split(low[: match.start()])[-1]).split(), -1)


def _content_words_at_end(words: list[str], step: int) -> frozenset[str]:
    """Return the content words among the first words, or among the last with ``step`` -1."""
    reached: list[str] = []
    for word in words[::step]:
        reached += _stems(word)
        if len(reached) >= _REACH:
            break
    return frozenset(reached)
