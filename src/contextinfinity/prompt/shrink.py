"""What to take out of a prompt that is too large, in a fixed order, without asking a model.

    1  retrieved text, the lowest score first, down to the best
    2  that one: a slice of it, then nothing
    3  files, the largest first (in a workspace)
    4  long texts and tool results: head and tail, the oldest first
    5  the oldest exchanges: a line each in the summary
    6  the summary, shorter
    7  standing memories
    8  an error that says what to change

Before all of them goes the model's own thinking in this turn: no vendor takes it back once anything before it changed.
Pins and the user's words are never touched. It acts on one request; nothing that is kept is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, Message, Role, TextBlock, ToolResultBlock
from contextinfinity.domain.plan import Shrunk
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.cutting import (
    ENDS,
    Cuts,
    Place,
    cut,
    line,
    places_of,
    running_turn,
    trim,
    without_thinking,
)
from contextinfinity.prompt.layout import artifact_text, current_message, system_texts
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.sections import Sections, Shown

MOST_TRIMS = 30
"""How many texts are cut at most: each is named in the plan, which stays small."""
LONG = 2000
"""Tokens from which a text counts as long; in a window that is not large, a quarter of it."""
LARGE = 4 * LONG
SLICE = 400
"""Characters that stay of the best artifact before it goes."""
SHORTEST_SUMMARY = 200
NEARLY = 64
"""Tokens by which the savings of a cut may be guessed too low; borders and rounding make one more with each cut."""


def shrink(
    sections: Sections,
    measure: Measure,
    limit: int,
    window: int = LARGE,
    start: Shrunk | None = None,
    *,
    rejected: int | None = None,
) -> Shrunk:
    """Return the first cuts with which a prompt fits into ``limit``; the same input always gives the same cuts.

    ``window`` is what the model takes at most; in a small one less than usual is kept of a long text. ``start`` are
    cuts that are already made. ``rejected`` is the size that the provider rejected: if no cut reaches ``limit``, the
    deepest one is returned as long as it is smaller than that. ``ProviderError`` (size) if nothing fits.
    """
    total, deepest = measure.total(cut(sections, start) if start else sections), None
    for unsure, (shrunk, saved) in enumerate(_cuts(sections, measure, window, start or Shrunk()), start=NEARLY):
        if total - saved - unsure <= limit and measure.total(cut(sections, shrunk)) <= limit:
            return shrunk
        deepest = shrunk
    if deepest is not None and rejected is not None and measure.total(cut(sections, deepest)) < rejected:
        return deepest
    raise _too_large(sections, measure, limit if rejected is None else window)


def truncate(sections: Sections, measure: Measure, most: int) -> Shrunk | None:
    """Make lines of the oldest exchanges until the others take no more than ``most``: what is left when folds fail."""
    costs = [(shown.turn_seq, measure.turns((shown,))) for shown in sections.turns]
    left, place, shrunk = sum(tokens for _, tokens in costs), 0, None
    for shrunk, _ in _fewer_turns(sections, measure, Shrunk()) if left > most else ():
        while place < len(costs) and costs[place][0] <= shrunk.lines_to:
            left, place = left - costs[place][1], place + 1
        if left <= most:
            break
    return shrunk


def _cuts(sections: Sections, measure: Measure, window: int, start: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    """Give ever deeper cuts, each with about what it saves in all."""
    ends = None if window >= LARGE else (window // 4, window // 8)
    shrunk, rounds = replace(start, thinking=False, ends=ends), sections.rounds
    saved = measure.messages(rounds) - measure.messages([*map(without_thinking, rounds)])
    if saved:
        yield shrunk, saved
    steps = (_fewer_artifacts, _shorter_texts, _fewer_turns, _shorter_summary, _fewer_memories)
    for step in steps:
        for shrunk, more in step(sections, measure, shrunk):  # noqa: B020 - each step goes on from the last cut
            saved += more
            yield shrunk, saved


def _fewer_artifacts(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    costs = [measure.text(artifact_text(artifact)) for artifact in sections.artifacts]
    for count in range(len(costs) - 1, 0, -1):
        yield (shrunk := replace(shrunk, artifacts=count)), costs[count]
    if costs:
        sliced = measure.text(sections.artifacts[0].text[:SLICE])
        yield (shrunk := replace(shrunk, artifacts=1, slice=SLICE)), max(0, costs[0] - sliced)
        yield replace(shrunk, artifacts=0, slice=None), min(costs[0], sliced)


def _shorter_texts(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    trimmed: tuple[int, ...] = ()
    ends = shrunk.ends or ENDS
    long = LONG if shrunk.ends is None else shrunk.ends[0]
    for shown in (*_whole(sections, shrunk), running_turn(sections)):
        for place, block, role in _texts(shown, sections):
            tokens = measure.message(Message(role=role, blocks=(block,)))
            saved = tokens - measure.message(Message(role=role, blocks=(trim(block, ends),))) if tokens > long else 0
            if saved > 0 and len(trimmed) < 3 * MOST_TRIMS:
                trimmed += place
                yield replace(shrunk, trimmed=trimmed), saved


def _texts(shown: Shown, sections: Sections) -> Iterator[tuple[Place, ContentBlock, Role]]:
    """Give the texts that may be cut: all but the user's own words in the message to be answered."""
    for number, message in enumerate(shown.messages):
        own = shown.turn_seq == sections.turn_seq and number == 0
        for place, block in enumerate(message.blocks):
            if isinstance(block, ToolResultBlock) or (isinstance(block, TextBlock) and not own):
                yield (shown.turn_seq, number, place), block, message.role


