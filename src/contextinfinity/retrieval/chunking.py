"""Split a turn into chunks with what a search needs to find them.

    split       at headings, code and functions, changes of topic, paragraphs; 200 to 800 tokens, a short side whole
    indexed by  its own words, and, if they are few, words borrowed from the messages just before
    shown as    exactly the text at its offsets

The result is deterministic for a turn and the turns before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from contextinfinity.domain import wire
from contextinfinity.domain.search import ChunkType
from contextinfinity.domain.turn import Passage, Side, Turn, TurnSide, sides_of
from contextinfinity.retrieval.chunk_boundaries import HEADING, Part, parts_of
from contextinfinity.retrieval.chunk_kinds import kind_of
from contextinfinity.retrieval.spans import LEAST, ChunkSpan, spans_of
from contextinfinity.retrieval.statement_value import lowered, summary_of, words
from contextinfinity.text.tokens.encodings import encoding

ENCODING = "o200k_base"
"""The encoding that sizes are counted with, for every model: chunks must not change with the model."""

BORROWED = (24, 16, 12)
"""The maximum number of words borrowed from the previous message, the one before it, and so on."""
_FROM = 1_000
"""Words are borrowed from this many characters at the beginning and the end of an earlier message."""


class ChunkDraft(Struct, frozen=True, kw_only=True):
    """A chunk to be indexed: ``start`` to ``end`` of its side; the text before ``own`` repeats the previous chunk."""

    side: Side
    start: int
    own: int
    end: int
    text: str
    chunk_type: ChunkType
    token_est: int
    content_hash: str
    summary: str
    borrowed: str = ""
    """Additional search words from earlier turns or from the turn's question."""


def chunks_of(turn: Turn, earlier: Sequence[Turn] = ()) -> tuple[ChunkDraft, ...]:
    """Split a turn; ``earlier`` are the turns of its lineage before it, the newest last (two are enough)."""
    count = encoding(ENCODING).count
    said = sides_of(turn)
    found: list[ChunkDraft] = []
    for spoken in said:
        parts = _parts(spoken)
        spans = spans_of(spoken.text, parts, count)
        before = [*_before(earlier), *(other.text for other in said[: said.index(spoken)] if other.side == "user")]
        for span in spans:
            known = before if span.tokens < LEAST else before[:0]
            found.append(_cut(spoken, parts, span, known[::-1]))
    return tuple(found)


def _parts(spoken: TurnSide) -> list[Part]:
    """Divide each passage of a side separately; the end of a passage is as strong a split as a heading."""
    parts: list[Part] = []
    for passage in spoken.passages:
        inner = parts_of(spoken.text[passage.start : passage.end], topics=not passage.result)
        moved = [Part(part.start + passage.start, part.strength, part.code) for part in inner]
        if moved:
            parts += [Part(moved[0].start, HEADING, moved[0].code), *moved[1:]]
    return parts


def _before(earlier: Sequence[Turn]) -> Iterator[str]:
    """Yield the messages of the last turns, oldest first."""
    for turn in earlier[-2:]:
        yield turn.user_message.rendered_text
        yield turn.answer.rendered_text if turn.answer else ""


def _cut(spoken: TurnSide, parts: list[Part], span: ChunkSpan, before: Sequence[str]) -> ChunkDraft:
    text = spoken.text[span.start : span.end]
    passages = [p for p in spoken.passages if p.start < span.end and span.own < p.end] or [*spoken.passages[:1]]
    result = sum(min(p.end, span.end) - max(p.start, span.own) for p in passages if p.result)
    kind = kind_of(
        text,
        spoken.side,
        code=_share_of_code(parts, span),
        result=result / (span.end - span.own),
    )
    return ChunkDraft(
        side=spoken.side,
        start=span.start,
        own=span.own,
        end=span.end,
        text=text,
        chunk_type=kind,
        token_est=span.tokens,
        content_hash=wire.text_hash(text).hex(),
        summary=summary_of(spoken.text[span.own : span.end], code=kind == "Code", call=passages[0].call),
        borrowed=_borrowed(text, before, passages),
    )


def _share_of_code(parts: list[Part], span: ChunkSpan) -> float:
    """Return the share of a span that is code."""
    first = max(0, bisect_right(parts, span.own, key=lambda part: part.start) - 1)
    code = place = 0
    for number in range(first, len(parts)):
        start = max(parts[number].start, span.own)
        if start >= span.end:
            break
        place = parts[number + 1].start if number + 1 < len(parts) else span.end
        code += parts[number].code * (min(place, span.end) - start)
    return code / (span.end - span.own)


def _borrowed(text: str, before: Sequence[str], passages: Sequence[Passage]) -> str:
    """Collect words of earlier messages, newest first, and of the tool calls whose results are in the chunk."""
    known = lowered(text) if before or any(p.call for p in passages) else set()
    found: list[str] = []
    calls = " ".join(p.call for p in passages if p.call)
    for said, most in zip([calls, *before], (BORROWED[0], *BORROWED), strict=False):
        some = words(said if len(said) <= 2 * _FROM else f"{said[:_FROM]} {said[-_FROM:]}", most, known)
        known.update(word.lower() for word in some)
        found += some
    return " ".join(found)
