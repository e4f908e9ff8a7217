"""Blacking out what must not leave the machine.

A redactor is asked of every text that would go out and names the spans to hide; each becomes ``[redacted]``. What is
kept stays as it was said. The spans are kept with the plan, so that what was sent can be shown again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TypeAlias

from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, Json, TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.prompt import Prompt

REDACTED = "[redacted]"

Span: TypeAlias = tuple[int, int, int]
"""A stretch that was hidden: the number of the text, where it begins, where it ends."""
Redactor: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Names the stretches of a text that must not be sent, as (start, end)."""


def by_patterns(patterns: Sequence[str]) -> Redactor:
    """Make a redactor of regular expressions."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def find(text: str) -> Iterable[tuple[int, int]]:
        return [match.span() for pattern in compiled for match in pattern.finditer(text)]

    return find


def all_of(redactors: Sequence[Redactor]) -> Redactor:
    """Hide what any of them names."""
    return lambda text: [span for redactor in redactors for span in redactor(text)]


def redact(prompt: Prompt, redactor: Redactor) -> tuple[Prompt, tuple[Span, ...]]:
    """Hide what the redactor names; gives the prompt and what was hidden where."""
    spans: list[Span] = []

    def hide(number: int, text: str) -> str:
        found = _merged(redactor(text), len(text))
        spans.extend((number, start, end) for start, end in found)
        return _without(text, found)

    return _each_text(prompt, hide), tuple(spans)


def apply(prompt: Prompt, spans: Iterable[Span]) -> Prompt:
    """Hide what was hidden before."""
    by_text: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in spans:
        by_text.setdefault(number, []).append((start, end))
    return _each_text(prompt, lambda number, text: _without(text, by_text.get(number, ())))


def _merged(found: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Put stretches in order, those that touch as one; whatever is no stretch of the text is left out."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in found):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = f"{text[:start]}{REDACTED}{text[end:]}"
    return text


def _each_text(prompt: Prompt, change: Callable[[int, str], str]) -> Prompt:
    """Change every text of a prompt, numbered in the order in which they stand."""
    number = count()

    def text(value: str) -> str:
        return change(next(number), value)

    def json(value: Json) -> Json:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {key: json(inner) for key, inner in value.items()}
        return [json(inner) for inner in value] if isinstance(value, list) else value

    def block(value: ContentBlock) -> ContentBlock:
        match value:
            case TextBlock():
                return replace(value, text=text(value.text))
            case ToolUseBlock():
                return replace(value, input=json(value.input))
            case ToolResultBlock():
                return replace(value, content=tuple(map(block, value.content)))
        return value

    return replace(
        prompt,
        system=tuple(map(text, prompt.system)),
        messages=tuple(replace(message, blocks=tuple(map(block, message.blocks))) for message in prompt.messages),
    )
