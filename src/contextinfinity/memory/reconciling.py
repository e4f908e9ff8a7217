"""Whether two facts say the same, what a new one ends, and which memories somebody wants to be forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from contextinfinity.domain.memory import Memory
from contextinfinity.memory.memory_findings import ForgetRequest, StatedFact
from contextinfinity.text.keywords import terms

ALIKE = 0.8
"""The share of their words from which a model's fact is one that is known."""
_TURNED = frozenset(("not", "no", "never", "longer"))
_FILLING = re.compile(r"\b(?:going|doing|to go|to)\b ?", re.I)
_WHERE = re.compile(r" (?:in|on|at|with|by|near|during|along|around|every|after|before)\b", re.I)


def alike(one: str, other: str) -> float:
    """Tell how much of what two facts say is the same, from 0 to 1; nothing where one denies what the other says."""
    mine, theirs = set(terms(one)), set(terms(other))
    if bool(mine & _TURNED) != bool(theirs & _TURNED):
        return 0.0
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def same(one: str, other: str) -> bool:
    """Tell whether two facts are one: in the same words, or one of them adds where, when or with whom.

    A word more may make it another thing: unit tests are no integration tests.
    """
    short, long = sorted((_plain(one), _plain(other)), key=len)
    if set(terms(short)) == set(terms(long)):
        return True
    return long.startswith(short) and _WHERE.match(long, len(short)) is not None


def _plain(content: str) -> str:
    return _FILLING.sub("", content.rstrip(".").lower())


def settled(told: StatedFact, known: Iterable[Memory]) -> StatedFact | None:
    """Name a fact as the one is named whose place it takes; None where it ends what nobody knows."""
    if told.ends:
        return _ending(told, known)
    if told.kind == "plan":
        return _planned(told, known)
    for memory in known:
        if _sort(memory.about) != _sort(told.about) or memory.kind != told.kind or memory.about == told.about:
            continue
        if same(told.content, memory.content):
            return replace(told, about=memory.about)
    return told


def _ending(told: StatedFact, known: Iterable[Memory]) -> StatedFact | None:
    """Let it take the place of what it ends; what was to be remembered is ended by name."""
    if told.kind == "note" and told.about:
        return told if any(one.about == told.about and one.kind == "note" for one in known) else None
    named = set(told.named)
    ended = [one.about for one in known if _sort(one.about) in told.ends and named <= set(terms(one.content))]
    return replace(told, about=ended[0], replaces=(*told.replaces, *ended[1:])) if ended else None


def _planned(told: StatedFact, known: Iterable[Memory]) -> StatedFact:
    """Take "the flight" for the one flight that is known."""
    words = set(told.about.partition(":")[2].split())
    plans = {one.about for one in known if one.kind == "plan" and words <= set(one.about.partition(":")[2].split())}
    return replace(told, about=plans.pop()) if told.vague and told.about not in plans and len(plans) == 1 else told


def _sort(about: str) -> str:
    return about.partition(":")[0]


def meant(unwanted: ForgetRequest, known: Sequence[Memory]) -> list[Memory]:
    """Choose the memories that are to be forgotten."""
    if unwanted.everything:
        return [*known]
    exact = [memory for memory in known if memory.content in unwanted.facts]
    if exact:
        return exact
    of_sort = [one for one in known if one.about in unwanted.abouts or _sort(one.about) in unwanted.abouts]
    if of_sort := [one for one in of_sort if {*unwanted.only} <= set(terms(one.content))]:
        return of_sort
    wanted = set(unwanted.words)
    found = [memory for memory in known if wanted and wanted <= set(terms(memory.content))]
    return [memory for memory in found if bool(_TURNED & set(terms(memory.content))) == unwanted.denied]
