"""Verify a model's answer: its format, inventions, unsupported binding entries, and omissions.

The answer must be JSON of the requested schema. A name, number or path that occurs in no turn and no earlier note is an
invention. A decision, constraint or preference needs support in a speaker's own words in that turn, or in an earlier
binding note, and must not say the opposite. What the offline librarian keeps as binding (constraints, decisions,
identifiers in use) must be in the answer, in a pin, or retired with a later turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import Pause, Task
from contextinfinity.librarian.digest import AGREED, Digest, Kind, SummaryEntry, Topic, digest, entry, parse, topic
from contextinfinity.librarian.extract import gives_orders_in
from contextinfinity.librarian.model_prompts import FIELDS
from contextinfinity.text.content_words import content_words, share
from contextinfinity.text.entities import HARD, entities
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.polarity import opposed
from contextinfinity.text.sentences import author_sentences

_STEM = 5
"""The number of letters by which words are compared: a model writes "using" where the user wrote "use"."""
_SAID_AGAIN = 0.5
"""The share of an entry's words that a repetition, or its support, must contain."""
_KNOWN = 0.34
"""The share of a note's words that must occur in the document."""
_SEPARATORS = re.compile(r"(?<=\d)[,'’\u00a0\u202f ](?=\d)")
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SLICE = 3_000
_Turn = Annotated[int, Meta(ge=0, le=10**15)]
_Text = Annotated[str, Meta(min_length=1, max_length=400)]


class _Item(Struct, frozen=True, forbid_unknown_fields=True):
    text: _Text
    turn: _Turn


class _Topic(Struct, frozen=True, forbid_unknown_fields=True):
    first: _Turn
    last: _Turn
    text: _Text


class _Retired(Struct, frozen=True, forbid_unknown_fields=True):
    text: _Text
    turn: _Turn
    settled_in: _Turn


_Items = Annotated[tuple[_Item, ...], Meta(max_length=300)]


class _SummaryReply(Struct, frozen=True, forbid_unknown_fields=True):
    topics: Annotated[tuple[_Topic, ...], Meta(max_length=300)]
    decisions: _Items
    constraints: _Items
    preferences: _Items
    open_questions: _Items
    artifacts: _Items
    facts: _Items
    retired: Annotated[tuple[_Retired, ...], Meta(max_length=300)]


_DECODER = msgspec.json.Decoder(_SummaryReply)


class BadReply(Exception):
    """The answer is unusable; the message says why without quoting it."""


class Invented(BadReply):
    """The answer names something that does not occur in the document."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"the answer contains {len(names)} names that no turn contains")
        self.names = names


class _Own(Struct, frozen=True):
    """The sentences of one message that are its speaker's own words."""

    role: Role
    sentences: tuple[tuple[str, frozenset[str]], ...]


class Evidence:
    """Everything that can support an answer: the notes so far and the transcript."""

    def __init__(self, summary: str) -> None:
        self.before = parse(summary)
        self.first = min((each.first for each in self.before.topics), default=0)
        self.last = max((each.last for each in self.before.topics), default=0)
        self._own: dict[int, list[_Own]] = {}
        self.turns = {each.turn_seq or 0 for each in self.before.entries}
        self._stems = stems(summary)
        self._plain = plain(summary)

    @classmethod
    async def of(cls, task: Task, pause: Pause) -> Evidence:
        """Collect the evidence of a task."""
        made = cls(task.summary)
        texts = [made._plain, *map(plain, task.pinned_facts)]
        for one in task.said:
            made.turns.add(one.turn_seq)
            texts.append(plain(one.text))
            if one.at is not None:
                texts.append(plain(f"{one.at:%Y-%m-%d} {one.at.day} {one.at:%B %Y}"))
            for start in range(0, len(one.text), _SLICE):
                made._stems |= stems(one.text[start : start + _SLICE])
                await pause()
            if one.role in ("user", "assistant") and not await gives_orders_in(one.text, pause):
                own = tuple((each, stems(each)) for each in author_sentences(one.text).sentences)
                made._own.setdefault(one.turn_seq, []).append(_Own(one.role, own))
            await pause()
        made._plain = "\n".join(texts)
        seen = {one.turn_seq for one in task.said}
        made.first = made.first or min(seen, default=0)
        made.last = max(seen, default=made.last)
        return made

    def inventions(self, text: str) -> list[str]:
        """Return the numbers, paths, identifiers and names of a text that do not occur in the document."""
        made = []
        for found in entities(text):
            name = plain(found.text)
            parts = [holds(self._plain, word) or word[:_STEM] in self._stems for word in re.findall(r"\w+", name)]
            if found.kind in ("name", "date"):
                known = any(parts) if found.kind == "name" else all(parts)
            else:
                known = holds(self._plain, name) or self._counts(name)
            made += [] if known else [found.text]
        return made

    def _counts(self, name: str) -> bool:
        """Accept a small number that the document spells out, and a number with a differently written unit."""
        number = re.match(r"\d+(?:\.\d+)?", name)
        if number is None:
            return False
        return holds(self._plain, number[0]) or (
            name in {str(at) for at in range(13)} and _COUNTS[int(name)] in self._plain
        )

    def entry(self, kind: Kind, text: str, turn: int) -> SummaryEntry | None:
        """Create an entry; return None if it is not supported."""
        words = stems(text)
        if turn not in self.turns or gives_orders(text) or share(words, self._stems) < _KNOWN:
            return None
        for each in self.before.entries:
            known = (each.turn_seq or 0) == turn and share(words, stems(each.text)) >= _SAID_AGAIN
            if known and (kind not in AGREED or each.kind in AGREED):
                turned = kind in AGREED and opposed(text, each.text)
                return None if turned else entry(kind, text, each.turn_seq, each.who)
        role, nearest, near = self._speaker(words, turn)
        if kind in AGREED and (role is None or near < _SAID_AGAIN or opposed(text, nearest)):
            return None
        return entry(kind, text, turn or None, role)

    def _speaker(self, words: frozenset[str], turn: int) -> tuple[Role | None, str, float]:
        """Return who said it in that turn, the nearest of their own sentences, and the share of words they said."""
        best: tuple[Role | None, str, float] = (None, "", 0.0)
        for own in self._own.get(turn, ()):
            said = frozenset[str]().union(*(known for _, known in own.sentences))
            if share(words, said) > best[2] or best[0] is None:
                nearest = max(own.sentences, key=lambda each: share(words, each[1]), default=("", frozenset()))
                best = (own.role, nearest[0], share(words, said))
        return best