def _fewer_turns(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    """Turns become lines, the oldest first; a call and the turn that brings its results go together.

    Only when that is not enough, as in a chain of calls that fills the window, are they parted.
    """
    here = Shown(turn_seq=sections.turn_seq, messages=(current_message(sections),))
    cuts = Cuts(set(places_of(shrunk)), shrunk.ends or ENDS)
    waiting, chained = 0, list[tuple[int, int]]()
    for shown, following in pairwise([*_whole(sections, shrunk), here]):
        saved = measure.messages(cuts.trimmed(shown).messages) - measure.text(line(shown))
        waiting += saved
        chained.append((shown.turn_seq, saved))
        if not _brings_results(following):
            yield (shrunk := _with_lines(shrunk, shown.turn_seq)), waiting
            waiting = 0
            chained.clear()
    for seq, saved in chained:
        yield (shrunk := _with_lines(shrunk, seq)), saved


def _whole(sections: Sections, shrunk: Shrunk) -> tuple[Shown, ...]:
    """Give the turns that do not stand as lines yet."""
    return tuple(shown for shown in sections.turns if shown.turn_seq > shrunk.lines_to)


def _with_lines(shrunk: Shrunk, last: int) -> Shrunk:
    """Make lines of the turns up to one; what was cut in them need not be named any more."""
    later = tuple(number for place in places_of(shrunk) if place[0] > last for number in place)
    return replace(shrunk, lines_to=last, trimmed=later)


def _brings_results(shown: Shown) -> bool:
    """Tell whether a turn cannot stand without the one before; one that is not shown leaves that to the next."""
    return not shown.messages or any(isinstance(block, ToolResultBlock) for block in shown.messages[0].blocks)


def _shorter_summary(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    whole = cut(sections, shrunk).front.summary
    lengths = [
        len(whole),
        *(max(SHORTEST_SUMMARY, len(whole) * share // 8) for share in (6, 4, 2, 1)),
        SHORTEST_SUMMARY,
    ]
    saved = measure.text(whole)  # at most; these cuts are so few that each may be measured
    for longer, shorter in pairwise(lengths):
        if shorter < longer:
            yield (shrunk := replace(shrunk, summary=shorter)), saved
            saved = 0


def _fewer_memories(sections: Sections, measure: Measure, shrunk: Shrunk) -> Iterator[tuple[Shrunk, int]]:
    memories = sections.front.memories
    if memories:
        yield (shrunk := replace(shrunk, memories=len(memories) // 2)), measure.text(memories)
    if memories or sections.remembered:
        yield replace(shrunk, memories=0), 0


def _too_large(sections: Sections, measure: Measure, limit: int) -> ProviderError:
    words = measure.message(sections.message)
    front = sum(map(measure.text, system_texts(sections.front)))
    return ProviderError(
        f"The prompt does not fit: the window leaves {limit} tokens; the message takes about {words}, the system text "
        f"with the pinned facts {front}.",
        kind="size",
        hint="Say less at once, unpin a fact, choose a model with a larger window, or lower response_reserve_tokens.",
    )


def describe(sections: Sections, shrunk: Shrunk) -> tuple[str, ...]:
    """Say in words what was taken out, in the order of the steps."""
    steps = []
    if not shrunk.thinking and any(without_thinking(message) != message for message in sections.rounds):
        steps.append("the model's thinking in this turn: left out")
    if shrunk.artifacts is not None:
        steps.append(f"artifacts: {shrunk.artifacts} of {len(sections.artifacts)} kept")
    if shrunk.slice is not None:
        steps.append(f"the best artifact: {shrunk.slice} characters of it")
    if shrunk.trimmed:
        head, tail = shrunk.ends or ENDS
        steps.append(f"{len(shrunk.trimmed) // 3} long texts: {head} + {tail} characters of each")
    if shrunk.lines_to and sections.turns:
        steps.append(f"turns {sections.turns[0].turn_seq}–{shrunk.lines_to}: a line each")
    if shrunk.summary is not None:
        steps.append(f"summary: {shrunk.summary} characters of it")
    if shrunk.memories is not None:
        steps.append(f"standing memories: {shrunk.memories} characters of them")
    return tuple(steps)
