"""Token counting: exact if the model's tokenizer is public, otherwise an estimate that is calibrated by usage."""

from __future__ import annotations

from contextinfinity.text.tokens.counter import Counter, Weight, counter_of, forget, own_counter

__all__ = ["Counter", "Weight", "counter_of", "forget", "own_counter"]
