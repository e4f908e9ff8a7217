"""Short answers: what is said before them says what they mean.

"spaces" says nothing without "tabs or spaces?", and "great, do that" nothing without what was proposed. So the question
stands with its answer, and a proposal that somebody accepts is something that was agreed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from contextinfinity.librarian.digest import Kind
from contextinfinity.text.sentences import asks

ACCEPTED = "agreed: "
"""Stands before what the assistant proposed and somebody accepted."""
_SHORT = 60
_WORDS = 9
_LONGEST = 160
_OFFER = re.compile(
    r"\bwould you like (?:me|to|more|some|an?|another|any)\b|\b(?:do you )?want (?:me to|more|another"
    r"|to (?:hear|know|see))\b"
    r"|\banything else\b|\bsound(?:s)? good\b|\blet me know\b|\b(?:does|do|did) (?:that|this|it"
    r"|these) (?:help|make|work|answer)\b"
    r"|\bhow can i\b|\bwhat do you think\b|\bshall i (?:explain|continue|go on|elaborate)\b|\bhow (?:are"
    r"|do) you\b|\bsoll ich noch\b"
    r"|\bquestions\?$|\bisn['’]t it\b|\bright\?$",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"\b(?:or|which|shall|should|do we|use|want|prefer|go with|take|oder|welche[rsn]?|sollen|ou|quel(?:le)?s?"
    r"|o|cuál)\b",
    re.IGNORECASE,
)
_PROPOSES = re.compile(
    r"\b(?:i['’]?(?:ll|d| will| would| can)|let['’]?s|we['’]?(?:ll|d| will| could| should| can)|you (?:could"
    r"|should)|i (?:suggest"
    r"|propose|recommend)|my (?:suggestion|proposal|recommendation)|how about|the plan|ich (?:schlage|würde)"
    r"|wir (?:könnten"
    r"|sollten)|je (?:propose|suggère)|on pourrait|propongo|sugiero|podríamos)\b|建议|我们可以",
    re.IGNORECASE,
)
_YES = (
    r"(?:yes|yeah|yep|yup|ok(?:ay)?|sure|great|perfect|fine|good|excellent|brilliant|agreed|absolutely"
    r"|definitely|cool|nice"
    r"|sounds? good|works for me|that works|exactly|right|ja|gern(?:e)?|genau|super|klar|einverstanden|passt"
    r"|oui|d['’]accord"
    r"|parfait|très bien|sí|si|vale|claro|perfecto|de acuerdo|好的?|可以|行)"
)
_ACT = (
    r"(?:(?:let['’]?s |we['’]ll |i['’]ll )?(?:do|take|use|go with|go for) (?:that|it|this|so"
    r"|the first(?: one)?)|go ahead|go for it"
    r"|deal|make it so|please do|that['’]s (?:it|settled|decided|the one)|approved|agreed|accepted"
    r"|mach(?:en wir)? das|so machen wir(?:['’]s| es)"
    r"|einverstanden|vas-y|allons-y|on fait ça|hazlo|adelante|hagámoslo|就这样|就这么办)"
)
_JOIN = r"[\s,.!;:–-]*(?:and |then |so |und |et |y )?"
_ACCEPTS = re.compile(
    rf"(?:{_YES}{_JOIN}){{0,3}}(?:{_ACT}{_JOIN}){{0,2}}(?:then|please|now|dann|bitte)?[\s.!]*", re.IGNORECASE
)
_ACTS = re.compile(_ACT, re.IGNORECASE)
_PLAIN = re.compile(rf"{_YES}|no|nope|nah|nein|non", re.IGNORECASE)
_EMPTY = re.compile(
    r"\b(?:thanks?|thank you|haha|lol|hmm+|not sure|no idea|don['’]?t know|danke|merci|gracias|never mind)\b",
    re.IGNORECASE,
)


def asked_last(sentences: Sequence[str]) -> str:
    """Give the question that a message ends with, if its answer would tell something."""
    last = sentences[-1] if sentences else ""
    return last if asks(last) and len(last) <= _LONGEST and not _OFFER.search(last) else ""


def answer_to(question: str, text: str) -> tuple[Kind, str] | None:
    """Put a short answer to its question; None when it is none, or says nothing."""
    text = text.strip()
    if not (question and text) or len(text) > _SHORT or len(text.split()) > _WORDS or asks(text) or _EMPTY.search(text):
        return None
    choice = _CHOICE.search(question) is not None
    if _PLAIN.fullmatch(text.rstrip(" .!")) and not choice:
        return None
    return ("decision" if choice else "fact"), f"{question} {text}"


def accepted(proposal: Sequence[str], text: str) -> str:
    """Give the sentence of a proposal that somebody accepts; nothing when they do not, or nothing was proposed."""
    text = text.strip()
    if not (text and proposal) or len(text) > _SHORT or not _ACCEPTS.fullmatch(text):
        return ""
    proposing = [each for each in proposal if _PROPOSES.search(each) and not asks(each)]
    if proposing:
        return ACCEPTED + proposing[-1]
    told = [each for each in proposal if not asks(each)]
    return ACCEPTED + told[0] if told and len(proposal) <= 3 and _ACTS.search(text) else ""
