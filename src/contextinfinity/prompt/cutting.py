"""What a prompt looks like once something was taken out of it.

``cut`` follows a ``Shrunk`` to the letter, and asks nobody: the same sections and the same ``Shrunk`` always give the
same prompt, so that a request can be written again years later. Which cuts are needed is decided in ``shrink``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, Message, ReasoningBlock, TextBlock, ToolResultBlock
from contextinfinity.domain.plan import Shrunk
from contextinfinity.prompt.sections import Artifact, Sections, Shown

ENDS = (2000, 1000)
"""How many characters stay of a long text at its head and its tail."""
WORDS = 60
"""How many characters of a question and of an answer a line quotes."""

Place = tuple[int, int, int]
"""Where a block stands: its turn, the message in it, the block in that."""


def cut(sections: Sections, shrunk: Shrunk) -> Sections:
    """Take out what is to be taken out."""
    cuts = Cuts(set(places_of(shrunk)), shrunk.ends or ENDS)
    turns = tuple(cuts.trimmed(shown) for shown in sections.turns)
    message, *rounds = cuts.trimmed(running_turn(sections)).messages
    if not shrunk.thinking:
        rounds = [*map(without_thinking, rounds)]
    lines = [line(shown) for shown in turns if shown.turn_seq <= shrunk.lines_to]
    front = replace(
        sections.front,
        summary=_summary(sections.front.summary, lines, shrunk.summary),
        memories=sections.front.memories[: shrunk.memories],
    )
    return replace(
        sections,
        front=front,
        turns=tuple(shown for shown in turns if shown.turn_seq > shrunk.lines_to),
        artifacts=_artifacts(sections.artifacts, shrunk),
        message=message,
        remembered=sections.remembered if shrunk.memories is None else "",
        rounds=tuple(rounds),
    )


def line(shown: Shown) -> str:
    """Say in a line what was said in a turn: its number, the first words of the question and of the answer."""
    question, *others = [message.rendered_text for message in shown.messages if message.role != "tool"] or [""]
    return f"#{shown.turn_seq} {_first_words(question)} → {_first_words(others[-1] if others else '')}"


def running_turn(sections: Sections) -> Shown:
    """Give the turn to be answered as one that is shown: its message first, then what its steps said and were told."""
    return Shown(turn_seq=sections.turn_seq, messages=(sections.message, *sections.rounds))


def trim(block: ContentBlock, ends: tuple[int, int] = ENDS) -> ContentBlock:
    """Leave head and tail of a long text, with a mark between."""
    if isinstance(block, TextBlock):
        return replace(block, text=_ends(block.text, ends), annotations=())
    if isinstance(block, ToolResultBlock):
        text = "".join(part.text for part in block.content if isinstance(part, TextBlock))
        others = tuple(part for part in block.content if not isinstance(part, TextBlock))
        return replace(block, content=(TextBlock(text=_ends(text, ends)), *others))
    return block


def without_thinking(message: Message) -> Message:
    """Leave a model's thinking out: vendors refuse it once what stood before it has changed."""
    return replace(message, blocks=tuple(b for b in message.blocks if not isinstance(b, ReasoningBlock)))


def places_of(shrunk: Shrunk) -> Iterator[Place]:
    """Give the places of the texts that are cut."""
    return zip(*[iter(shrunk.trimmed)] * 3, strict=True)


class Cuts(Struct, frozen=True):
    """The long texts that are cut, and to what."""

    places: set[Place]
    ends: tuple[int, int] = ENDS

    def trimmed(self, shown: Shown) -> Shown:
        """Cut the long texts of a turn."""
        if not any(turn == shown.turn_seq for turn, _, _ in self.places):
            return shown
        messages = (
            replace(message, blocks=tuple(self._block(shown, number, place) for place in range(len(message.blocks))))
            for number, message in enumerate(shown.messages)
        )
        return replace(shown, messages=tuple(messages))

    def _block(self, shown: Shown, number: int, place: int) -> ContentBlock:
        block = shown.messages[number].blocks[place]
        return trim(block, self.ends) if (shown.turn_seq, number, place) in self.places else block


def _artifacts(artifacts: Sequence[Artifact], shrunk: Shrunk) -> tuple[Artifact, ...]:
    kept = tuple(artifacts[: shrunk.artifacts])
    if shrunk.slice is None or not kept:
        return kept
    return (replace(kept[0], text=kept[0].text[: shrunk.slice]), *kept[1:])


def _summary(summary: str, lines: Sequence[str], longest: int | None) -> str:
    """Put the summary and the lines together; where that is too long, its beginning and the newest lines stay."""
    listed = "\n".join(lines)
    whole = "\n".join(part for part in (summary, listed) if part)
    if longest is None or len(whole) <= longest:
        return whole
    tail = listed[max(0, len(listed) - longest // 2) :]
    head = summary[: longest - len(tail)]
    return "\n".join(part for part in (head, "[…]", tail) if part)


def _ends(text: str, ends: tuple[int, int]) -> str:
    head, tail = ends
    left_out = len(text) - head - tail
    return text if left_out <= 0 else f"{text[:head]}\n[… {left_out} characters left out …]\n{text[-tail:]}"


def _first_words(text: str) -> str:
    words = " ".join(text[: WORDS * 4].split())
    return words if len(words) <= WORDS else f"{words[: WORDS - 1]}…"
