"""Redact text that must not leave the machine.

A redactor is called with every text that would be sent and returns the spans to hide; each is replaced by
``[redacted]``. Stored messages are not changed. The spans are stored with the plan, so that the request can be rebuilt.

The built-in detectors of private data are such redactors. Each runs in linear time: a match starts only at a boundary
or at a fixed character, and its length is bounded or its parts cannot overlap. They prefer a miss to hiding version
numbers, hashes, ids and dates, which models need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
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
from contextinfinity.domain.wire import text_hash
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.prompt_sections import Sections, Shown

REDACTED = "[redacted]"
IDENTIFIERS = frozenset({"prompt_cache_key", "safety_identifier", "user", "user_id"})
"""The options by which a vendor tells users and conversations apart."""
AS_THEY_ARE = frozenset({"authorization", "authorization_token", "headers", "tool_choice"})
"""The options that name a tool, or hold what a vendor needs to call an MCP server for the client."""
STRUCTURE = frozenset({"$ref", "description", "name", "required", "type"})
"""The keys of a tool or a schema whose texts have been visited, or name something else in it."""

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


def hidden_options(value: Json, redactor: Redactor | None, key: str = "") -> Json:
    """Redact every text in the options of a request; keys are not changed, nor what a request needs as it is.

    An identifier that holds something to hide becomes a hash: one user keeps one identifier, and no two share it.
    """
    if redactor is None or key in AS_THEY_ARE:
        return value
    if isinstance(value, dict):
        return {name: hidden_options(inner, redactor, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hidden_options(inner, redactor) for inner in value]
    if not isinstance(value, str):
        return value
    shown = hidden(value, redactor)
    return text_hash(value).hex() if shown != value and key in IDENTIFIERS else shown


def hidden_part(text: str, start: int, secrets: Sequence[tuple[int, int]]) -> str:
    """Redact a part of a text that begins at ``start``; ``secrets`` are those of the whole text, which it may halve."""
    end = start + len(text)
    inside = [(first, last) for first, last in secrets if first < end and start < last]
    return _masked(text, [(max(first, start) - start, min(last, end) - start) for first, last in inside])


def without_halves(start: int, end: int, secrets: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Shorten a span of a text so that it holds no secret in part: the patterns would not match it."""
    for first, last in secrets:
        start = last if first < start < last else start
        end = first if first < end < last else end
    return start, max(start, end)


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
    # After all other texts, in the order in which they were added, so that texts of older requests keep their numbers.
    sent = None if front.sent is None else texts.of("system").values(front.sent)
    tools = texts.of("tools").schema(changed.front.tools)
    form = texts.of("format").schema(texts.of("format").descriptions(front.response_format))
    return replace(changed, front=replace(changed.front, sent=sent, tools=tools, response_format=form))


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

    def schema(self, value: Json) -> Json:
        """Change the other texts of tools: titles, defaults, examples and permitted values in their schemas."""
        if isinstance(value, dict):
            return {key: self._below(key, inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.schema(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def _below(self, key: str, inner: Json) -> Json:
        """Change the value of a key, unless it is structure; a property may have the name of such a key."""
        is_structure = key in STRUCTURE and not isinstance(inner, dict)
        return inner if is_structure else self.schema(inner)

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


Spans = Iterable[tuple[int, int]]

_API_KEYS = (
    r"(?<![\w-])sk-(?=[A-Za-z_-]{0,200}[0-9])[\w-]{20,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"(?<![\w-])(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",  # AWS
    r"(?<![\w-])AIza[\w-]{35}(?![\w-])",  # Google
    r"(?<![\w-])(?:gh[opusr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})",
    r"(?<![\w-])glpat-[\w-]{20,}",  # GitLab
    r"(?<![\w-])xox[a-z]-[A-Za-z0-9-]{10,}",  # Slack
    r"(?<![\w-])[prs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|npm_[A-Za-z0-9]{36,})(?!\w)",
    r"(?<![\w-])pypi-AgEIcHlwaS[\w-]{40,}",
    r"(?<![\w-])SG\.[\w-]{22}\.[\w-]{43}(?![\w-])",  # SendGrid
    r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",  # JSON Web Tokens
    r"-----BEGIN (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----[^-]*(?:-----END (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----)?",
)

# The lookahead reports overlapping candidates: a number before the card must not hide the card.
_CARD = re.compile(
    r"(?<![\w.])(?=([0-9]{14,19}|[0-9]{4}([ \xa0-])[0-9]{4}\2[0-9]{4}\2[0-9]{4}(?:\2[0-9]{3})?"
    r"|[0-9]{4}([ \xa0-])[0-9]{6}\3[0-9]{4,5})(?!\w|\.[0-9]))"
)
_BRANDS = (  # number of digits, first six digits from, to
    (frozenset({16, 19}), 400_000, 499_999),  # Visa
    (frozenset({16}), 222_100, 272_099),  # Mastercard
    (frozenset({16}), 510_000, 559_999),
    (frozenset({15}), 340_000, 349_999),  # American Express
    (frozenset({15}), 370_000, 379_999),
    (frozenset({14}), 300_000, 305_999),  # Diners Club
    (frozenset({14}), 360_000, 369_999),
    (frozenset({14, 16}), 380_000, 399_999),
    (frozenset({16}), 352_800, 358_999),  # JCB
    (frozenset({16, 19}), 601_100, 601_199),  # Discover
    (frozenset({16, 17, 18, 19}), 620_000, 629_999),  # UnionPay
    (frozenset({16, 19}), 644_000, 659_999),
)

_AT_DOMAIN = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)")
_LOCAL_PART = re.compile(r"[\w%+-][\w.%+'-]{0,63}\Z")
_LOCAL_LENGTH = 64

_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ .()/-]{0,2}[0-9]){7,14}(?!\w|[.:][0-9])")
_NO_PHONE = re.compile(r"\+(?:[0-9]{1,9}|[0-9]*\.[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*)", re.DOTALL)
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.+/-])(?:\+?1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}(?!\w|[.-]\w)"
)


def find_payment_cards(text: str) -> Spans:
    """Return the spans of card numbers: a known issuer, its length, and a valid Luhn check digit."""
    return [match.span(1) for match in _CARD.finditer(text) if _is_card(match[1])]


def find_emails(text: str) -> Spans:
    """Return the spans of e-mail addresses; ``git@host``, the user of a repository's address, is none."""
    found = []
    for match in _AT_DOMAIN.finditer(text):
        local = _LOCAL_PART.search(text[max(0, match.start() - _LOCAL_LENGTH) : match.start()])
        if local is not None and local[0] != "git":
            found.append((match.start() - len(local[0]), match.end()))
    return found


def find_phone_numbers(text: str) -> Spans:
    """Return the spans of international (+49 ...) and North American phone numbers."""
    found = [match.span() for match in _INTERNATIONAL.finditer(text) if not _NO_PHONE.fullmatch(match[0])]
    return [*found, *(match.span() for match in _NORTH_AMERICAN.finditer(text))]


def _is_card(written: str) -> bool:
    digits = [int(character) for character in written if character.isdigit()]
    first = int("".join(map(str, digits[:6])))
    if not any(len(digits) in lengths and low <= first <= high for lengths, low, high in _BRANDS):
        return False
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


DETECTORS: Mapping[str, Redactor] = MappingProxyType(
    {
        "api_keys": by_patterns(_API_KEYS),
        "payment_cards": find_payment_cards,
        "emails": find_emails,
        "phone_numbers": find_phone_numbers,
    }
)
"""The built-in detectors by the name that ``general.redact`` uses."""
