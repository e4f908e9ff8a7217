"""How a gguf file's model cuts texts into tokens, and which of its tokens steer it.

The tokenizers that cut bytes by merges are made again from the file, so texts are counted exactly while the model is
not loaded. Those of other kinds are not: their texts are estimated, and what the model reports corrects the estimate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BY_MERGES = "gpt2"
"""What gguf files call a tokenizer that merges bytes."""
CONTROL = 3
"""The type of tokens that are no words: they open and close messages."""

_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {
    "llama-bpe": rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_WORDS}|\p{{N}}|{_REST}",
}
"""Where a text is cut before bytes are merged, by the name that gguf files give to the rule."""
_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})
"""Rules under which a word that is a token is one, whatever the merges say."""


def is_known(values: dict[str, Any]) -> bool:
    """Tell whether this model's tokenizer can be made again."""
    rule = str(values.get("tokenizer.ggml.pre"))
    known = rule == "gpt-2" or rule in _SINGLE_DIGITS or rule in _PATTERNS
    return values.get("tokenizer.ggml.model") == BY_MERGES and known


def counting(values: dict[str, Any]) -> Callable[[str], int]:
    """Make the tokenizer of a model again, and give the function that counts a text's tokens."""
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
    """Give the pattern that finds control tokens written out in a text; None where the model has none."""
    kinds = values.get("tokenizer.ggml.token_type", [])
    tokens = zip(values.get("tokenizer.ggml.tokens", []), kinds, strict=False)
    found = sorted({token for token, kind in tokens if kind == CONTROL and len(token) > 1}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None


def plain(text: str, steering: re.Pattern[str] | None) -> str:
    """Break control tokens in a text: llama.cpp would take them for real, and a message could end itself."""
    return text if steering is None else steering.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
