"""Token counts of the fake: four characters a token, and how much of a prompt the vendor would have cached."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from contextinfinity_testing.vendors.answers import Answer, Tokens
from contextinfinity_testing.vendors.wire import Part, arguments

CHARACTERS = 4
SMALLEST = 1024
"""Tokens that a prefix needs to be cached."""
STEP = 128
"""OpenAI counts cached tokens in these."""
LOOK_BACK = 20
"""Blocks before a marker at which Anthropic still finds an earlier entry."""


def tokens(text: str) -> int:
    """Count a text."""
    return -(-len(text) // CHARACTERS)


def prompt_tokens(parts: Sequence[Part]) -> int:
    """Count a prompt."""
    return sum(tokens(part.said) for part in parts)


def answer_tokens(answer: Answer) -> tuple[int, int]:
    """Return the token counts of an answer: in all, and of its reasoning."""
    thought = answer.usage.reasoning
    if thought is None:
        thought = tokens(answer.reasoning or "")
    said = answer.said + (answer.refusal or "")
    called = sum(tokens(call.name + arguments(call.arguments)) for call in answer.tool_calls)
    whole = answer.usage.output
    return (tokens(said) + called + thought if whole is None else whole), thought


class Cache:
    """Remembers the beginnings of the prompts it has seen, for each model."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, bytes]] = set()

    def automatic(self, model: str, parts: Sequence[Part]) -> Tokens:
        """Count as OpenAI does: the longest beginning of an earlier prompt, in steps, without being asked."""
        ends = _ends(parts)
        known = [size for mark, size in ends if (model, mark) in self._seen]
        longest = max(known, default=0)
        self._seen.update((model, mark) for mark, _ in ends)
        cached = longest // STEP * STEP if longest >= SMALLEST else 0
        return Tokens(input=prompt_tokens(parts), cached=cached)

    def marked(self, model: str, parts: Sequence[Part]) -> Tokens:
        """Count as Anthropic does: up to a marker, read where an entry ends at or shortly before one, else written."""
        ends = _ends(parts)
        marks = [i for i, part in enumerate(parts) if part.marker is not None and ends[i][1] >= SMALLEST]
        read = max((self._found(model, ends, i) for i in marks), default=0)
        written = max((ends[i][1] for i in marks), default=0)
        self._seen.update((model, ends[i][0]) for i in marks)
        return Tokens(input=prompt_tokens(parts), cached=read, written=max(0, written - read))

    def _found(self, model: str, ends: Sequence[tuple[bytes, int]], marker: int) -> int:
        for i in range(marker, max(-1, marker - LOOK_BACK - 1), -1):
            if (model, ends[i][0]) in self._seen:
                return ends[i][1]
        return 0


def _ends(parts: Sequence[Part]) -> list[tuple[bytes, int]]:
    running, size = hashlib.sha256(), 0
    ends = []
    for part in parts:
        running.update(part.form)
        size += tokens(part.said)
        ends.append((running.digest(), size))
    return ends


def reported(counted: Tokens, told: Tokens) -> Tokens:
    """Return the usage of the script, and counted values for the rest."""
    return Tokens(
        input=told.input if told.input is not None else counted.input,
        cached=told.cached if told.cached is not None else counted.cached,
        written=told.written if told.written is not None else counted.written,
    )
