"""Rebuild the tokenizer of a gguf file, and find its control tokens.

Byte-level BPE tokenizers are rebuilt from the file, so texts are counted exactly without loading the model. For other
types the count is an estimate that is corrected by what the model reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BY_MERGES = "gpt2"
"""The name of byte-level BPE tokenizers in gguf files."""
CONTROL = 3
"""The type of control tokens, which open and close messages."""

_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {
    "llama-bpe": rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_WORDS}|\p{{N}}|{_REST}",
}
"""Pre-tokenizer patterns, by the name that gguf files use."""
_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})
"""Pre-tokenizers for which a word that is a token is used before any merges."""


def is_known(values: dict[str, Any]) -> bool:
    """Return whether this model's tokenizer can be rebuilt."""
    rule = str(values.get("tokenizer.ggml.pre"))
    known = rule == "gpt-2" or rule in _SINGLE_DIGITS or rule in _PATTERNS
    return values.get("tokenizer.ggml.model") == BY_MERGES and known


def counting(values: dict[str, Any]) -> Callable[[str], int]:
    """Rebuild a model's tokenizer and return a function that counts the tokens of a text."""
    from tokenizers import Tokenizer, models

    rule = values["tokenizer.ggml.pre"]
    vocabulary = {token: place for place, token in enumerate(values["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=rule in _WHOLE_WORDS_FIRST))
    tokenizer.pre_tokenizer = _cutting(rule)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count


def _cutting(rule: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if rule in _PATTERNS:
        cut = pre_tokenizers.Split(Regex(_PATTERNS[rule]), "isolated")
        return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule in _SINGLE_DIGITS:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    return words


def controls(values: dict[str, Any]) -> re.Pattern[str] | None:
    """Return a pattern that matches control tokens in a text, or None if the model has none."""
    kinds = values.get("tokenizer.ggml.token_type", [])
    tokens = zip(values.get("tokenizer.ggml.tokens", []), kinds, strict=False)
    found = sorted({token for token, kind in tokens if kind == CONTROL and len(token) > 1}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None


def plain(text: str, steering: re.Pattern[str] | None) -> str:
    """Break control tokens in a text: llama.cpp would interpret them, and a message could end itself."""
    return text if steering is None else steering.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
