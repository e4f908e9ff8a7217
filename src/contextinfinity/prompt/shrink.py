"""Decide what to remove from a prompt that is too large, in a fixed order and without calling a model.

    1   retrieved text, lowest score first, down to the best piece
    2   the best piece: cut to a slice, then removed
    3   files, largest first (in a workspace)
    4   long texts and tool results of older tasks: head and tail, in proportion, oldest first
    5   the oldest tasks: one line per turn in the summary
    5b  the current task: its oldest tool results in proportion, then its oldest complete rounds as one line each
    6   the summary, shortened
    7   standing memories
    8   an error that says what to change

The model's reasoning in this turn is removed first: no vendor accepts it once earlier content has changed. Pinned facts
and the user's message are never changed. Cuts apply to one request; stored data is not changed. Cuts that change the
front go down to ``low``, so that the next requests can repeat them unchanged.

``cut`` applies a ``Shrunk`` deterministically: the same sections and the same ``Shrunk`` always give the same prompt,
so that a request can be rebuilt years later. ``shrink`` decides which cuts are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

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
from contextinfinity.domain.prompt import WorkspaceText, path_of
from contextinfinity.domain.sent_form import with_blocks
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.layout import artifact_text, system_texts, tools_of
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Artifact, Sections, Shown
from contextinfinity.prompt.tasks import bridge, is_by_a_person, opens_task, running_from

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


OLDER_SHARES = (WHOLE // 2, WHOLE // 8)
"""The shares of long texts that are kept in older tasks, in two passes."""
ROUND_SHARE = WHOLE // 4
"""The share that is kept of older tool results of the current task."""
NEWEST_SHARES = tuple(dict.fromkeys(int(WHOLE * 0.95**number) for number in range(1, 136)))
"""The shares to try for the newest tool results, largest first."""
LARGEST_FLOOR = 1000
"""The minimum number of characters kept of a shortened text; in a small window an eighth of its tokens."""
LARGE = 8000
SLICE = 400
"""The characters kept of the best artifact before it is removed."""
SHORTEST_SUMMARY = 200
NEARLY = 64
"""The tolerance, in tokens, for underestimated savings; each cut adds one for framing and rounding."""


def shrink(
    sections: Sections,
    measure: Measure,
    limit: int,
    window: int = LARGE,
    start: Shrunk | None = None,
    *,
    low: int | None = None,
    rejected: int | None = None,
) -> Shrunk:
    """Return the first cuts with which a prompt fits into ``limit``; the result is deterministic.

    ``window`` is the model's input limit; in a small one less is kept of long texts. ``start`` are cuts that are
    already applied. ``low`` is the size to reach once turns must be cut. ``rejected`` is the size that the provider
    rejects: if no cut reaches ``limit``, the deepest one is returned if it is smaller than that. Raises
    ``ProviderError`` of kind ``size`` if nothing fits.
    """
    total, deepest = measure.total(cut(sections, start) if start else sections), start or Shrunk()
    for unsure, (shrunk, saved, goal) in enumerate(_cuts(sections, measure, window, deepest), start=NEARLY):
        leaves_turns = shrunk.summary is not None and deepest.summary is None
        if leaves_turns and measure.total(cut(sections, deepest)) <= limit:
            return deepest
        size = min(limit, limit if low is None or goal == "limit" else low)
        if total - saved - unsure <= size and measure.total(cut(sections, shrunk)) <= size:
            return shrunk
        deepest = shrunk
    size = measure.total(cut(sections, deepest))
    if size <= limit or (rejected is not None and size < rejected):
        return deepest
    raise _too_large(sections, measure, limit if rejected is None else window)


def repeated_cuts(shrunk: Shrunk) -> Shrunk:
    """Return the cuts that later requests repeat: those in earlier turns."""
    return Shrunk(shortened=shrunk.shortened, texts_to=shrunk.texts_to, floor=shrunk.floor, lines_to=shrunk.lines_to)


def low_mark(sections: Sections, measure: Measure, limit: int) -> int:
    """Return the target size once a prompt must be cut: it leaves the earlier turns half of their room."""
    fixed = measure.total(sections) - measure.turns(sections.turns)
    return limit if fixed >= limit else fixed + (limit - fixed) // 2


def truncate(sections: Sections, measure: Measure, most: int) -> Shrunk | None:
    """Reduce the oldest turns to lines until the rest takes at most ``most`` tokens; used when folding fails."""
    costs = [(shown.turn_seq, measure.turns((shown,))) for shown in sections.turns]
    left, place, shrunk = sum(tokens for _, tokens in costs), 0, None
    everything = (_older_tasks, _running_rounds)
    cuts = (found for step in everything for found in step(sections, measure, shrunk or Shrunk()))
    for shrunk, *_ in cuts if left > most else ():
        while place < len(costs) and costs[place][0] <= shrunk.lines_to:
            left, place = left - costs[place][1], place + 1
        if left <= most:
            break
    return shrunk


Cut = tuple[Shrunk, int, str]
"""Deeper cuts, their estimated additional saving, and the target size: ``low`` or ``limit``."""


def _cuts(sections: Sections, measure: Measure, window: int, start: Shrunk) -> Iterator[Cut]:
    """Yield ever deeper cuts, each with its estimated total saving."""
    floor = start.floor or min(LARGEST_FLOOR, max(SHORTEST_SUMMARY, window // 8))
    shrunk, rounds = replace(start, thinking=False, floor=floor), sections.rounds
    saved = measure.messages(rounds) - measure.messages([*map(without_thinking, rounds)])
    if saved:
        yield shrunk, saved, "limit"
    steps = (
        _fewer_artifacts,
        _fewer_files,
        _shorter_texts,
        _older_tasks,
        _shorter_results,
        _running_rounds,
        _newest_results,
        _shorter_lead,
        _shorter_summary,
        _fewer_memories,
    )
    for step in steps:
        for shrunk, more, goal in step(sections, measure, shrunk):  # noqa: B020 - each step goes on from the last cut
            saved += more
            yield shrunk, saved, goal


def _fewer_artifacts(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    costs = [measure.text(artifact_text(artifact)) for artifact in sections.artifacts]
    for count in range(len(costs) - 1, 0, -1):
        yield (shrunk := replace(shrunk, artifacts=count)), costs[count], "limit"
    if costs:
        sliced = measure.text(sections.artifacts[0].text[:SLICE])
        yield (shrunk := replace(shrunk, artifacts=1, slice=SLICE)), max(0, costs[0] - sliced), "limit"
        yield replace(shrunk, artifacts=0, slice=None), min(costs[0], sliced), "limit"


def _fewer_files(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Leave out the open files of a workspace, largest first."""
    sizes = {path_of(block): measure.text(block) for block in (sections.workspace or WorkspaceText()).files}
    for path in sorted(sizes.keys() - set(shrunk.files), key=lambda path: (-sizes[path], path)):
        yield (shrunk := replace(shrunk, files=(*shrunk.files, path))), sizes[path], "limit"


