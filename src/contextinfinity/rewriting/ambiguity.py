"""Decide when to ask for clarification: several things were named together, and the message may mean any of them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from contextinfinity.rewriting.names import Mention, mentions
from contextinfinity.rewriting.open_references import Reference
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.rewriting.reference_context import ReferenceContext, ReferredThing

CHOICES: Final = 8
"""The maximum number of candidates of a clarification."""
SHORT: Final = 8
"""The maximum number of words of a message that is not a question; a longer one makes a statement."""
LONG: Final = 25
"""The maximum number of words of a question; a longer one names its subject."""
NEAR: Final = 2
"""The maximum distance in turns to the one that names the candidates."""
_FOR_IT: Final = ("thing", "organisation", "work", "file", "function")


class AmbiguousReference(Struct, frozen=True, kw_only=True):
    """A reference that may mean several things, in the order in which they were named."""

    reference: str
    candidates: tuple[ReferredThing, ...]


def ambiguous_reference(
    message: str, found: list[Reference], conversation: ReferenceContext
) -> AmbiguousReference | None:
    """Return the first ambiguous reference; None if there is none, or if there are too many candidates."""
    if len(message.split()) > (LONG if asks(message) else SHORT):
        return None
    named = mentions(message)
    for reference in found:
        if any(_fits(mention, reference) for mention in named):
            continue  # the message itself names the referent
        rivals = _rivals(reference, conversation)
        if 1 < len(rivals) <= CHOICES:
            return AmbiguousReference(
                reference=reference.text, candidates=tuple(sorted(rivals, key=lambda thing: thing.order))
            )
    return None


def _rivals(reference: Reference, conversation: ReferenceContext) -> list[ReferredThing]:
    """Return the matching things of the newest turn that has any; of these, the ones named in the most turns."""
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
            return _noun_fits(thing, reference)
        case _:
            return False


def _noun_fits(thing: ReferredThing | Mention, reference: Reference) -> bool:
    """Return whether a noun can refer to a thing: it names its kind, or a name of unknown kind."""
    if reference.kind in ("place", "date", "file", "function", "person"):
        return thing.kind == reference.kind
    return thing.kind == reference.kind or (thing.kind == "thing" and reference.kind in ("organisation", "work"))
