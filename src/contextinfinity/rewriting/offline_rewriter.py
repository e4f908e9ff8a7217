"""The rewriter without a model: precision first.

    he, she, his, her    in a question, replaced by the name if exactly one person is certainly meant; may be shown
    several candidates   named together and equally likely: the caller may ask for clarification
    anything else        the message is unchanged; words of the conversation are used for the search only

A message without references that names its subject is unchanged and gets no search words.
"""

from __future__ import annotations

from typing import Final

from contextinfinity.rewriting.ambiguity import AmbiguousReference, ambiguous_reference
from contextinfinity.rewriting.antecedents import candidates, certain
from contextinfinity.rewriting.clarification import asking, described
from contextinfinity.rewriting.contract import FollowUp, Rewritten
from contextinfinity.rewriting.names import Gender, mentions
from contextinfinity.rewriting.open_references import Reference, is_open, put, references
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.rewriting.reference_context import ReferenceContext, ReferredThing, low_words
from contextinfinity.rewriting.search_terms import search_terms
from contextinfinity.text.vocabulary import words

LONGEST: Final = 600
"""Longer messages are not rewritten: they name their subject."""
ENTITIES: Final = 20
"""The maximum number of entities in the result, most recently named first."""

_SMALL_TALK: Final = words("en", "plain")["small_talk"]


class OfflineRewriter:
    """A ``Rewriter`` by rules, without a model or network."""

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Rewrite a message if its meaning is certain."""
        message = follow_up.latest_user_message
        if not message.strip() or not (follow_up.recent_history or follow_up.memory_snippet):
            return Rewritten(query=message)
        conversation = ReferenceContext.of(follow_up.recent_history, follow_up.memory_snippet)
        entities = tuple(described(thing) for thing in conversation.ranked()[:ENTITIES])
        if len(message) > LONGEST or "```" in message or low_words(message) <= _SMALL_TALK:
            return Rewritten(query=message, entities=entities)
        found = references(message)
        thing, doubt = _person(message, found, conversation)
        doubt = doubt or (None if thing else ambiguous_reference(message, found, conversation))
        terms = search_terms(message, conversation) if _is_follow_up(message) else ()
        if doubt is not None:
            names = tuple(name for one in doubt.candidates for name in one.name.split())
            return Rewritten(
                query=message,
                terms=tuple(dict.fromkeys((*names, *terms))),
                entities=entities,
                is_ambiguous=True,
                disambiguation_data=asking(doubt),
            )
        query = message if thing is None else _put_in(message, thing)
        return Rewritten(query=query, terms=terms, entities=entities)


def _person(
    message: str, found: list[Reference], conversation: ReferenceContext
) -> tuple[ReferredThing | None, AmbiguousReference | None]:
    """Return the person that "he" or "she" certainly means, or the ambiguity; neither if the message names one
    first.
    """
    first = next((one for one in found if one.points in ("he", "she")), None)
    used = {one.points for one in found if one.points in ("he", "she")}
    if first is None or len(used) > 1:
        return None, None
    if any(one.may_be_person and one.start < first.start for one in mentions(message)):
        return None, None
    pronoun: Gender = "he" if first.points == "he" else "she"
    scored = candidates(conversation, pronoun)
    thing = certain(scored, conversation, pronoun)
    if thing is None:
        return None, ambiguous_reference(message, found, conversation)
    return (thing if asks(message) and thing.name not in message else None), None


def _put_in(message: str, thing: ReferredThing) -> str:
    """Replace the first personal pronoun by the person's name."""
    first = next(one for one in references(message) if one.points in ("he", "she"))
    return put(message, first, [thing.name])


def _is_follow_up(message: str) -> bool:
    """Return whether a message may omit something."""
    names = [one.start for one in mentions(message) if one.kind in ("person", "file", "function")]
    return is_open(message, min(names, default=None))
