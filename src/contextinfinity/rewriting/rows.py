"""Things named in one breath: "Alice, Bob and Carol", and what only says where another lies: "Paris, France"."""

from __future__ import annotations

import re

from contextinfinity.rewriting.lexicon import KIN, NOUNS, Kind
from contextinfinity.rewriting.naming import Mention
from contextinfinity.rewriting.things import COUNTED, MAYBE_HUMAN, Thing

_AND = re.compile(r"[\"”'’)]?(?:,? (?:and|or|und|et|y|vs\.?|versus|&) |, )[\"“'‘]?(?:the )?")
_A_KIND = re.compile(r"\ban? (?:[a-z]+ )?$")
"""What stands before a word that names a kind: "for a web API, Flask or FastAPI"."""
_CONJUNCTION = re.compile(r"\b(?:and|or|und|et|y|vs|versus)\b|&")
_PLURALS = re.compile(r"\b([a-z]{3,20})s\b|\b(?:which|what|or|either) ([a-z]{3,20})\b")
_PART_OF = re.compile(
    r", | near (?:the )?| next to (?:the )?"
    r"| – |-|[^.!?]{0,30}\b(?:capital|city|town|part|state|region|border) (?:of|in) (?:the )?"
)
_PAIR = 2
_CAPITAL_OF = re.compile(r"\b(?:capital|part|city|town) (?:of|in) (?:the )?$")


def row(text: str, named: list[tuple[Mention, Thing]]) -> list[Thing]:
    """Give the last row of a text, and mark parts; who made a thing only goes with it: "Emma by Jane Austen"."""
    if len(named) < 2:
        return []
    (before, last), *others = named
    if _CAPITAL_OF.search(text[max(0, before.start - 30) : before.start]):
        last.is_part = True  # "the capital of Australia is Canberra"
    group: list[Thing] = []
    run, behind = [last], before.end
    for here, thing in others:
        between, behind = text[behind : here.start], here.end
        if between == " by ":
            continue
        alike = _alike(last, thing) or (before.noun in NOUNS and before.noun.endswith("s"))
        joined = alike and thing not in run and _AND.fullmatch(between) is not None
        joined = joined and not (between == ", " and _A_KIND.search(text[max(0, before.start - 20) : before.start]))
        _mark_parts(last, thing, between)
        run = [*run, thing] if joined else [thing]
        if joined and _CONJUNCTION.search(between):
            group = run
            if len(run) > _PAIR:
                for member in run[1:]:
                    member.is_part = False  # in "Vienna, Prague and Budapest" none lies in another
            _call(run, text[max(0, before.start - 40) : here.end + 25])
        before, last = here, thing
    return group


def _mark_parts(one: Thing, other: Thing, between: str) -> None:
    """Mark what only says more of another: "Paris, France", "Physics" in "the Nobel Prize in Physics"."""
    kinds = {one.kind, other.kind}
    if between == " to " and kinds == {"place"}:
        one.is_part = True  # who moved from there is there no longer
    if other.kind == "place" and _CAPITAL_OF.search(between):
        other.is_part = True
    if (between == " to " and kinds == {"date"}) or (between == " in " and other.kind == "thing"):
        other.is_part = True
    if other.kind in ("place", "date") and _alike(one, other) and _PART_OF.fullmatch(between):
        other.is_part = True


def _alike(one: Thing, other: Thing) -> bool:
    """Tell whether two things may stand in one row."""
    kinds = {one.kind, other.kind}
    unknown = "thing" in kinds and not kinds & set(COUNTED)
    return one.kind == other.kind or unknown or min(one.human, other.human) >= MAYBE_HUMAN


def _call(things: list[Thing], around: str) -> None:
    """Let things named together be what the words beside them say: "the books Dune and Emma"; and all of one kind."""
    nouns = [match[1] or match[2] for match in _PLURALS.finditer(around.lower())]
    noun = next((noun for noun in nouns if noun in KIN or NOUNS.get(noun, "date") not in COUNTED), "")
    told: list[Kind] = (
        [NOUNS.get(noun, "person")] if noun else [thing.kind for thing in things if thing.kind != "thing"]
    )
    for thing in things:
        if noun in KIN:
            thing.kind, thing.human, thing.gender = "person", 0.95, KIN[noun] or thing.gender
        elif told and told[0] != "person" and not thing.is_sure and (noun or thing.kind == "thing"):
            thing.kind, thing.human, thing.gender = told[0], 0.05, ""
        if noun:
            thing.nouns.add(noun)
