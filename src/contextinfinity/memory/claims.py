"""Check whether a user's own words support a model's claim about them.

A quotation alone proves nothing: "lives in Oslo" may be about a brother, "married" about someone else. So the whole
clause is checked: its subject is the speaker, its verb is that of the claim, it contains all words of the claim, and
both are affirmative or both are negated.
"""

from __future__ import annotations

import re

from contextinfinity.memory.guards import clause_end, clause_start, is_meant
from contextinfinity.memory.rendering import as_said
from contextinfinity.text.keywords import terms

_DAY = re.compile(r"\(?\d{4}-\d\d-\d\d(?: to \d{4}-\d\d-\d\d)?\)?")
_DENIES = re.compile(r"\b(?:not|no|never|nothing|nobody|none|cannot|without|hardly|neither|stopped|\w+n't)\b", re.I)
_ADVERBS = (
    r"(?:(?:now|currently|still|actually|just|recently|also|finally|already|really|absolutely|totally|do|always|never"
    r"|usually|often|mostly|mainly|sometimes|not|don't|do not|no longer|only|both|very|quite|severely|a|an|the) )*"
)
_OWNED = r"\b(?:my|our) (?:[\w-]+ ){0,2}?"
_HELD = r"\b(?:i|we)(?:'ve got| have got| have| own|'ve) (?!to\b)(?:[\w-]+ ){0,3}?"
_FREE = frozenset(("user", "call", "am"))
"""Words of the claim that need not occur in the clause."""


def states_fact(fact: str, sentence: str, start: int, end: int) -> bool:
    """Return whether the clause around a quotation states the fact about its speaker."""
    first, last = clause_start(sentence, start), clause_end(sentence, end)
    clause = sentence[first:last]
    spoken = _spoken(fact, clause)
    if spoken is None or bool(_DENIES.search(fact)) != bool(_DENIES.search(clause)):
        return False
    if not set(terms(_DAY.sub(" ", fact))) - _FREE <= set(terms(clause[spoken:])):
        return False
    return is_meant(sentence, first + spoken, last)


def _spoken(fact: str, clause: str) -> int | None:
    """Return where the speaker states it: as the subject of the claim's verb, or about something they own; else
    None.
    """
    said = _DAY.sub(" ", as_said(fact)).rstrip(". ")
    ways: list[str] = []
    if own := re.match(r"(?:My|I have (?:(?:an?|the|one|two|three|four|some|\d+) )?)\s*([\w-]+)", said):
        if re.search(rf"{_OWNED}{re.escape(own[1])}\b", clause, re.I):
            return 0
        ways.append(rf"{_HELD}{re.escape(own[1])}\b")
    elif am := re.match(rf"I am {_ADVERBS}([\w-]+)", said, re.I):
        ways.append(rf"\b(?:i'm|i am|we're|we are) {_ADVERBS}{re.escape(am[1])}\b")
    elif verb := re.match(rf"I {_ADVERBS}([\w-]+)", said, re.I):
        ways.append(rf"\b(?:i|we) {_ADVERBS}{re.escape(verb[1])}\b")
    found = [match.start() for way in ways if (match := re.search(way, clause, re.I))]
    return min(found, default=None)
