"""Classify a sentence as a decision, a constraint, a preference or an open question.

Only clear phrases are recognised, because binding entries outlive all others. A sentence without one is a note, which
is kept or dropped by its score.
"""

from __future__ import annotations

from contextinfinity.librarian.digest import Kind
from contextinfinity.librarian.summary_vocabulary import CUES, PHRASES
from contextinfinity.text.own_words import main_clause
from contextinfinity.text.sentences import asks


def kind_of(sentence: str, words: frozenset[str], *, assistant: bool = False) -> Kind:
    """Return the kind of a statement with these words; ``fact`` without a clear phrase.

    A question is not binding, nor is a statement that the user attributes to others.
    """
    if asks(sentence):
        return "fact"
    if CUES["question"].is_in(sentence, words):
        return "question"
    if assistant:
        return "decision" if CUES["assistant_decision"].is_in(sentence, words) else "fact"
    sentence = main_clause(sentence)
    if CUES["decision"].is_in(sentence, words) and not PHRASES["unsure"].search(sentence):
        return "decision"
    if CUES["constraint"].is_in(sentence, words) and not any(
        PHRASES[each].search(sentence) for each in ("tale", "unsure")
    ):
        return "constraint"
    return "preference" if CUES["preference"].is_in(sentence, words) else "fact"
