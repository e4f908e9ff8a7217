"""Numbers with their nouns, for messages that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextinfinity.domain.plan import PlanSection


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 turn", "1,204 turns"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(first: int, last: int, noun: str = "turn") -> str:
    """Return which of several are meant: "turn 1", "turns 1 to 3"."""
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"


def covered_turns(section: PlanSection) -> str:
    """Return which turns a section of a prompt comes from; a summary covers all turns up to its source."""
    source = section.source
    if section.name == "summary" and isinstance(source, int):
        return span(1, source)
    match source:
        case [int(first), *_, int(last)]:
            return span(first, last)
        case None | []:
            return ""
        case [single] | single:
            return f"turn {single}"


def existing_numbers(first: int, last: int, noun: str) -> str:
    """Return which numbers exist: "it has no turns yet", "its only turn is 1", "its turns are 1 to 3"."""
    if last < first:
        return f"it has no {noun}s yet"
    return f"its only {noun} is {first}" if first == last else f"its {noun}s are {first} to {last}"
