"""Blacking out what must not leave the machine.

A redactor is asked of every text that would go out and names the spans to hide; each becomes ``[redacted]``. What is
kept stays as it was said. The spans are kept with the plan, so that what was sent can be shown again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.prompt_sections import Sections, Shown

REDACTED = "[redacted]"

Span: TypeAlias = tuple[int, int, int]
"""A stretch that was hidden: the number of the text, where it begins, where it ends."""
Redactor: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Names the stretches of a text that must not be sent, as (start, end)."""
Change: TypeAlias = Callable[[int, str], str]


def by_patterns(patterns: Sequence[str]) -> Redactor:
    """Make a redactor of regular expressions."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def find(text: str) -> Iterable[tuple[int, int]]:
        return [match.span() for pattern in compiled for match in pattern.finditer(text)]

    return find


def all_of(redactors: Sequence[Redactor]) -> Redactor:
    """Hide what any of them names."""
    return lambda text: [span for redactor in redactors for span in redactor(text)]


def redact(sections: Sections, redactor: Redactor) -> tuple[Sections, tuple[Span, ...]]:
    """Hide what the redactor names, before anything is cut; gives the sections and what was hidden where."""
    spans: list[Span] = []

    def hide(number: int, text: str) -> str:
        found = secrets_in(text, redactor)
        spans.extend((number, start, end) for start, end in found)
        return _without(text, found)

    return _each_text(sections, hide), tuple(spans)


def hidden(text: str, redactor: Redactor | None) -> str:
    """Hide what the redactor names in one text."""
    return text if redactor is None else _without(text, secrets_in(text, redactor))


def secrets_in(text: str, redactor: Redactor) -> list[tuple[int, int]]:
    """Give the stretches that the redactor names, in order, none of which touch."""
    return _merged(_asked(redactor, text), len(text))


def redact_turns(turns: tuple[Shown, ...], redactor: Redactor | None) -> tuple[Shown, ...]:
    """Hide what the redactor names in turns, before anything is shortened: half a secret is what no pattern finds."""
    if redactor is None:
        return turns
    texts = _Texts(lambda _, text: hidden(text, redactor))
    return tuple(replace(shown, messages=tuple(map(texts.message, shown.messages))) for shown in turns)


def apply(sections: Sections, spans: Iterable[Span]) -> Sections:
    """Hide what was hidden before."""
    by_text: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in spans:
        by_text.setdefault(number, []).append((start, end))
    return _each_text(sections, lambda number, text: _without(text, by_text.get(number, ())))


def _asked(redactor: Redactor, text: str) -> list[tuple[int, int]]:
    try:
        return list(redactor(text))
    except Exception as error:
        raise ContextInfinityError(
            f"What names the texts to hide failed: {type(error).__name__}: {error}.",
            hint="Nothing was sent; look at general.redact_with.",
        ) from error


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
    if not spans:
        return text
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    return REDACTED.join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _each_text(sections: Sections, change: Change) -> Sections:
    """Change every text of a prompt's material, numbered in the order in which they stand."""
    texts = _Texts(change)
    front = sections.front
    changed = replace(
        sections,
        front=replace(
            front,
            system=texts.text(front.system),
            pinned_facts=tuple(map(texts.text, front.pinned_facts)),
            memories=texts.text(front.memories),
            summary=texts.text(front.summary),
            tools=texts.descriptions(front.tools),
        ),
        turns=tuple(replace(shown, messages=tuple(map(texts.message, shown.messages))) for shown in sections.turns),
        artifacts=tuple(replace(artifact, text=texts.text(artifact.text)) for artifact in sections.artifacts),
        message=texts.message(sections.message),
        contextualised=None if sections.contextualised is None else texts.text(sections.contextualised),
        rounds=tuple(map(texts.message, sections.rounds)),
        remembered=texts.text(sections.remembered),  # last: texts of older requests keep their numbers
        lead=tuple(map(texts.message, sections.lead)),
        begun=tuple(map(texts.message, sections.begun)),
    )
    if front.sent is None:
        return changed
    return replace(changed, front=replace(changed.front, sent=texts.values(front.sent)))


class _Texts:
    """Goes through texts in order and changes each."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._number = count()

    def text(self, value: str) -> str:
        return self._change(next(self._number), value)

    def message(self, message: Message) -> Message:
        blocks = (self._block(block) for block in message.blocks)
        changed = replace(message, blocks=tuple(block for block in blocks if block is not None))
        if message.wire is None:
            return changed
        return replace(changed, wire={**message.wire, "template": self.values(message.wire["template"])})

    def descriptions(self, value: Json) -> Json:
        """Change what tools are said to do; their names and schemas are code."""
        if isinstance(value, dict):
            return {
                key: self.text(inner) if key == "description" and isinstance(inner, str) else self.descriptions(inner)
                for key, inner in value.items()
            }
        return [self.descriptions(inner) for inner in value] if isinstance(value, list | tuple) else value

    def _block(self, block: ContentBlock) -> ContentBlock | None:
        match block:
            case TextBlock():
                return replace(block, text=self.text(block.text))
            case ToolUseBlock():
                return replace(block, input=self._json(block.input))
            case ToolResultBlock():
                inner = (self._block(part) for part in block.content)
                return replace(block, content=tuple(part for part in inner if part is not None))
            case ReasoningBlock() | UnknownBlock():  # signed by its vendor: it goes as it is, or not at all
                raw = msgspec.json.encode(block).decode()
                return block if self.text(raw) == raw else None
        return block

    def values(self, value: Json) -> Json:
        """Change every text in a JSON value; its keys stay."""
        if isinstance(value, dict):
            return {key: self.values(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.values(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def _json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._json(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(inner) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = str(value)
            hidden = self.text(written)
            return value if hidden == written else hidden
        return value
