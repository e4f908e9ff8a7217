"""How long something is for a model: exact where its tokenizer is public, otherwise an estimate that learns."""

from __future__ import annotations

from contextinfinity.text.tokens.counter import Counter, Weight, counter_of, forget, own_counter

__all__ = ["Counter", "Weight", "counter_of", "forget", "own_counter"]
