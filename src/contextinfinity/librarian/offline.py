"""The librarian that needs no model: it finds, puts together and trims, and the same task gives the same summary."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from contextinfinity.librarian.contract import Count, Pause, Summary, Task, no_pause
from contextinfinity.librarian.digest import TOLD, Digest, Entry, entry, parse, render
from contextinfinity.librarian.extract import found_in
from contextinfinity.librarian.fit import fitted
from contextinfinity.librarian.merge import merged
from contextinfinity.librarian.shorten import cut
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.sentences import spoken

EARLIER = "an earlier topic:"
LONGEST_TOPIC = 120
_LEAST = 40
"""New entries that are always looked at; beyond that one for every eight tokens, more than could ever stay."""


class OfflineLibrarian:
    """``Librarian`` that asks nobody."""

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold what was said into the summary."""
        return Summary(text=render(await folded(task, count, pause)))


async def folded(task: Task, count: Count, pause: Pause = no_pause) -> Digest:
    """Fold what was said into the digest so far."""
    before = [_earlier(each) for each in parse(task.summary).entries]
    first = min((one.turn_seq for one in task.said), default=0)
    waiting = [each for each in before if _waits(each, first)]
    found = await found_in(task.said, waiting, max(_LEAST, task.budget // 8), pause)
    entries = [*(each for each in before if each not in waiting), *found]
    held = await _held(entries, task, pause)
    return await fitted(held, task.budget, count, pause=pause)


async def _held(entries: Sequence[Entry], task: Task, pause: Pause) -> list[Entry]:
    """Leave what still holds; when a topic is over, a line stands for its story."""
    if task.topic_is_over:
        kept = [each for each in entries if each.kind not in TOLD]
        entries = kept + topic_of(task, told=bool(kept))
    by_turn = sorted(entries, key=lambda each: -1 if each.turn_seq is None else each.turn_seq)
    return await merged(by_turn, task.pinned_facts, pause)


def topic_of(task: Task, *, told: bool) -> list[Entry]:
    """Say in a line what a topic that is over was about; if nobody knows and nothing else is ``told``, how it began."""
    began = "" if told else next((one.text for one in task.said if one.role == "user"), "")
    about = task.topic.strip() or cut(" ".join(spoken(began[:1000]).sentences), LONGEST_TOPIC)
    last = max((one.turn_seq for one in task.said), default=None)
    made = entry("story", f"{EARLIER} {about[:LONGEST_TOPIC]}", last) if about and not gives_orders(about) else None
    return [made] if made is not None else []


def _earlier(each: Entry) -> Entry:
    """What was the last exchange is part of the story once more was said."""
    return replace(each, kind="story") if each.kind == "last" else each


def _waits(each: Entry, first: int) -> bool:
    """Tell whether a question was put right before what is folded now, so that its first words may answer it."""
    return each.kind == "question" and each.who == "assistant" and each.turn_seq == first - 1
