"""Reading a model's answer, of which nothing is believed.

It has to be JSON of exactly the form that was asked for, within its sizes. Then each entry has to stand on its own: its
turn exists, what it names was named, half of its words were said, none of them turned round, and it gives no orders.
What binds has to rest on somebody's own words in that turn, or on something that was binding in the notes before: what
was only known or told never comes to bind. An entry that does not stand is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import Pause, Said, Task
from contextinfinity.librarian.digest import AGREED, TOLD, Digest, Entry, Kind, digest, entry, parse
from contextinfinity.librarian.extract import binding_sentences
from contextinfinity.librarian.polarity import opposed
from contextinfinity.librarian.safeguards import holds, names_of, plain, stems
from contextinfinity.librarian.wording import FIELDS
from contextinfinity.librarian.words import share
from contextinfinity.text.orders import gives_orders

_GROUNDED = 0.5
"""Share of an entry's words that must have been said."""
_SLICE = 3_000
"""Characters between two pauses."""


class _Item(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=400)]
    turn: Annotated[int, Meta(ge=0, le=10**15)]


_Items = Annotated[tuple[_Item, ...], Meta(max_length=200)]


class _Reply(Struct, frozen=True, forbid_unknown_fields=True):
    decisions: _Items
    constraints: _Items
    preferences: _Items
    facts: _Items
    open_questions: _Items
    artifacts: _Items
    narrative: _Items


_DECODER = msgspec.json.Decoder(_Reply)


class BadReply(Exception):
    """The answer cannot be used; the message says why, without quoting it."""


class _Voice(Struct, frozen=True):
    """What one message says: all of it, and the sentences that are somebody's own."""

    role: Role
    words: frozenset[str]
    own: tuple[tuple[str, frozenset[str]], ...]


class Source:
    """Everything an answer may rest on: the notes before, and what was said."""

    def __init__(self, summary: str) -> None:
        self.before = parse(summary)
        self._turns: dict[int, list[_Voice]] = {}
        self._earlier = [(each, stems(each.text)) for each in self.before.entries]
        self._plain = plain(summary)

    @classmethod
    async def of(cls, task: Task, pause: Pause) -> Source:
        """Make the source of a task."""
        made = cls(task.summary)
        told = [made._plain]
        for one in task.said:
            voice = await _voice(one, pause)
            made._turns.setdefault(one.turn_seq, []).append(voice)
            told.append(plain(one.text))
            await pause()
        made._plain = "\n".join(told)
        return made

    def entry(self, kind: Kind, text: str, turn: int) -> Entry | None:
        """Make an entry if it rests on something; None if it does not."""
        made = entry(kind, text, turn or None)
        if made is None or gives_orders(text):
            return None
        words, names = stems(made.text), names_of(made.text)
        if not (words or names) or not all(holds(self._plain, name) for name in names):
            return None
        for each, known in self._earlier:
            if (each.turn_seq or 0) == turn and share(words, known) >= _GROUNDED and _may_become(each, kind):
                return None if _turns_round(kind, text, each.text) else entry(kind, text, each.turn_seq, each.who)
        who = self._speaker(kind, text, turn, words)
        return entry(kind, text, turn, who) if who else None

    def _speaker(self, kind: Kind, text: str, turn: int, words: frozenset[str]) -> Role | None:
        voices = self._turns.get(turn, [])
        if kind in AGREED:
            voices = [voice for voice in voices if voice.own]
        heard = [(voice.role, _own(voice) if kind in AGREED else voice.words) for voice in voices]
        together: frozenset[str] = frozenset().union(*(known for _, known in heard))
        if not heard or share(words, together) < _GROUNDED:
            return None
        nearest = max(
            (own for voice in voices for own in voice.own), key=lambda own: share(words, own[1]), default=None
        )
        if nearest is not None and words & nearest[1] and _turns_round(kind, text, nearest[0]):
            return None
        return max(heard, key=lambda voice: share(words, voice[1]))[0]


def _own(voice: _Voice) -> frozenset[str]:
    return frozenset().union(*(known for _, known in voice.own))


async def _voice(one: Said, pause: Pause) -> _Voice:
    """Listen to a message, a piece at a time: it may be long."""
    words: set[str] = set()
    for start in range(0, len(one.text), _SLICE):
        words |= stems(one.text[start : start + _SLICE])
        await pause()
    sentences = await binding_sentences(one.text, pause) if one.role in ("user", "assistant") else []
    own = []
    for sentence in sentences:
        own.append((sentence, stems(sentence)))
        await pause()
    return _Voice(one.role, frozenset(words), tuple(own))


def _may_become(earlier: Entry, kind: Kind) -> bool:
    """What was only told or known cannot become binding by being told again."""
    return kind not in AGREED or earlier.kind in AGREED


def _turns_round(kind: Kind, text: str, said: str) -> bool:
    return kind not in TOLD and kind not in ("question", "artifact") and opposed(text, said)


def read(answer: str, source: Source) -> Digest:
    """Read an answer; ``BadReply`` when it has not the form, or nothing of it stands."""
    try:
        reply = _DECODER.decode(_unfenced(answer))
    except msgspec.ValidationError as error:
        raise BadReply("the answer has another form than asked for") from error
    except msgspec.DecodeError as error:
        raise BadReply("the answer is no JSON") from error
    made = digest(_by_turn(_entries(reply, source)))
    if not made.entries and any(getattr(reply, field) for field in FIELDS):
        raise BadReply("nothing in the answer rests on what was said")
    return made


def _unfenced(answer: str) -> str:
    """Take away the fence that some models put around JSON."""
    answer = answer.strip()
    if answer.startswith("```") and answer.endswith("```"):
        return answer.removeprefix("```").removesuffix("```").removeprefix("json")
    return answer


def _entries(reply: _Reply, source: Source) -> Iterator[Entry]:
    for field, kind in FIELDS.items():
        items: tuple[_Item, ...] = getattr(reply, field)
        for item in items:
            if made := source.entry(kind, item.text, item.turn):
                yield made


def _by_turn(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(dict.fromkeys(entries), key=lambda each: -1 if each.turn_seq is None else each.turn_seq)