def read(answer: str, source: Evidence) -> Digest:
    """Parse an answer; raise ``BadReply`` if its format is wrong, ``Invented`` if it names something unknown."""
    try:
        reply = _DECODER.decode(_unfenced(answer))
    except msgspec.ValidationError as error:
        raise BadReply("the answer does not match the requested schema") from error
    except msgspec.DecodeError as error:
        raise BadReply("the answer is not JSON") from error
    texts = [item.text for item in reply.topics]
    texts += [item.text for field in FIELDS for item in getattr(reply, field)]
    if invented := [name for text in texts for name in source.inventions(text)]:
        raise Invented(invented)
    made = digest(_by_turn([*_entries(reply, source), *_retired(reply, source)]), _topics(reply, source))
    if not made.entries and not made.topics and texts:
        raise BadReply("no entry of the answer is supported by a turn")
    return made


def _unfenced(answer: str) -> str:
    """Remove the code fence that some models put around JSON."""
    answer = answer.strip()
    if answer.startswith("```") and answer.endswith("```"):
        return answer.removeprefix("```").removesuffix("```").removeprefix("json")
    return answer


def _entries(reply: _SummaryReply, source: Evidence) -> Iterator[SummaryEntry]:
    for field, kind in FIELDS.items():
        items: tuple[_Item, ...] = getattr(reply, field)
        for item in items:
            if made := source.entry(kind, item.text, item.turn):
                yield made


def _retired(reply: _SummaryReply, source: Evidence) -> Iterator[SummaryEntry]:
    for item in reply.retired:
        if item.settled_in <= item.turn or item.settled_in not in source.turns or source.inventions(item.text):
            continue
        known = source.entry("fact", item.text, item.turn)
        made = entry("retired", known.text, known.turn_seq, known.who, item.settled_in) if known else None
        yield from [made] if made else []


def _topics(reply: _SummaryReply, source: Evidence) -> Iterator[Topic]:
    for item in reply.topics:
        first, last = max(item.first, source.first), min(item.last, source.last)
        if first <= last and not gives_orders(item.text) and share(stems(item.text), source._stems) >= _KNOWN:
            yield topic(first, last, item.text)


def _by_turn(entries: Iterable[SummaryEntry]) -> list[SummaryEntry]:
    return sorted(dict.fromkeys(entries), key=lambda each: -1 if each.turn_seq is None else each.turn_seq)


# --- Binding entries ----------------------------------------------------------------------------------


class Kept(Struct, frozen=True):
    """An entry that must not be lost, with its names and words."""

    entry: SummaryEntry
    names: tuple[str, ...]
    stems: frozenset[str]

    def is_in(self, text: str) -> bool:
        """Return whether a text says the same."""
        if not all(holds(plain(text), name) for name in self.names):
            return False
        if self.entry.kind == "artifact":
            return bool(self.names) or plain(self.entry.text) in plain(text)
        return share(self.stems, stems(text)) >= _SAID_AGAIN and not opposed(self.entry.text, text)


def must_keep(offline: Digest) -> tuple[Kept, ...]:
    """Return the binding constraints, decisions and identifiers that the offline librarian keeps."""
    binding = offline.of("constraint", "decision", "artifact")
    return tuple(Kept(each, names_of(each.text), stems(each.text)) for each in binding)


def missing(must: Sequence[Kept], made: Digest, pinned_facts: Sequence[str] = ()) -> tuple[Kept, ...]:
    """Return what a digest has lost: neither kept, nor pinned, nor retired with a later turn."""
    texts = [*(each.text for each in made.entries if each.kind != "last"), *pinned_facts]
    return tuple(kept for kept in must if not any(map(kept.is_in, texts)))


def plain(text: str) -> str:
    """Normalise numbers and letter case."""
    return _SEPARATORS.sub("", text.lower())


def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words; numbers are compared as names."""
    return frozenset(word[:_STEM] for word in content_words(text) if not any(map(str.isdigit, word)))


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a text that must be reproduced exactly."""
    return tuple(dict.fromkeys(plain(found.text) for found in entities(text) if found.kind in HARD))


def holds(text: str, name: str) -> bool:
    """Return whether a normalised text contains a name as a whole: 130 does not contain 30."""
    place = text.find(name)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + len(name) : place + len(name) + 1]
        if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
            return True
        place = text.find(name, place + 1)
    return False
