"""Apply cuts to the sections of a prompt.

``cut`` applies a ``Shrunk`` deterministically: the same sections and the same ``Shrunk`` always give the same prompt,
so that a request can be rebuilt years later. ``shrink`` decides which cuts are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from contextinfinity.domain.plan import Shrunk
from contextinfinity.domain.prefix_hash import plain_text
from contextinfinity.domain.sent_form import with_blocks
from contextinfinity.prompt.prompt_sections import Artifact, Sections, Shown
from contextinfinity.prompt.tasks import bridge, is_by_a_person, opens_task

WHOLE = 1024
"""The share of a text that is not shortened."""
TASKS_LAYOUT = 3
"""The first layout that shortens texts in proportion and leaves a bridge for removed turns of a task."""
ENDS = (2000, 1000)
"""The characters kept at the head and the tail of a long text, before ``TASKS_LAYOUT``."""
WORDS = 60
"""The maximum length of the quoted question and answer in a turn's line."""

Place = tuple[int, int, int]
"""The position of a block: turn, message, block."""


def cut(sections: Sections, shrunk: Shrunk) -> Sections:
    """Return the sections with all cuts applied."""
    cuts = Cuts(set(places_of(shrunk)), shrunk.ends or ENDS)
    turns = [shortened(cuts.trimmed(shown), shrunk) for shown in sections.turns]
    message, *rounds = shortened(cuts.trimmed(running_turn(sections)), shrunk).messages
    if not shrunk.thinking:
        rounds = [*map(without_thinking, rounds)]
    left = [shown for shown in turns if shown.turn_seq <= shrunk.lines_to]
    kept = [shown for shown in turns if shown.turn_seq > shrunk.lines_to]
    lines = [line(shown, sections.layout) for shown in left if shown.messages or sections.layout < TASKS_LAYOUT]
    if left and sections.layout >= TASKS_LAYOUT and not _begins_task(kept, message):
        bridged = bridge(left)
        kept = kept if bridged is None else [bridged, *kept]
    lines += [_round_line(sections.turn_seq, rounds[place : place + 2]) for place in range(0, shrunk.rounds_to, 2)]
    front = replace(
        sections.front,
        summary=_summary(sections.front.summary, lines, shrunk.summary),
        memories=sections.front.memories[: shrunk.memories],
    )
    share, floor = shrunk.lead or WHOLE, shrunk.floor
    return replace(
        sections,
        lead=tuple(shorter(one, share, floor, with_texts=True) for one in sections.lead),
        front=front,
        turns=tuple(kept),
        artifacts=_artifacts(sections.artifacts, shrunk),
        message=message,
        remembered=sections.remembered if shrunk.memories is None else "",
        rounds=tuple(rounds[shrunk.rounds_to :]),
        workspace=sections.workspace.without(shrunk.files)
        if sections.workspace is not None and shrunk.files
        else sections.workspace,
    )


def _begins_task(kept: Sequence[Shown], message: Message) -> bool:
    """Return whether the remaining turns start with a message that a person wrote."""
    first = next((shown for shown in kept if shown.messages), None)
    return is_by_a_person((message,)) if first is None else opens_task(first)


def line(shown: Shown, layout: int) -> str:
    """Summarise a turn in one line: its number and the first words of question and answer."""
    if layout < TASKS_LAYOUT:
        question, *others = [message.rendered_text for message in shown.messages if message.role != "tool"] or [""]
        return f"#{shown.turn_seq} {_first_words(question)} → {_first_words(others[-1] if others else '')}"
    asked = [message for message in shown.messages if message.role in ("user", "tool")]
    answers = [message for message in shown.messages if message.role == "assistant"]
    return f"#{shown.turn_seq} {_gist(asked[:1])} → {_gist(answers[-1:])}"


def _round_line(turn_seq: int, messages: Sequence[Message]) -> str:
    """Summarise a tool round of this turn in one line: the calls, and the first words of their results."""
    return f"#{turn_seq} {_gist(messages[:1])} → {_gist(messages[1:])}"


def _gist(messages: Sequence[Message]) -> str:
    """Return the first words of the messages' text, or else of their tool calls and results."""
    text = " ".join(filter(None, (plain_text(message) for message in messages)))
    return _first_words(text or " ".join(part for message in messages for part in map(_tool_words, message.blocks)))


