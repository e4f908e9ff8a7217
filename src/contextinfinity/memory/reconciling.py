"""Whether two facts say the same, and which memories somebody wants to be forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from contextinfinity.domain.memory import Memory
from contextinfinity.memory.values import Told, Unwanted
from contextinfinity.text.keywords import terms

ALIKE = 0.8
"""The share of their words from which two facts of one sort are one."""
_TURNED = frozenset(("not", "no", "never", "longer"))


def alike(one: str, other: str) -> float:
    """Tell how much of what two facts say is the same, from 0 to 1; nothing where one denies what the other says."""
    mine, theirs = set(terms(one)), set(terms(other))
    if bool(mine & _TURNED) != bool(theirs & _TURNED):
        return 0.0
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def settled(told: Told, known: Iterable[Memory]) -> Told:
    """Name a fact as one is named that says much the same: so the newer takes the older's place."""
    sort = told.about.partition(":")[0]
    for memory in known:
        if memory.about.partition(":")[0] != sort or memory.kind != told.kind or told.kind == "plan":
            continue
        if memory.about != told.about and alike(told.content, memory.content) >= ALIKE:
            return replace(told, about=memory.about)
    return told


def meant(unwanted: Unwanted, known: Sequence[Memory]) -> list[Memory]:
    """Choose the memories that are to be forgotten."""
    if unwanted.everything:
        return [*known]
    exact = [memory for memory in known if memory.content in unwanted.facts]
    if exact:
        return exact
    wanted = set(unwanted.words)
    return [memory for memory in known if wanted and wanted <= set(terms(memory.content))]
