"""Redact text that must not leave the machine.

A redactor is called with every text that would be sent and returns the spans to hide; each is replaced by
``[redacted]``. Stored messages are not changed. The spans are stored with the plan, so that the request can be rebuilt.
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
    document_of,
)
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.prompt_sections import Sections, Shown

REDACTED = "[redacted]"

Span: TypeAlias = tuple[int, int, int]
"""A redacted span: the number of the text, start and end."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """A span that was replaced by ``[redacted]``: its section, the number of the text, its characters there."""

    section: str
    text: int
    start: int
    end: int


Redactor: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Returns the spans (start, end) of a text that must not be sent."""
Change: TypeAlias = Callable[[int, str], str]


def by_patterns(patterns: Sequence[str]) -> Redactor:
    """Return a redactor for regular expressions."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def find(text: str) -> Iterable[tuple[int, int]]:
        return [match.span() for pattern in compiled for match in pattern.finditer(text)]

    return find


def all_of(redactors: Sequence[Redactor]) -> Redactor:
    """Return a redactor that hides the spans of all given redactors."""
    return lambda text: [span for redactor in redactors for span in redactor(text)]


def redact(sections: Sections, redactor: Redactor) -> tuple[Sections, tuple[Span, ...]]:
    """Redact the sections before anything is cut; return the sections and the hidden spans.

    Raises ``ContextInfinityError`` if the redactor fails.
    """
    spans: list[Span] = []

    def hide(number: int, text: str) -> str:
        found = secrets_in(text, redactor)
        spans.extend((number, start, end) for start, end in found)
        return _masked(text, found)

    return _each_text(sections, hide), tuple(spans)


def hidden(text: str, redactor: Redactor | None) -> str:
    """Redact one text."""
    return text if redactor is None else _masked(text, secrets_in(text, redactor))


def hidden_values(value: Json, redactor: Redactor | None) -> Json:
    """Redact every text in a JSON value; keys are not changed."""
    return value if redactor is None else _Texts(lambda _, text: hidden(text, redactor)).values(value)


def secrets_in(text: str, redactor: Redactor) -> list[tuple[int, int]]:
    """Return the spans that the redactor finds, sorted and merged."""
    return _merged(_spans_of(redactor, text), len(text))


def redact_turns(turns: tuple[Shown, ...], redactor: Redactor | None) -> tuple[Shown, ...]:
    """Redact turns before anything is shortened: a pattern cannot match half of a secret."""
    if redactor is None:
        return turns
    texts = _Texts(lambda _, text: hidden(text, redactor))
    return tuple(replace(shown, messages=tuple(map(texts.message, shown.messages))) for shown in turns)


def apply(sections: Sections, spans: Iterable[Span]) -> Sections:
    """Redact the given spans again."""
    by_text: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in spans:
        by_text.setdefault(number, []).append((start, end))
    return _each_text(sections, lambda number, text: _masked(text, by_text.get(number, ())))


def locate(sections: Sections, spans: Iterable[Span]) -> tuple[Redaction, ...]:
    """Return the spans with the sections they are in."""
    section_of: dict[int, str] = {}

    def note(number: int, text: str) -> str:
        section_of[number] = texts.section
        return text

    texts = _Texts(note)
    _change_texts(sections, texts)
    return tuple(
        Redaction(section=section_of.get(number, ""), text=number, start=start, end=end) for number, start, end in spans
    )


def _spans_of(redactor: Redactor, text: str) -> list[tuple[int, int]]:
    try:
        return list(redactor(text))
    except Exception as error:
        raise ContextInfinityError(
            f"A redactor failed: {type(error).__name__}: {error}.",
            hint="Nothing was sent; check general.redact and general.redact_with.",
        ) from error


def _merged(found: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Sort the spans, merge those that touch, and drop invalid ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in found):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _masked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return text
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    return REDACTED.join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _each_text(sections: Sections, change: Change) -> Sections:
    return _change_texts(sections, _Texts(change))


def _change_texts(sections: Sections, texts: _Texts) -> Sections:
    """Apply a change to every text of the sections, numbered in order."""
    front = sections.front
    changed = replace(
        sections,
        front=replace(
            front,
            system=texts.of("system").text(front.system),
            pinned_facts=tuple(map(texts.of("pins").text, front.pinned_facts)),
            memories=texts.of("memories").text(front.memories),
            summary=texts.of("summary").text(front.summary),
            tools=texts.of("tools").descriptions(front.tools),
        ),
        turns=tuple(
            replace(shown, messages=tuple(map(texts.of("turns").message, shown.messages))) for shown in sections.turns
        ),
        artifacts=tuple(
            replace(artifact, text=texts.of("retrieved").text(artifact.text)) for artifact in sections.artifacts
        ),
        message=texts.of("message").message(sections.message),
        contextualised=None if sections.contextualised is None else texts.of("message").text(sections.contextualised),
        rounds=tuple(map(texts.of("steps").message, sections.rounds)),
        remembered=texts.of("memories").text(
            sections.remembered
        ),  # last, so that texts of older requests keep their numbers
        lead=tuple(map(texts.of("message").message, sections.lead)),
        begun=tuple(map(texts.of("message").message, sections.begun)),
    )
    if front.sent is None:
        return changed
    return replace(changed, front=replace(changed.front, sent=texts.of("system").values(front.sent)))


class _Texts:
    """Visit texts in order and change each."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._number = count()
        self.section = ""

    def of(self, section: str) -> _Texts:
        """Name the section of the texts that follow."""
        self.section = section
        return self

    def text(self, value: str) -> str:
        return self._change(next(self._number), value)

    def message(self, message: Message) -> Message:
        blocks = (self._block(block) for block in message.blocks)
        changed = replace(message, blocks=tuple(block for block in blocks if block is not None))
        if message.wire is None:
            return changed
        return replace(changed, wire={**message.wire, "template": self.values(message.wire["template"])})

    def descriptions(self, value: Json) -> Json:
        """Change the descriptions of tools; names and schemas are not text."""
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
            case ReasoningBlock() | UnknownBlock():  # signed by its vendor: sent unchanged or not at all
                raw = msgspec.json.encode(block).decode()
                if (document := document_of(block.raw)) is not None and document.data:
                    raw = raw.replace(document.data, document.text or "")
                return block if self.text(raw) == raw else None
        return block

    def values(self, value: Json) -> Json:
        """Change every text in a JSON value; keys are not changed."""
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
