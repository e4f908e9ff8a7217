"""When to ask back: several things were named together, a message means one of them, and nothing decides."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from contextinfinity.rewriting.names import Mention, mentions
from contextinfinity.rewriting.open_references import Reference
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.rewriting.reference_context import ReferenceContext, ReferredThing

CHOICES: Final = 8
"""Candidates that a question back may have."""
SHORT: Final = 8
"""Words of a message that is no question; a longer one tells something."""
LONG: Final = 25
"""Words of a question; a longer one says what it is about."""
NEAR: Final = 2
"""Turns back to the one that names the candidates."""
_FOR_IT: Final = ("thing", "organisation", "work", "file", "function")


class AmbiguousReference(Struct, frozen=True, kw_only=True):
    """A reference that may mean several things, in the order in which they were named."""

    reference: str
    candidates: tuple[ReferredThing, ...]


def doubt_about(message: str, found: list[Reference], conversation: ReferenceContext) -> AmbiguousReference | None:
    """Return the first reference that may mean several things; None where nothing is open or too much is."""
    if len(message.split()) > (LONG if asks(message) else SHORT):
        return None
    named = mentions(message)
    for reference in found:
        if any(_fits(mention, reference) for mention in named):
            continue  # the message itself names what it may mean
        rivals = _rivals(reference, conversation)
        if 1 < len(rivals) <= CHOICES:
            return AmbiguousReference(
                reference=reference.text, candidates=tuple(sorted(rivals, key=lambda thing: thing.order))
            )
    return None


def _rivals(reference: Reference, conversation: ReferenceContext) -> list[ReferredThing]:
    """Return the things of the newest turn with any that fit; of them those that were named in the most turns."""
    fitting = [thing for thing in conversation.things if _fits(thing, reference)]
    if reference.points == "there" and not fitting:  # "How many people work there?"
        fitting = [thing for thing in conversation.things if thing.kind in ("organisation", "thing")]
    newest = max((thing.last for thing in fitting), default=-1)
    if newest < 0 or newest <= conversation.newest - NEAR:
        return []
    near = [thing for thing in fitting if thing.last == newest]
    if reference.points in ("he", "she") and any(thing.is_person for thing in near):
        near = [thing for thing in near if thing.is_person]
    most = max(len({*thing.turns}) for thing in near)
    rivals = [thing for thing in near if len({*thing.turns}) == most]
    code = ("file", "function")
    alike = {thing.kind if thing.kind in code else "" for thing in rivals}
    return rivals if len(alike) == 1 else []


def _fits(thing: ReferredThing | Mention, reference: Reference) -> bool:
    match reference.points:
        case "he" | "she":
            return thing.may_be_person and thing.gender in ("", reference.points)
        case "it":
            return thing.kind in _FOR_IT and not thing.is_person
        case "there":
            return thing.kind == "place"
        case "then":
            return thing.kind == "date"
        case "noun":
            return _is_called(thing, reference)
        case _:
            return False


def _is_called(thing: ReferredThing | Mention, reference: Reference) -> bool:
    """Return whether a noun can stand for a thing: its kind, or a name of which no kind is known."""
    if reference.kind in ("place", "date", "file", "function", "person"):
        return thing.kind == reference.kind
    return thing.kind == reference.kind or (thing.kind == "thing" and reference.kind in ("organisation", "work"))