def _tool_words(block: ContentBlock) -> str:
    if isinstance(block, ToolUseBlock):
        return f"{block.name} {msgspec.json.encode(block.input).decode()}"
    if isinstance(block, ToolResultBlock):
        return "".join(part.text[: WORDS * 4] for part in block.content if isinstance(part, TextBlock))
    return ""


def running_turn(sections: Sections) -> Shown:
    """Return the current turn in the form of an earlier one: its message, then the messages of its tool loop."""
    return Shown(turn_seq=sections.turn_seq, messages=(sections.message, *sections.rounds))


def trim(block: ContentBlock, ends: tuple[int, int] = ENDS) -> ContentBlock:
    """Reduce a long text to its head and tail, with a note between them."""
    if isinstance(block, TextBlock):
        return replace(block, text=_ends(block.text, ends), annotations=())
    if isinstance(block, ToolResultBlock):
        text = "".join(part.text for part in block.content if isinstance(part, TextBlock))
        others = tuple(part for part in block.content if not isinstance(part, TextBlock))
        return replace(block, content=(TextBlock(text=_ends(text, ends)), *others))
    return block


def shortened(shown: Shown, shrunk: Shrunk) -> Shown:
    """Shorten tool results, and up to ``texts_to`` all texts, to the share that ``shrunk`` sets for their position."""
    levels = levels_of(shrunk)
    if not levels or (shown.turn_seq, 0) > levels[-1][0]:
        return shown
    with_texts = shown.turn_seq <= shrunk.texts_to
    messages = []
    for number, message in enumerate(shown.messages):
        share = next((share for place, share in levels if (shown.turn_seq, number) <= place), WHOLE)
        messages.append(shorter(message, share, shrunk.floor, with_texts=with_texts))
    return shown if tuple(messages) == shown.messages else replace(shown, messages=tuple(messages))


def shorter(message: Message, share: int, floor: int, *, with_texts: bool) -> Message:
    """Keep a share of each tool result or text, at least ``floor`` characters."""
    if share >= WHOLE:
        return message
    blocks = tuple(_shorter_block(block, share, floor, with_texts) for block in message.blocks)
    return message if blocks == message.blocks else with_blocks(message, blocks)


def _shorter_block(block: ContentBlock, share: int, floor: int, with_texts: bool) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        return replace(block, content=tuple(_shorter_block(part, share, floor, True) for part in block.content))
    if not (with_texts and isinstance(block, TextBlock)):
        return block
    kept = max(floor, len(block.text) * share // WHOLE)
    text = _ends(block.text, (kept * 2 // 3, kept - kept * 2 // 3))
    return replace(block, text=text, annotations=()) if len(text) < len(block.text) else block


def levels_of(shrunk: Shrunk) -> list[tuple[tuple[int, int], int]]:
    """Return the levels of shortening, oldest first: ((turn, message), share)."""
    numbers = zip(*[iter(shrunk.shortened)] * 3, strict=True)
    return [((turn, message), share) for turn, message, share in numbers]


def deepened(shrunk: Shrunk, turn: int, message: int, share: int) -> Shrunk:
    """Shorten everything up to a position to at most a share; texts with a smaller share keep it."""
    levels = levels_of(shrunk)
    if any(place >= (turn, message) and there <= share for place, there in levels):
        return shrunk
    kept = [level for level in levels if level[0] > (turn, message) or level[1] < share]
    levels = sorted([*kept, ((turn, message), share)])
    return replace(shrunk, shortened=tuple(number for place, there in levels for number in (*place, there)))


def without_thinking(message: Message) -> Message:
    """Remove reasoning blocks: vendors reject them once the preceding content has changed."""
    return replace(message, blocks=tuple(b for b in message.blocks if not isinstance(b, ReasoningBlock)))


def places_of(shrunk: Shrunk) -> Iterator[Place]:
    """Yield the positions of the trimmed texts."""
    return zip(*[iter(shrunk.trimmed)] * 3, strict=True)


class Cuts(Struct, frozen=True):
    """The positions of the texts to trim, and the lengths to keep."""

    places: set[Place]
    ends: tuple[int, int] = ENDS

    def trimmed(self, shown: Shown) -> Shown:
        """Trim the long texts of a turn."""
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
    """Join summary and lines; if too long, keep the start of the summary and the newest lines."""
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
