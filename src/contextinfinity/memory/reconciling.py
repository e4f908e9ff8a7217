"""Decide whether two facts are the same, what a new fact ends, and which memories a request to forget means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from contextinfinity.domain.memory import Memory
from contextinfinity.memory.memory_findings import ForgetRequest, StatedFact
from contextinfinity.text.keywords import terms

ALIKE = 0.8
"""The share of common words from which a model's fact is treated as known."""
_TURNED = frozenset(("not", "no", "never", "longer"))
_FILLING = re.compile(r"\b(?:going|doing|to go|to)\b ?", re.I)
_WHERE = re.compile(r" (?:in|on|at|with|by|near|during|along|around|every|after|before)\b", re.I)


def alike(one: str, other: str) -> float:
    """Return the share of common words of two facts, from 0 to 1; 0 if only one of them is negated."""
    mine, theirs = set(terms(one)), set(terms(other))
    if bool(mine & _TURNED) != bool(theirs & _TURNED):
        return 0.0
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def same(one: str, other: str) -> bool:
    """Return whether two facts are the same: equal words, or one of them adds where, when or with whom.

    Any other additional word may change the meaning: unit tests are not integration tests.
    """
    short, long = sorted((_plain(one), _plain(other)), key=len)
    if set(terms(short)) == set(terms(long)):
        return True
    return long.startswith(short) and _WHERE.match(long, len(short)) is not None


def _plain(content: str) -> str:
    return _FILLING.sub("", content.rstrip(".").lower())


def reconciled(fact: StatedFact, known: Iterable[Memory]) -> StatedFact | None:
    """Return a fact the subject key of the memory it replaces; return None if it ends a fact that is not known."""
    if fact.ends:
        return _resolve_ending(fact, known)
    if fact.kind == "plan":
        return _resolve_plan(fact, known)
    for memory in known:
        if (
            _category_of(memory.about) != _category_of(fact.about)
            or memory.kind != fact.kind
            or memory.about == fact.about
        ):
            continue
        if same(fact.content, memory.content):
            return replace(fact, about=memory.about)
    return fact


def _resolve_ending(fact: StatedFact, known: Iterable[Memory]) -> StatedFact | None:
    """Let a fact replace the memories that it ends; a note is ended by its key. Return None if there are none."""
    if fact.kind == "note" and fact.about:
        return fact if any(one.about == fact.about and one.kind == "note" for one in known) else None
    named = set(fact.named)
    ended = [one.about for one in known if _category_of(one.about) in fact.ends and named <= set(terms(one.content))]
    return replace(fact, about=ended[0], replaces=(*fact.replaces, *ended[1:])) if ended else None


def _resolve_plan(fact: StatedFact, known: Iterable[Memory]) -> StatedFact:
    """Resolve "the flight" to the only known flight."""
    words = set(fact.about.partition(":")[2].split())
    plans = {one.about for one in known if one.kind == "plan" and words <= set(one.about.partition(":")[2].split())}
    return replace(fact, about=plans.pop()) if fact.vague and fact.about not in plans and len(plans) == 1 else fact


def _category_of(about: str) -> str:
    return about.partition(":")[0]


def meant(unwanted: ForgetRequest, known: Sequence[Memory]) -> list[Memory]:
    """Return the memories that a request to forget refers to."""
    if unwanted.everything:
        return [*known]
    exact = [memory for memory in known if memory.content in unwanted.facts]
    if exact:
        return exact
    of_sort = [one for one in known if one.about in unwanted.abouts or _category_of(one.about) in unwanted.abouts]
    if of_sort := [one for one in of_sort if {*unwanted.only} <= set(terms(one.content))]:
        return of_sort
    wanted = set(unwanted.words)
    found = [memory for memory in known if wanted and wanted <= set(terms(memory.content))]
    return [memory for memory in found if bool(_TURNED & set(terms(memory.content))) == unwanted.denied]
