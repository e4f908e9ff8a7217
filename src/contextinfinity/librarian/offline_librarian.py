"""The librarian without a model: notes in the speakers' own words below topic lines.

    read    extract the sentences of new turns with their scores, identifiers and open questions
    settle  merge identical entries, retire replaced and settled ones
    choose  select by score per token and novelty, each kind within its share
    fit     merge topic lines until they fit their share, and trim the whole to the budget

The result is deterministic. Scores of older entries are recomputed from their text, so that only the text has to be
stored.
"""

from __future__ import annotations

import heapq
import math
import re
import statistics
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from contextinfinity.librarian.contract import Count, Pause, Summary, Task, no_pause
from contextinfinity.librarian.digest import (
    AGREED,
    HEADINGS,
    Digest,
    Kind,
    SummaryEntry,
    digest,
    entry,
    mark,
    parse,
    render,
    topic,
)
from contextinfinity.librarian.extract import (
    ExtractedStatements,
    ScoredStatement,
    gives_orders_in,
    is_prose,
    read_turns,
)
from contextinfinity.librarian.scoring import norm, score, signs_in, words_of
from contextinfinity.librarian.settle import retire_replaced
from contextinfinity.librarian.shorten import shortened
from contextinfinity.librarian.topic_lines import covering, find_topics, merged
from contextinfinity.text.content_words import content_words
from contextinfinity.text.sentences import author_sentences

TOPICS = 0.09
_DETAILS, _LAST = 0.04, 0.06
"""The shares of the budget for topic lines (TOPICS), for the details of the newest ones, and for the last exchange."""
_KINDS: dict[Kind, tuple[float, float]] = {
    "decision": (0.4, 2.0),
    "constraint": (0.3, 2.0),
    "preference": (0.15, 2.5),
    "question": (0.06, 2.0),
    "artifact": (0.05, 4.0),
    "retired": (0.08, 0.5),
    "fact": (1.0, 1.0),
}
"""The maximum share of the room of each kind, and the factor of its score: what binds outlives what does not, but a
platitude with a cue word ("Let's keep it up!") stays a platitude."""
_HALF_LIFE, _FADES = 150, 0.15
"""The half-life of notes in turns, and the share of their value that decays; binding entries do not decay."""
_REPEATED = 0.7
"""The share of its value that a note keeps if other entries contain all its words."""
_REPLACING = 1.5
"""The factor of the newest value of something that changed."""
_PER_TOKEN = 0.55
"""Exponent of the cost: 1 would prefer the shortest notes."""
_LEAST, _TRIED = 60, 12
"""The minimum number of new notes that are considered, and the number of further entries tried in leftover room."""
_EXCERPT = 200
_NAMES = re.compile(r"(?<=[a-z,;:] )(?!I\b)[A-Z]|\w[_/]\w|[A-Z]+-?\d")


