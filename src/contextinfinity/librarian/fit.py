"""Making a digest fit its budget: what weighs least goes first.

An entry weighs by its kind and by who said it, and less with every turn since; what binds fades slowly, a story fast.
A fact weighs by what speaks for it as well: one that is hardly a fact goes long before one that nobody doubts.
What is known and what is talk have their shares, so that neither drives out what binds. The last exchange
stands apart: a sixth is kept for it, and it gets what is left over. Ages are told in turns, so the same entries always
give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Role
from contextinfinity.librarian.answers import ACCEPTED
from contextinfinity.librarian.contract import Count, Pause, no_pause
from contextinfinity.librarian.digest import AGREED, HEADINGS, Digest, Entry, Kind, digest, entry, mark, render
from contextinfinity.librarian.salience import CLEAR, salience
from contextinfinity.librarian.shorten import cut

_WEIGHTS: dict[Kind, tuple[float, float]] = {
    "constraint": (10, 800),
    "decision": (9, 800),
    "preference": (9, 800),
    "fact": (8, 600),
    "question": (5, 150),
    "artifact": (5, 200),
    "story": (1, 20),
}
"""How much a new entry weighs, and after how many turns it weighs half of that."""
_VOICES: dict[Role | None, float] = {"user": 1.0, "assistant": 0.6, "tool": 0.3, "system": 0.3, None: 0.5}
_EXPLAINING = 0.3
"""An assistant that explains names many things that nobody has to remember."""
_DOUBTFUL = 0.35
"""What a fact weighs at least beside one that nobody doubts."""
_UNKNOWN_AGE = 100
"""How old an entry is taken to be of which nobody knows the turn."""
Sort: TypeAlias = Literal["agreed", "known", "talk"]
_SHARES: dict[Sort, float] = {"agreed": 0.65, "known": 0.45, "talk": 0.1}
"""What each sort takes of the room at most, as long as there is anything else."""
_TRIED = 8
"""Further entries that are tried when there is room left."""
_MOST = 500
"""Entries that are weighed at all."""
_USUAL = 14
"""Tokens of an ordinary entry; one twice as long weighs a little less."""


class _Weighed(Struct):
    entry: Entry
    weight: float
    cost: int


async def fitted(
    entries: Sequence[Entry], budget: int, count: Count, *, kept: Collection[Entry] = (), pause: Pause = no_pause
) -> Digest:
    """Give what fits into the budget; ``kept`` goes last of all."""
    newest = max((each.turn_seq for each in entries if each.turn_seq is not None), default=0)
    last = _last(entries, budget // 6, count)
    await pause()
    weights: list[tuple[bool, float, Entry]] = []
    for each in entries:
        if each.kind != "last":
            weights.append((each in kept, _weight(each, newest), each))
            await pause()
    weights.sort(key=lambda one: one[:2], reverse=True)
    weighed: list[_Weighed] = []
    for must, heavy, each in weights[:_MOST]:
        weighed.append(_weighed(each, heavy, count, must))
        await pause()
    weighed.sort(key=lambda one: one.weight, reverse=True)
    made = await _within(last, weighed, budget, count, pause)
    chosen = [each for each in made.entries if each.kind != "last"]
    for longer in _shorter(entries):
        await pause()
        fuller = _ordered(chosen, longer)
        if count(render(fuller)) <= budget:
            return fuller
    return made


async def _within(last: list[Entry], weighed: list[_Weighed], budget: int, count: Count, pause: Pause) -> Digest:
    """Take entries by weight as long as they fit, then make sure: tokens do not simply add up."""
    room = budget - sum(_cost(each, count) for each in last) - (count(HEADINGS["last"]) + 1 if last else 0)
    chosen = _chosen(weighed, room, count)
    while chosen or last:
        await pause()
        if count(render(_ordered(chosen, last))) <= budget:
            rest = [one.entry for one in weighed if one.entry not in chosen]
            return await _filled(chosen, rest, last, (budget, count, pause))
        if chosen:
            del chosen[-max(1, len(chosen) // 20) :]
        else:
            last = last[:-1]
    return Digest()


def _chosen(weighed: list[_Weighed], room: int, count: Count) -> list[Entry]:
    """Choose by weight, each sort within its share; after that what is left goes to whatever weighs most."""
    chosen: list[Entry] = []
    kinds: set[Kind] = set()
    shares = {sort: int(room * share) for sort, share in _SHARES.items()}
    put_off: list[_Weighed] = []

    def take(one: _Weighed, most: int) -> int:
        needed = one.cost + (0 if one.entry.kind in kinds else count(HEADINGS[one.entry.kind]) + 1)
        if needed > most:
            return 0
        chosen.append(one.entry)
        kinds.add(one.entry.kind)
        return needed

    for one in weighed:
        sort = _sort(one.entry)
        if used := take(one, min(room, shares[sort])):
            room, shares[sort] = room - used, shares[sort] - used
        else:
            put_off.append(one)
    for one in put_off:
        room -= take(one, room)
    return chosen


def _sort(entry: Entry) -> Sort:
    """Tell what binds from what is known, and both from talk, to which belongs what assistants and tools mention."""
    if entry.kind in AGREED:
        return "agreed"
    if entry.kind == "story" or (entry.kind in ("fact", "artifact") and entry.who != "user"):
        return "talk"
    return "known"


async def _filled(chosen: list[Entry], rest: list[Entry], last: list[Entry], means: tuple[int, Count, Pause]) -> Digest:
    """Use what is left of the budget: lines that share a turn cost less than they were taken to."""
    budget, count, pause = means
    made = _ordered(chosen, last)
    for each in rest[:_TRIED]:
        await pause()
        fuller = _ordered([*chosen, each], last)
        if count(render(fuller)) <= budget:
            chosen, made = [*chosen, each], fuller
    return made


def _ordered(chosen: list[Entry], last: list[Entry]) -> Digest:
    return digest([*sorted(chosen, key=lambda each: -1 if each.turn_seq is None else each.turn_seq), *last])


def _last(entries: Sequence[Entry], share: int, count: Count) -> list[Entry]:
    """Give the last exchange, shortened until it keeps to its share; nothing if that cannot be."""
    fitting = (last for last in _shorter(entries) if sum(_cost(each, count) for each in last) <= share)
    return next(fitting, [])


def _shorter(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Give the last exchange in ever fewer words, at last the question alone."""
    last = [each for each in entries if each.kind == "last"]
    yield last
    for most in (120, 90, 60, 40, 20):
        shorter = (entry(each.kind, cut(each.text, most), each.turn_seq, each.who) for each in last)
        last = [each for each in shorter if each is not None]
        yield last
    yield last[:1]


def _weighed(entry: Entry, weight: float, count: Count, kept: bool) -> _Weighed:
    cost = _cost(entry, count)
    return _Weighed(entry, weight / math.sqrt(max(cost, _USUAL) / _USUAL) + (1000 if kept else 0), cost)


def weight(kind: Kind, who: Role | None, age: float, text: str) -> float:
    """Tell how much something of that kind weighs so many turns after it was said; a fact by what speaks for it."""
    new, half = _WEIGHTS[kind]
    voice = _EXPLAINING if kind in ("fact", "artifact") and who == "assistant" else _VOICES[who]
    if kind == "decision" and text.startswith(ACCEPTED):
        voice = 1.0
    clear = min(1.0, max(_DOUBTFUL, salience(text).points / CLEAR)) if kind == "fact" else 1.0
    return new * voice * clear * clear / (1 + max(0.0, age) / half)


def _weight(entry: Entry, newest: int) -> float:
    age = newest - entry.turn_seq if entry.turn_seq is not None else _UNKNOWN_AGE
    return weight(entry.kind, entry.who, age, entry.text)


def _cost(entry: Entry, count: Count) -> int:
    return count((mark(entry.turn_seq, entry.who) if entry.turn_seq is not None else "- ") + entry.text) + 1
