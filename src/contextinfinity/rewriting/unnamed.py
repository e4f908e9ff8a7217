"""What a text speaks of without a name: "my wife", "my flight", "the meeting with Acme"."""

from __future__ import annotations

import re

from contextinfinity.rewriting.lexicon import KIN, NOUNS
from contextinfinity.rewriting.naming import CAP, PART, Mention

_KIN = re.compile(
    rf"\b([Mm]y|[Oo]ur) (?:[a-z]+ )?({'|'.join(KIN)})\b(?!,? {CAP}| (?:is|was) (?:called |named )?{CAP}|['’])"
)
_SUBJECT = re.compile(
    rf"\W{{0,3}}(The|My|Our) ((?:{PART} )?[a-z]{{3,20}}(?: [a-z]{{3,20}})?"
    rf"(?: (?:with|from|for) {PART}(?: {PART}){{0,2}})?)"
    r" (?:is|was|has|will|leaves|starts|begins|ends|fails|failed|crashes|crashed|takes|took|does|did|costs|broke"
    r"|keeps|stops|stopped|(?:is|does|do|wo)n['’]t)(?!\w)"
    r"(?! [A-Z])"
)


def kin(text: str) -> list[Mention]:
    """Find people without a name: "my wife"."""
    return [
        Mention(
            name=match[2],
            start=match.start(2),
            end=match.end(2),
            kind="person",
            human=1.0,
            gender=KIN[match[2]],
            plural=False,
            article=match[1].lower(),
        )
        for match in _KIN.finditer(text)
    ]


def subject(text: str) -> Mention | None:
    """Find what a statement speaks of by a common word: "My flight leaves", "The meeting with Acme is"."""
    match = _SUBJECT.match(text)
    if match is None or any(NOUNS.get(word) in ("person", "function", "file") for word in match[2].split()):
        return None
    return Mention(
        name=match[2], start=match.start(2), end=match.end(2), human=0.0, plural=False, article=match[1].lower()
    )