class OfflineLibrarian:
    """A ``Librarian`` without a model."""

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold the messages into the summary."""
        return Summary(text=render(await folded(task, count, pause)))


class Scores(Struct, frozen=True):
    """The scores of new entries, and the usual number of sentences per role, by which older entries are scored."""

    known: dict[SummaryEntry, float] = {}
    usual: dict[str, int] = {}

    def of(self, each: SummaryEntry) -> float:
        """Return the score of an entry."""
        if (known := self.known.get(each)) is not None:
            return known
        total = max(1, self.usual.get(each.who or "", 1))
        return score(each.text, words_of(each.text), 0, total)


async def folded(task: Task, count: Count, pause: Pause = no_pause) -> Digest:
    """Fold the messages into the current summary."""
    before = parse(task.summary)
    first = min((one.turn_seq for one in task.said), default=0)
    waiting = [each for each in before.of("question") if each.who == "assistant" and each.turn_seq == first - 1]
    reading = await read_turns(task.said, waiting, pause)
    new = sorted(_promising(reading.found, task.budget), key=lambda each: each.entry.turn_seq or 0)
    known = [_as_note(each) for each in before.entries if each not in waiting and each.kind != "artifact"]
    entries = [
        each for each in [*_by_turn(known), *(one.entry for one in new)] if not task.topic_is_over or _lasts(each)
    ]
    since = min((each.turn_seq for each in before.of("last") if each.turn_seq is not None), default=first)
    held = await retire_replaced(entries, task.pinned_facts, pause, since=since)
    held += _in_use(reading, before.of("artifact"), task.pinned_facts)
    topics = covering(before, first) if task.said else [*before.topics]
    fresh = find_topics(task.said, new, topics[-1].last + 1 if topics else first)
    if task.topic_is_over and task.topic and fresh:
        fresh[-1] = topic(fresh[-1].first, fresh[-1].last, task.topic[:120])
    await pause()
    last = [] if task.topic_is_over else await _last_exchange(task, pause)
    usual = {role: int(statistics.median(lengths)) for role, lengths in reading.lengths.items()}
    scores = Scores({each.entry: each.score for each in new}, usual)
    return await fitted(Digest((*held, *last), (*topics, *fresh)), task.budget, count, scores=scores, pause=pause)


def _promising(found: list[ScoredStatement], budget: int) -> list[ScoredStatement]:
    """Drop notes that have no chance: keep twice as many as fit the budget."""
    ranked = sorted(
        found, key=lambda each: -each.score * _KINDS[each.entry.kind][1] / len(each.entry.text) ** _PER_TOKEN
    )
    return ranked[: max(_LEAST, budget // 10)]


def _as_note(each: SummaryEntry) -> SummaryEntry:
    return entry("fact", each.text, each.turn_seq, each.who) or each if each.kind == "last" else each


def _lasts(each: SummaryEntry) -> bool:
    """Return whether an entry outlives its topic: binding or open ones, names, and facts about the speaker."""
    if each.kind not in ("fact", "last") or _NAMES.search(each.text):
        return True
    found = signs_in(each.text, words_of(each.text))
    return "first_person" in found and not found.isdisjoint(("date", "people"))


def _by_turn(entries: Iterable[SummaryEntry]) -> list[SummaryEntry]:
    return sorted(entries, key=lambda each: -1 if each.turn_seq is None else each.turn_seq)


def _in_use(reading: ExtractedStatements, before: Sequence[SummaryEntry], pins: Sequence[str]) -> list[SummaryEntry]:
    """Return the files and identifiers in use: named in two turns, or known and named again."""
    pinned = " ".join(pins)
    known = {each.text: each for each in before}
    made = []
    for name, turns in reading.identifiers.items():
        if (len(set(turns)) > 1 or name in known) and name not in pinned:
            known.pop(name, None)
            made.append(entry("artifact", name, turns[-1]))
    return [*known.values(), *(each for each in made if each is not None)]


async def _last_exchange(task: Task, pause: Pause) -> list[SummaryEntry]:
    """Quote the beginning of the last exchange."""
    said = [one for one in task.said if one.role in ("user", "assistant") and one.text.strip()]
    quoted: dict[str, SummaryEntry] = {}
    for one in said:
        if one.turn_seq == said[-1].turn_seq and not await gives_orders_in(one.text[:4000], pause):
            shorter = (shortened(each, one.at) for each in author_sentences(one.text[:4000]).sentences[:8])
            if made := entry("last", next(filter(is_prose, shorter), one.text[:_EXCERPT]), one.turn_seq, one.role):
                quoted[one.role] = made
    return [*quoted.values()]


class _ScoredEntry(Struct):
    entry: SummaryEntry
    value: float
    cost: int
    words: frozenset[str]

    @property
    def density(self) -> float:
        return self.value / math.pow(self.cost, _PER_TOKEN)


async def fitted(
    made: Digest,
    budget: int,
    count: Count,
    *,
    scores: Scores | None = None,
    kept: Collection[SummaryEntry] = (),
    topics: float = TOPICS,
    pause: Pause = no_pause,
) -> Digest:
    """Select what fits the budget: topic lines within their share, then entries by value; ``kept`` is dropped last."""
    lines = merged(made.topics, int(budget * topics), int(budget * _DETAILS), count)
    if count(render(Digest((), tuple(lines)))) > budget:
        lines = [topic(lines[0].first, lines[-1].last)]
    last = [each for each in made.of("last") if _cost(each, count) <= budget * _LAST]
    frame = Digest(tuple(last), tuple(lines))
    room = budget - count(render(frame))
    if room < 0:
        return Digest() if count(render(Digest((), frame.topics))) > budget else Digest((), frame.topics)
    quoted = {(each.turn_seq, each.text) for each in last}
    others = [each for each in made.entries if each.kind not in ("last", "fact")]
    notes = [each for each in made.of("fact") if (each.turn_seq, each.text) not in quoted]
    choices = await _weighed([*others, *notes], scores or Scores(), kept, count, pause)
    chosen = await _chosen(choices, room, count, pause)
    return await _exact(chosen, choices, frame, budget, count, pause)


async def _weighed(
    entries: Sequence[SummaryEntry], scores: Scores, kept: Collection[SummaryEntry], count: Count, pause: Pause
) -> list[_ScoredEntry]:
    newest = max((each.turn_seq for each in entries if each.turn_seq is not None), default=0)
    replacing = {each.until for each in entries if each.kind == "retired"}
    choices = []
    for number, each in enumerate(entries):
        value = scores.of(each) * _KINDS[each.kind][1] * (_REPLACING if each.turn_seq in replacing else 1)
        if each.kind not in AGREED:
            value *= 1 - _FADES + _FADES * 0.5 ** ((newest - (each.turn_seq or 0)) / _HALF_LIFE)
        value += 10 if each in kept else 0
        choices.append(_ScoredEntry(each, max(value, 0.0001), _cost(each, count), content_words(each.text)))
        if number % 16 == 15:
            await pause()
    return sorted(choices, key=lambda one: -one.density)


async def _chosen(choices: list[_ScoredEntry], room: int, count: Count, pause: Pause) -> list[_ScoredEntry]:
    """Select greedily by value per token; repeated words reduce the value."""
    shares = {kind: int(room * share) for kind, (share, _) in _KINDS.items()}
    said: set[str] = set()
    chosen: list[_ScoredEntry] = []
    heap = [(-one.density, place) for place, one in enumerate(choices)]
    heapq.heapify(heap)
    while heap:
        density, place = heapq.heappop(heap)
        one = choices[place]
        real = -one.density * _new_share(one.words, said)
        if heap and real > heap[0][0] and real > density * 0.999:
            heapq.heappush(heap, (real, place))
            continue
        kind = one.entry.kind
        first = all(other.entry.kind != kind for other in chosen)
        needed = one.cost + (count(HEADINGS[kind]) + 1 if first else 0)
        if needed > min(room, shares[kind]):
            continue
        room, shares[kind] = room - needed, shares[kind] - needed
        said |= one.words
        chosen.append(one)
        await pause()
    return chosen


def _new_share(words: frozenset[str], said: set[str]) -> float:
    whole = sum(map(norm, words))
    return _REPEATED + (1 - _REPEATED) * (sum(map(norm, words - said)) / whole if whole else 0.0)


async def _exact(
    chosen: list[_ScoredEntry], choices: list[_ScoredEntry], frame: Digest, budget: int, count: Count, pause: Pause
) -> Digest:
    """Enforce the exact budget, because token counts are not additive; leftover room goes to further entries."""

    def whole() -> Digest:
        return digest([*_by_turn(one.entry for one in chosen), *frame.entries], frame.topics)

    while count(render(whole())) > budget and chosen:
        del chosen[-max(1, len(chosen) // 20) :]
        await pause()
    taken = {id(one) for one in chosen}
    for one in [one for one in choices if id(one) not in taken][:_TRIED]:
        chosen.append(one)
        if count(render(whole())) > budget:
            chosen.pop()
        await pause()
    return whole()


def _cost(each: SummaryEntry, count: Count) -> int:
    return count(mark(each.turn_seq, each.who) + each.text) + 1 + (6 if each.until is not None else 0)
