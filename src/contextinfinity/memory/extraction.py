"""Extract facts about a user from a message: by phrases, dated plans, and explicit requests to remember.

The input is a user's message and its time; the output are sentences about the user, each with the position of its
source. Nothing is guessed: without a matching phrase there is no fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from contextinfinity.memory.grammar import habits_in
from contextinfinity.memory.guards import LONGEST_SENTENCE, Stated, is_meant, mentioning, statements, with_subject
from contextinfinity.memory.memory_findings import ExtractedMemories, ForgetRequest, StatedFact, When, key_of
from contextinfinity.memory.mentions import mentions_in
from contextinfinity.memory.other_languages import quoted_in
from contextinfinity.memory.plans import plans_in
from contextinfinity.memory.rendering import as_said
from contextinfinity.memory.requests import forget_request_in, is_off_record, is_order, request_in
from contextinfinity.memory.table import TABLE, Row
from contextinfinity.memory.third_person import LONGEST, sentence, thing, to_third_person

LONGEST_TALK = 1_500
"""A longer message may be pasted text, so that only the phrase table is applied to it."""
MOST = 12
"""The maximum number of facts of a message; one with more is a form or a list."""
_HERE = re.compile(r"\b(?:in|for|during) this (?:chat|thread|conversation|session)\b", re.I)
_AROUND = re.compile(r"\s+(?:for|to|from|due to|thanks to|and \w+ed)\s.*$", re.I)
"""The reason for a move, which is not part of the place."""
_CLAIMS = re.compile(r"\"|\b(?:is|are|was|were)\b", re.I)
"""A match with more statements inside is a title or a text, not a thing."""
_NOT_THAT = re.compile(r",? (?:and )?not (?:in |at |to |an? |the )?(?P<y>[\w' -]{2,40}?)(?: any ?more)?[.!]*$", re.I)
"""A negated alternative right after a statement: ", not in Rome"."""
_SOME = re.compile(r"^(?:a bit of|a little|some) ", re.I)
_OPPOSITE = {"eats:{k}": "like", "like:{k}": "eats"}
"""Facts that contradict each other: not drinking coffee and liking it."""
_HABITAT = re.compile(
    r"\b(?:village|town|city|house|flat|apartment|countryside|suburbs?|farm|dorm|studio|cottage|island|mountains|coast"
    r"|north|south|east|west|neighbou?rhood|district|shared flat|camper ?van|houseboat|capital)\b",
    re.I,
)
"""Common nouns for places where people live."""
_LONGEST_THING = 9
"""The maximum number of words of a thing; a longer match is a story."""


def extract_facts(message: str, said_at: datetime, when: When) -> ExtractedMemories:
    """Extract what a user states about themselves, and what they want forgotten."""
    by_key: dict[str, StatedFact] = {}
    unwanted: list[ForgetRequest] = []
    off_record, is_long = is_off_record(message), len(message) > LONGEST_TALK
    for stated in statements(message):
        if (taken_back := forget_request_in(stated.text)) is not None:
            facts = tuple(fact.content for fact in facts_in(taken_back[1]))
            unwanted.append(replace(taken_back[0], facts=facts))
            continue
        for fact in () if off_record else _facts(stated, said_at, when, is_long=is_long):
            by_key.setdefault(fact.about or fact.content, fact)
    for fact in () if off_record or is_long else mentions_in(mentioning(message)):
        if not any(fact.start < each.end and each.start < fact.end for each in by_key.values()):
            by_key.setdefault(fact.about, fact)
    said = {fact.about for fact in by_key.values() if not fact.ends}
    kept = [fact for fact in by_key.values() if not said & set(fact.ends)]  # "I left Acme, I'm at Bosch": keep Bosch
    return ExtractedMemories(facts=tuple(kept[:MOST]), unwanted=tuple(unwanted))


def facts_in(text: str) -> list[StatedFact]:
    """Extract facts from a sentence: by the phrase table, then by the grammar, otherwise as a quotation."""
    found = [*_table_facts(text)]
    found += [
        fact
        for fact in habits_in(text)
        if is_meant(text, fact.start, fact.end)
        and not any(one.start < fact.end and fact.start < one.end for one in found)
    ]
    return found or [*quoted_in(text)]


def _facts(stated: Stated, said_at: datetime, when: When, *, is_long: bool) -> Iterator[StatedFact]:
    request = request_in(stated.text)
    if request is not None:
        found = _facts_of_request(stated.text, request, said_at, when)
    elif len(stated.text) > LONGEST_SENTENCE or is_order(stated.text):
        return
    else:
        read = [*_table_facts(stated.text)] if is_long else facts_in(stated.text)
        found = [*plans_in(stated.text, said_at, when)] or read
    here = _HERE.search(stated.text) is not None
    for fact in found:
        start, end = stated.span(fact.start, fact.end)
        fact = replace(fact, start=start, end=end, here=here)
        yield fact if request is None else replace(fact, origin="asked", confidence=1.0, weight=max(fact.weight, 6))


def _facts_of_request(text: str, request: StatedFact, said_at: datetime, when: When) -> list[StatedFact]:
    """Return the facts in a request to remember; if they cover less than half of it, also the request itself as a
    note.
    """
    words = text[request.start : request.end]
    found = [*plans_in(words, said_at, when)] or facts_in(words) if len(words) <= LONGEST_SENTENCE else []
    found = [replace(each, start=each.start + request.start, end=each.end + request.start) for each in found]
    said = sum(each.end - each.start for each in found)
    return found if 2 * said >= len(words) else [*found, request]


def _table_facts(text: str) -> Iterator[StatedFact]:
    text = with_subject(text)
    taken: list[tuple[int, int]] = []
    for row in TABLE:
        for match in row.pattern.finditer(text):
            start, end = match.span()
            if any(start < last and first < end for first, last in taken) or not is_meant(text, start, end):
                continue
            facts = [*_facts_of_match(row, match)]
            if facts and row.kind != "self":
                taken.append((start, end))
            yield from facts


def _facts_of_match(row: Row, match: re.Match[str]) -> Iterator[StatedFact]:
    """Yield the facts of one match; a list after one verb yields several."""
    named = {name[0]: value for name, value in match.groupdict().items() if value is not None}
    whole = thing(named.get("x", ""))
    parts = _split_list(whole) if "{k}" in row.about and row.about != "prefer" else [whole]
    for part in parts:
        if row.about == "home":
            part = _AROUND.sub("", part)
            if not _is_place(part, match.string):
                continue
        if not part or len(part.split()) > _LONGEST_THING or row.never.search(part) or _CLAIMS.search(part):
            continue
        forms = {name: to_third_person(thing(value)) for name, value in named.items()}
        forms["x"] = _capitalised_place(to_third_person(part), row)
        forms["n"] = named.get("n", "").lower()
        forms["p"] = named.get("p", "").lower().replace("favorite", "favourite").replace("color", "colour")
        forms["v"] = "smoke" if forms.get("v") == "smok" else forms.get("v", "")
        forms["k"] = key_of(part)
        if not forms["k"] and "/" not in part:
            continue
        about = row.about.format_map(forms)
        replaces: tuple[str, ...] = ()
        if about == "prefer":
            about = "prefer:" + "|".join(sorted((forms["k"], key_of(forms["y"]))))
        elif row.about in _OPPOSITE:
            replaces = (f"{_OPPOSITE[row.about]}:{forms['k']}",)
        elif about == "diet" and row.fact.startswith("The user eats"):
            replaces = tuple(f"eats:{key}" for key in forms["k"].split())
        elif otherwise := _NOT_THAT.match(match.string, match.end()):
            replaces = (f"{about.rpartition(':')[0]}:{key_of(otherwise['y'])}",) if ":" in about else ()
        elif "y" in forms:
            replaces = (f"{about.partition(':')[0]}:{key_of(forms['y'])}",)
        fact = _fact(match, row, row.fact.format_map(forms), about, replaces)
        if len(fact.content) <= LONGEST:
            yield replace(fact, ends=row.ends, named=tuple(forms["k"].split()) if row.ends else ())
    if "e" in named:
        yield _fact(match, row, f"The user works at {thing(named['e'])}", "employer")
    if "j" in named:
        yield _fact(match, row, f"The user works as {thing(named['j'])}", "job")


def _fact(match: re.Match[str], row: Row, content: str, about: str, replaces: tuple[str, ...] = ()) -> StatedFact:
    start, end = match.span()
    return StatedFact(
        content=sentence(content),
        start=start,
        end=end,
        kind=row.kind,
        about=about,
        replaces=replaces,
        weight=row.weight,
    )


def _split_list(text: str) -> list[str]:
    """Split "nuts and shellfish"; "rock and roll", "to cook and bake" and longer phrases are not split."""
    if text.startswith("to "):
        return [text]
    parts = re.split(r"\s+(?:and|or)\s+|\s*&\s*", text)
    parts = [_SOME.sub("", part) for part in parts]
    lengths = {len(part.split()) for part in parts}  # "electronic and rock music" are two kinds of music
    alike = lengths <= {1} or lengths == {2}
    return [thing(part) for part in parts] if alike and len(parts) <= 4 and "roll" not in text else [text]


def _is_place(text: str, said: str) -> bool:
    """Return whether a text is a place to live: capitalised, or a kind of home; lower case only if the message is."""
    named = re.sub(r"^(?:the|la|le|el|den|der) ", "", text)
    small = said[1:].replace(" I ", " i ").replace("I'", "i'").islower()
    return (
        named[:1].isupper()
        or _HABITAT.search(text) is not None
        or (small and named == text and not text.startswith(("a ", "an ")) and len(text.split()) <= 2)
    )


def about_of(content: str) -> str:
    """Return the subject key of a sentence about the user; empty if no phrase matches."""
    return next((fact.about for fact in facts_in(as_said(content)) if not fact.ends), "")


def _capitalised_place(text: str, row: Row) -> str:
    """Capitalise a place that was typed in lower case."""
    if text.startswith(("a ", "an ", "the ")):
        return text
    return text.title() if row.about in ("home", "from", "name") and text.islower() and len(text.split()) <= 2 else text
