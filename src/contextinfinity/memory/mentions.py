"""Extract the people and animals that a message mentions as the user's own: "a cake for my twins".

A mention is valid in a question or a request too: a user who asks something for "my son Mateo" has a son. The
possessive words, people and animals are in the vocabulary of each language. Parents are left out: every user has some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from contextinfinity.memory.memory_findings import StatedFact, key_of
from contextinfinity.memory.third_person import sentence
from contextinfinity.text.vocabulary import LANGUAGES, words

MOST: Final = 3
"""The maximum number of mentions of one message; one with more is a story."""
_NOT_STATED: Final = re.compile(
    r"\b(?:if|imagine|suppose|pretend|wenn|si|se|he|she|they|says?|said|wrote|writes)\b[^.!?]*$|(?:^|[.!?]\s+)\w+ $",
    re.I,
)
"""What excludes a mention after it: a hypothetical, another speaker, or an order on it ("remove my dog")."""
_ENDS: Final = (
    r"(?=\s*(?:[^\w\s]|$)|\s(?:and|or|but|so|is|are|was|were|has|have|had|who|that|with|to|in|on|at|for|from|when|while"
    r"|because|as|i|we|und|oder|aber|ist|sind|hat|haben|mit|im|am|y|o|pero|es|son|tiene|con|en|et|ou|est|sont|a|e|è|ha|é"
    r"|tem|que|com|em)\b)"
)
"""Where a mention ends: not before another noun, as in "my horse painting"."""
_PLURAL: Final = re.compile(r"(?:s|children|kids)$")


@cache
def _mentions() -> re.Pattern[str]:
    """Return the pattern for all languages with spaces between words."""
    forms = []
    for language in LANGUAGES:
        rows = words(language, "first_person")
        if "kin" in rows and "owning" in rows:
            own, kin = ("|".join(sorted(map(re.escape, rows[row]))) for row in ("owning", "kin"))
            forms.append(rf"(?:{own}) (?:[\w-]+ )?(?:{kin})")
    name = r"(?P<name>,? (?-i:[A-ZÀ-Þ][a-zà-ÿ]+)(?![\w']))"
    return re.compile(rf"\b(?P<all>(?P<said>{'|'.join(forms)})(?![\w-])(?:{name}|{_ENDS}))", re.I)


def mentions_in(text: str) -> Iterator[StatedFact]:
    """Find the people and animals that a message mentions as the user's own."""
    found: set[str] = set()
    for match in _mentions().finditer(text):
        owner, *_, kin = match["said"].lower().split()
        if kin in found or len(found) == MOST or _NOT_STATED.search(text, 0, match.start()):
            continue
        found.add(kin)
        name = (match["name"] or "").strip(" ,")
        if owner in ("my", "our"):
            article = "" if _PLURAL.search(kin) else "a "
            content = f"The user has {article}{kin}{f' named {name}' if name else ''}"
        else:
            content = f"The user said: {match['all']}"
        yield StatedFact(
            content=sentence(content),
            start=match.start(),
            end=match.end(),
            kind="self",
            about=f"has:{key_of(kin)}",
            weight=3,
            confidence=0.8,
        )
