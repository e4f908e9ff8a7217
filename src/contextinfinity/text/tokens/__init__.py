"""How long something is for a model: exact where its tokenizer is public, otherwise an estimate that learns."""

from __future__ import annotations

from contextinfinity.domain.message import Message
from contextinfinity.text.tokens.counter import Counter, counter_of
from contextinfinity.text.tokens.encodings import CHARACTERS_A_TOKEN, estimate
from contextinfinity.text.tokens.pieces import pieces

__all__ = ["CHARACTERS_A_TOKEN", "Counter", "counter_of", "estimate", "estimate_message"]


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message by its length, its tool calls and results included."""
    return sum(
        part if isinstance(part, int) else estimate(part) for part in pieces(message) if isinstance(part, int | str)
    )
