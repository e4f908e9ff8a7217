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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from contextinfinity.domain.plan import Shrunk
from contextinfinity.domain.prompt import WorkspaceText, path_of
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.cutting import (
    WHOLE,
    cut,
    deepened,
    levels_of,
    line,
    running_turn,
    shortened,
    without_thinking,
)
from contextinfinity.prompt.layout import artifact_text, system_texts, tools_of
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Sections, Shown
from contextinfinity.prompt.tasks import opens_task, running_from

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
