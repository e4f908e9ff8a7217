"""Convert a written fact about the user into the first person, so that the same phrases recognise it."""

from __future__ import annotations

import re

_USER = re.compile(r"^the user(?P<own>'s)? +(?P<rest>.+)$", re.I | re.S)
_VERBS = {
    "is": "am", "isn't": "am not", "has": "have", "was": "was", "does": "do", "doesn't": "don't", "goes": "go",
    "hasn't": "haven't", "wasn't": "wasn't",
}  # fmt: skip
_ADVERB = re.compile(r"^(?:(?:no longer|never|always|usually|often|mostly|also|still|now|currently|really)\s+)+", re.I)
_DAY = r"\d{4}-\d\d-\d\d"
_PLANNED = re.compile(
    rf"^(?P<what>[^:]{{2,120}}): (?P<due>due )?(?P<day>{_DAY}(?: to {_DAY})?)(?:, (?P<hour>[^,]+?))?(?P<end>\.?)$"
)
_SAID = re.compile(r"^said: ", re.I)
_MINE = {"they are": "I am", "they": "I", "their": "my", "theirs": "mine", "them": "me", "themselves": "myself"}
_THEIRS = re.compile(r"\b(?:they are|they|their|theirs|them|themselves)\b", re.I)
_STEM = (("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("ies", "y"), ("s", ""))


def as_said(fact: str) -> str:
    """Turn "The user lives in Oslo." into "I live in Oslo."; other texts are returned unchanged."""
    match = _USER.match(fact.strip())
    if match is None:
        return fact
    if match["own"]:
        return f"My {_PLANNED.sub(_rephrase_dated_plan, match['rest'])}"
    if (noted := _SAID.match(match["rest"])) is not None:
        words = _THEIRS.sub(lambda word: _MINE[word[0].lower()], match["rest"][noted.end() :])
        return f"Remember that {words}"
    adverb = _ADVERB.match(match["rest"])
    before = adverb[0] if adverb else ""
    verb, _, after = match["rest"][len(before) :].partition(" ")
    return f"I {before}{_first_person(verb)} {_THEIRS.sub(lambda word: _MINE[word[0].lower()], after)}".strip()


def _rephrase_dated_plan(plan: re.Match[str]) -> str:
    """Rephrase a plan that is written as an event and its date."""
    day = f"from {plan['day']}" if " to " in plan["day"] else f"on {plan['day']}"
    hour = f" at {plan['hour']}" if plan["hour"] else ""
    return f"{plan['what']} is {plan['due'] or ''}{day}{hour}{plan['end']}"


def _first_person(verb: str) -> str:
    if verb in _VERBS:
        return _VERBS[verb]
    for ending, instead in _STEM:
        if verb.endswith(ending) and len(verb) > len(ending) + 1:
            return verb.removesuffix(ending) + instead
    return verb
