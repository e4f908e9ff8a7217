"""What a message tells of who says it: facts for which there is a phrase, plans with a day, and what is asked for.

In goes what a user said and when; out come sentences about them, each with the place of the words it rests on. Nothing
is guessed: without a phrase that says so there is no fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from contextinfinity.memory.guards import Stated, is_meant, statements
from contextinfinity.memory.phrases import ROWS, Row
from contextinfinity.memory.plans import plans_in
from contextinfinity.memory.requests import request_in, unwanted_in
from contextinfinity.memory.values import Drawn, Told, Unwanted, When, key_of
from contextinfinity.memory.wording import of_the_user, sentence, thing

MOST = 12
"""Facts that one message may tell; what tells more is a form or a list."""
_HERE = re.compile(r"\b(?:in|for|during) this (?:chat|thread|conversation|session)\b", re.I)
_LONGEST_THING = 9
"""Words; more is a story."""


def draw(message: str, said_at: datetime, when: When) -> Drawn:
    """Draw what a user tells of themselves, and what they want to be forgotten."""
    told: dict[str, Told] = {}
    unwanted: list[Unwanted] = []
    for stated in statements(message):
        if (taken_back := unwanted_in(stated.text)) is not None:
            facts = tuple(fact.content for fact in _told(taken_back[1]))
            unwanted.append(replace(taken_back[0], facts=facts))
            continue
        for fact in _facts(stated, said_at, when):
            told.setdefault(fact.about or fact.content, fact)
    return Drawn(told=tuple(told.values())[:MOST], unwanted=tuple(unwanted))


def _facts(stated: Stated, said_at: datetime, when: When) -> Iterator[Told]:
    request = request_in(stated.text)
    found = [*plans_in(stated.text, said_at, when)] or [*_told(stated.text)]
    if request is not None:
        found = [fact for fact in found if fact.start >= request.start] or [request]
    here = _HERE.search(stated.text) is not None
    for fact in found:
        start, end = stated.span(fact.start, fact.end)
        fact = replace(fact, start=start, end=end, here=here)
        yield fact if request is None else replace(fact, origin="asked", confidence=1.0, weight=max(fact.weight, 6))


def _told(text: str) -> Iterator[Told]:
    taken: list[tuple[int, int]] = []
    for row in ROWS:
        for match in row.pattern.finditer(text):
            start, end = match.span()
            if any(start < last and first < end for first, last in taken) or not is_meant(text, start, end):
                continue
            facts = [*_of(row, match)]
            if facts and row.kind != "self":
                taken.append((start, end))
            yield from facts


def _of(row: Row, match: re.Match[str]) -> Iterator[Told]:
    """Make the facts of one match; what is listed after one verb is several."""
    named = {name[0]: value for name, value in match.groupdict().items() if value is not None}
    whole = thing(named.get("x", ""))
    parts = _listed(whole) if "{k}" in row.about and row.about != "prefer" else [whole]
    for part in parts:
        if not part or len(part.split()) > _LONGEST_THING or row.never.search(part) or '"' in part:
            continue
        forms = {name: of_the_user(thing(value)) for name, value in named.items()}
        forms["x"] = _cased(of_the_user(part), row)
        forms["n"] = named.get("n", "").lower()
        forms["p"] = named.get("p", "").lower().replace("favorite", "favourite")
        forms["k"] = key_of(part)
        if not forms["k"]:
            continue
        about = row.about.format_map(forms)
        replaces: tuple[str, ...] = ()
        if about == "prefer":
            about = "prefer:" + "|".join(sorted((forms["k"], key_of(forms["y"]))))
        elif "y" in forms:
            replaces = (f"{about.partition(':')[0]}:{key_of(forms['y'])}",)
        yield _fact(match, row, row.fact.format_map(forms), about, replaces)
    if "e" in named:
        yield _fact(match, row, f"The user works at {thing(named['e'])}", "employer")
    if "j" in named:
        yield _fact(match, row, f"The user works as {thing(named['j'])}", "job")


def _fact(match: re.Match[str], row: Row, content: str, about: str, replaces: tuple[str, ...] = ()) -> Told:
    start, end = match.span()
    return Told(
        content=sentence(content),
        start=start,
        end=end,
        kind=row.kind,
        about=about,
        replaces=replaces,
        weight=row.weight,
    )


def _listed(text: str) -> list[str]:
    """Part "nuts and shellfish"; "rock and roll" and longer phrases stay together."""
    parts = re.split(r"\s+(?:and|or)\s+|\s*&\s*", text)
    short = all(1 <= len(part.split()) <= 2 for part in parts)
    return [thing(part) for part in parts] if short and len(parts) <= 4 and "roll" not in text else [text]


def _cased(text: str, row: Row) -> str:
    """Write a place that was typed small with a capital."""
    return text.title() if row.about in ("home", "from", "name") and text.islower() and len(text.split()) <= 2 else text