def _shorter_texts(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Shorten the texts of older tasks, oldest first, to a half and then to an eighth."""
    older = _verbatim_turns(sections.turns[: running_from(sections.turns, sections.message)], shrunk)
    if not older:
        return
    shrunk = replace(shrunk, texts_to=max(shrunk.texts_to, older[-1].turn_seq))
    for share in OLDER_SHARES:
        for shown in older:
            for found in _shorten_up_to(measure, shrunk, shown, len(shown.messages), share):
                shrunk = found[0]
                yield found


def _shorten_up_to(measure: Measure, shrunk: Shrunk, shown: Shown, number: int, share: int) -> Iterator[Cut]:
    """Shorten a turn up to one of its messages, if that saves anything."""
    deeper = deepened(shrunk, shown.turn_seq, number, share)
    before, after = shortened(shown, shrunk), shortened(shown, deeper)
    if before != after:
        yield deeper, measure.messages(before.messages) - measure.messages(after.messages), "low"


def _older_tasks(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Reduce whole tasks to lines, oldest first."""
    older = _verbatim_turns(sections.turns[: running_from(sections.turns, sections.message)], shrunk)
    waiting = 0
    for shown, following in pairwise([*older, None]):
        assert shown is not None  # noqa: S101 - only the last one is None
        waiting += _saved_by_line(measure, sections, shrunk, shown)
        if following is None or opens_task(following):
            yield (shrunk := replace(shrunk, lines_to=shown.turn_seq)), waiting, "low"
            waiting = 0


def _shorter_results(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Shorten the older tool results of the current task, then the newest ones down to half."""
    for shown in _verbatim_turns(sections.turns, shrunk):
        for found in _shorten_up_to(measure, shrunk, shown, len(shown.messages), ROUND_SHARE):
            shrunk = found[0]
            yield found
    current = running_turn(sections)
    for number in range(len(current.messages) - 1 if sections.rounds else 0):
        for found in _shorten_up_to(measure, shrunk, current, number, ROUND_SHARE):
            shrunk = found[0]
            yield found
    yield from _shorten_newest_results(
        sections, measure, shrunk, (share for share in NEWEST_SHARES if share >= WHOLE // 2)
    )


def _running_rounds(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Reduce the rounds of the current task to lines, oldest first; the newest round is kept."""
    for shown in _verbatim_turns(sections.turns, shrunk):
        saved = _saved_by_line(measure, sections, shrunk, shown)
        yield (shrunk := replace(shrunk, lines_to=shown.turn_seq)), saved, "low"
    for place in range(shrunk.rounds_to + 2, len(sections.rounds) - 1, 2):
        saved = measure.messages(sections.rounds[place - 2 : place])
        yield (shrunk := replace(shrunk, rounds_to=place)), saved, "low"


def _shorter_lead(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    """Shorten the messages before the one to answer: a client may repeat there a message that was too large."""
    before = measure.messages(sections.lead)
    for share in NEWEST_SHARES if sections.lead else ():
        deeper = replace(shrunk, lead=share)
        after = measure.messages(cut(sections, deeper).lead)
        if after < before:
            yield (shrunk := deeper), before - after, "limit"
            before = after


def _newest_results(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    yield from _shorten_newest_results(sections, measure, shrunk, NEWEST_SHARES)


def _shorten_newest_results(
    sections: Sections, measure: Measure, shrunk: Shrunk, shares: Iterable[int]
) -> Iterator[Cut]:
    """Shorten the newest tool results to the largest share that fits."""
    current = running_turn(sections)
    for share in shares:
        for deeper, saved, _ in _shorten_up_to(measure, shrunk, current, len(current.messages), share):
            yield (shrunk := deeper), saved, "limit"


def _saved_by_line(measure: Measure, sections: Sections, shrunk: Shrunk, shown: Shown) -> int:
    now = shortened(shown, shrunk)
    return measure.messages(now.messages) - measure.text(line(now, sections.layout))


def _verbatim_turns(turns: Iterable[Shown], shrunk: Shrunk) -> list[Shown]:
    """Return the turns that are not reduced to lines yet."""
    return [shown for shown in turns if shown.turn_seq > shrunk.lines_to]


def _shorter_summary(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    whole = cut(sections, shrunk).front.summary
    lengths = [
        len(whole),
        *(max(SHORTEST_SUMMARY, len(whole) * share // 8) for share in (6, 4, 2, 1)),
        SHORTEST_SUMMARY,
    ]
    saved = measure.text(whole)  # an upper bound; these cuts are few enough to measure each
    for longer, shorter in pairwise(lengths):
        if shorter < longer:
            yield (shrunk := replace(shrunk, summary=shorter)), saved, "limit"
            saved = 0


def _fewer_memories(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[Cut]:
    memories = sections.front.memories
    if memories:
        yield (shrunk := replace(shrunk, memories=len(memories) // 2)), measure.text(memories), "limit"
    if memories or sections.remembered:
        yield replace(shrunk, memories=0), 0, "limit"


def _too_large(sections: Sections, measure: Measure, limit: int) -> ProviderError:
    message_tokens = measure.message(sections.message)
    front = sum(map(measure.text, system_texts(sections.front, sections.layout)))
    tools = measure.tools(tools_of(sections.front))
    error = ProviderError(
        f"The prompt does not fit: the window leaves {limit} tokens; the message takes about {message_tokens}, "
        f"the system text with the pinned facts {front}, the tools {tools}.",
        kind="size",
        hint="Shorten the message, unpin a fact, choose a model with a larger window, or lower "
        "response_reserve_tokens.",
    )
    error.upstream = {"tokens": measure.total(sections), "tools": tools}
    return error


def describe(sections: Sections, shrunk: Shrunk) -> tuple[str, ...]:
    """Describe the cuts in words, in the order of the steps."""
    steps = []
    if not shrunk.thinking and any(without_thinking(message) != message for message in sections.rounds):
        steps.append("reasoning of this turn: left out")
    if shrunk.artifacts is not None:
        steps.append(f"artifacts: {shrunk.artifacts} of {len(sections.artifacts)} kept")
    if shrunk.slice is not None:
        steps.append(f"the best artifact: {shrunk.slice} characters of it")
    if shrunk.files:
        steps.append(f"files: without {', '.join(shrunk.files)}")
    for (turn_seq, _), share in levels_of(shrunk):
        if turn_seq <= shrunk.lines_to:
            continue
        what = "long texts" if turn_seq <= shrunk.texts_to else "tool results"
        steps.append(f"{what} up to turn {turn_seq}: {share * 100 // WHOLE}% of each")
    if shrunk.lines_to and sections.turns:
        steps.append(f"turns {sections.turns[0].turn_seq}–{shrunk.lines_to}: one line each")
    if shrunk.rounds_to:
        steps.append(f"this turn's tool rounds 1–{shrunk.rounds_to // 2}: one line each")
    if shrunk.summary is not None:
        steps.append(f"summary: {shrunk.summary} characters of it")
    if shrunk.memories is not None:
        steps.append(f"standing memories: {shrunk.memories} characters of them")
    return tuple(steps)
