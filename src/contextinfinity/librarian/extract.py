"""Finding what is worth keeping in what was said, without a model.

Only people's and models' own words can decide, require or prefer something. Results of tools, system texts and pasted
blocks can name things, no more. A message that tries to give the model orders binds to nothing either, and its orders
are left out of the story. Time grows with the length of the text; what one message can bring is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from contextinfinity.domain.message import Role
from contextinfinity.librarian.answers import accepted, answer_to, asked_last
from contextinfinity.librarian.contract import Pause, Said, no_pause
from contextinfinity.librarian.cues import kind_of
from contextinfinity.librarian.digest import Entry, Kind, entry
from contextinfinity.librarian.fit import weight
from contextinfinity.librarian.shorten import TELLING, shortened
from contextinfinity.librarian.words import named, telling
from contextinfinity.text.entities import ARTIFACTS, Entity
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.own_words import READ
from contextinfinity.text.sentences import asks, before_question, spoken

ORDERS = "[words that give the model orders, left out]"
"""What stands in the story for a message that was nothing else."""

_MOST: dict[Role, int] = {"user": 12, "assistant": 6, "tool": 4, "system": 4}
"""Artifacts that one message brings at most."""
_PASTED = 4_000
"""Characters of pasted text and of results of tools that are looked through at either end."""
_STORY_TURNS = 20
_STORY_WIDTH = 90
_SHORTEST_STORY = 16
"""Characters; thanks and greetings are no story."""
_EXCERPT = 120
_SHORT = 40
"""Characters of an answer that is put to its question even if it says something by itself."""
_READ = 1000
"""Characters of a sentence that are looked at."""
_SLICE = 3_000
"""Characters in which orders are looked for between two pauses."""
_JUDGED = 1_000
"""Characters whose sentences are judged between two pauses."""
_PER_SENTENCE = 60
"""Characters for which a sentence counts besides its own."""
_OVERLAP = 300
_MOST_SENTENCES = 120
"""Sentences of a message that are judged."""
_NUMBERED = re.compile(r"(?:#|no\. ?)\d+$")
"""A number in a list: it names nothing one can go to."""
_LONGEST_QUESTION = 220
_POINTING = re.compile(r"[/\\_@=#]|\w\.\w|[a-z][A-Z]|::|\(\)|--\w|[A-Za-z-]\d|\d[A-Za-z-]")
"""What a text has that names something one can go to."""
_UNKNOWN = re.compile(
    r"\b(?:i don['’]?t know|i do not know|not sure|can['’]?t tell|cannot (?:tell|say|answer)"
    r"|(?:have|need) to check|get back to you|no idea|unclear"
    r"|weiß (?:ich )?nicht|keine ahnung|je ne sais pas|no (?:lo )?sé)\b"
    r"|不知道|不清楚|不确定",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"\b(?:would you like|do you want|shall i|should i|want me to|anything else|sound good|let me know"
    r"|does (?:that|this) (?:help|make sense|work)|is there anything|how can i help"
    r"|what do you think|möchten sie|soll ich|voulez-vous|quieres)\b",
    re.IGNORECASE,
)


class Heard(Struct, frozen=True):
    """A sentence that may become an entry. It is only shortened when it does: most do not."""

    kind: Kind
    sentence: str
    turn_seq: int
    who: Role

    def entry(self) -> Entry | None:
        """Make the entry."""
        text = self.sentence[:_READ]
        if self.kind == "story":
            text = shortened(text, _STORY_WIDTH)
        elif self.kind != "artifact":
            text = shortened(text, TELLING, terse=self.kind != "question")
        return entry(self.kind, text, self.turn_seq, self.who)


async def found_in(
    said: Sequence[Said], waiting: Iterable[Entry] = (), most: int = 150, pause: Pause = no_pause
) -> list[Entry]:
    """Find what is worth keeping: the weightiest, so many at most.

    ``waiting`` are questions put right before; those that the first words do not answer are given back.
    """
    heard: list[tuple[float, Heard]] = []
    questions = _Questions(waiting)
    story = _Story()
    newest = max((one.turn_seq for one in said), default=0)

    def keep(found: Iterable[Heard]) -> None:
        heard.extend((weight(each.kind, each.who, newest - each.turn_seq, each.sentence), each) for each in found)

    for one in said:
        if one.role in ("user", "assistant"):
            keep(await _own(one, questions, story, pause))
        else:
            keep(_artifacts(one, _ends(one.text), set()))
        await pause()
    keep(questions.still_open())
    keep(story.told(newest))
    heard.sort(key=lambda each: each[0], reverse=True)
    made = []
    for _, each in heard[:most]:
        made.append(each.entry())
        await pause()
    return [*questions.unanswered, *filter(None, made), *await _last_exchange(said, pause)]


async def _own(one: Said, questions: _Questions, story: _Story, pause: Pause) -> list[Heard]:
    parts = spoken(one.text)
    sayable = await _without_orders(one.text, parts.sentences, pause)
    binding = sayable is parts.sentences
    heard: list[Heard] = []
    seen: set[str] = set()
    read = 0
    for sentence in _first_and_last(sayable):
        read += len(sentence) + _PER_SENTENCE
        if read > _JUDGED:
            read = 0
            await pause()
        stated = before_question(sentence)
        kind = kind_of(stated, assistant=one.role == "assistant") if binding else None
        if kind is None:
            story.hear(one, sentence)
            continue
        heard.append(Heard(kind, stated, one.turn_seq, one.role))
        if _POINTING.search(stated):
            seen.update(found.text for found in named(stated))
    heard += questions.hear(one, sayable if binding else [], told=bool(heard))
    await pause()
    heard += _artifacts(one, [*parts.sentences, *_ends("\n".join(parts.pasted))], seen)
    return heard


def _first_and_last(sentences: list[str]) -> list[str]:
    half = _MOST_SENTENCES // 2
    return sentences if len(sentences) <= _MOST_SENTENCES else [*sentences[:half], *sentences[-half:]]


async def binding_sentences(text: str, pause: Pause = no_pause) -> list[str]:
    """Return the author's own sentences; none if the message tries to give the model orders."""
    return [] if await _orders_in(text, pause) else spoken(text).sentences


async def _orders_in(text: str, pause: Pause) -> bool:
    """Look for orders in what is read of a message, a piece at a time; the pieces overlap."""
    for part in (text[:READ], text[max(READ, len(text) - READ) :]):
        for start in range(0, len(part), _SLICE):
            if gives_orders(part[max(0, start - _OVERLAP) : start + _SLICE]):
                return True
            if len(part) > _SLICE:
                await pause()
    return False


async def _without_orders(text: str, sentences: list[str], pause: Pause) -> list[str]:
    """Leave out the sentences that give orders; all of them where the orders lie between the sentences."""
    if not await _orders_in(text, pause):
        return sentences
    kept = []
    for sentence in _first_and_last(sentences):
        kept += [] if gives_orders(sentence) else [sentence]
        await pause()
    return kept if 0 < len(kept) < len(sentences) else [ORDERS]


def _ends(text: str) -> list[str]:
    """Give the lines of a long text that are looked through: its first and its last."""
    if len(text) > 2 * _PASTED:
        text = f"{text[:_PASTED]}\n{text[-_PASTED:]}"
    return text.splitlines()


def _artifacts(one: Said, lines: Sequence[str], seen: set[str]) -> Iterator[Heard]:
    """Name the things one can go to, each once, with the words before it where they say what it is."""
    left = _MOST[one.role]
    for line in lines:
        if left <= 0 or not _POINTING.search(line[:_READ]):
            continue
        for found in named(line[:_READ]):
            if found.kind not in ARTIFACTS or found.text in seen or left <= 0:
                continue
            described = _described(line, found)
            if found.end == _READ or (_NUMBERED.match(described) and one.role != "user"):
                continue
            seen.add(found.text)
            left -= 1
            yield Heard("artifact", described, one.turn_seq, one.role)


def _described(line: str, found: Entity) -> str:
    before = re.split(r"[,;:()|\"'`]", line[max(0, found.start - 60) : found.start].lstrip())[-1].split()
    words = [word for word in before[-5:] if telling(word)][-3:]
    return " ".join([*words, found.text]) if found.kind in ("id", "url", "path") else found.text


def _answers(text: str, question: str) -> bool:
    """Tell whether a message answers a question that was put just before it: by its words, or by being short."""
    if telling(question) & telling(text[:1000]):
        return True
    return len(text) < 80 and not asks(text)


class _Questions:
    """Questions and proposals, until somebody answers them."""

    def __init__(self, waiting: Iterable[Entry]) -> None:
        self.unanswered: list[Entry] = []
        """Those of the waiting ones that were not answered."""
        self._waiting = [*waiting]
        self._open: list[Heard] = []
        self._asked: list[Heard] = []
        """Put by the assistant, and nobody has spoken since."""
        self._own: list[Heard] = []
        """Put by a person, and the assistant has not spoken since."""
        self._last = self._waiting[-1].text if self._waiting else ""
        """The question that the assistant's last words ended with."""
        self._told: tuple[int, list[str]] = (0, [])
        """The assistant's last words, and their turn."""

    def hear(self, one: Said, sentences: list[str], *, told: bool) -> list[Heard]:
        """Take notice of a message: it answers the questions before it, and may put its own.

        Gives what a short answer says together with what it answers, unless the message has ``told`` by itself.
        """
        put = [each for each in sentences if asks(each) and len(each) < _LONGEST_QUESTION and not _POLITE.search(each)]
        made = [Heard("question", each, one.turn_seq, one.role) for each in put[-2:]]
        if one.role == "user":
            answers = self._short_answer(one) if sentences and (not told or len(one.text) < _SHORT) else []
            self._hear_answers(one.text[:_READ])
            self._own, self._last, self._told = made, "", (0, [])
            return answers
        if self._own and any(_UNKNOWN.search(sentence[:_READ]) for sentence in sentences):
            self._open += self._own
        self._own, self._asked = [], made
        self._last, self._told = asked_last(sentences), (one.turn_seq, sentences)
        return []

    def _short_answer(self, one: Said) -> list[Heard]:
        if answer := answer_to(self._last, one.text[:_READ]):
            return [Heard(answer[0], answer[1], one.turn_seq, "user")]
        turn_seq, sentences = self._told
        agreed = accepted(sentences, one.text[:_READ])
        return [Heard("decision", agreed, turn_seq, "assistant")] if agreed else []

    def _hear_answers(self, text: str) -> None:
        self.unanswered += [each for each in self._waiting if not _answers(text, each.text)]
        self._open += [each for each in self._asked if not _answers(text, each.sentence)]
        self._open += self._own
        self._waiting, self._asked, self._own = [], [], []

    def still_open(self) -> list[Heard]:
        """Give the questions that nobody has answered."""
        self.unanswered += self._waiting
        self._waiting = []
        return [*self._open, *self._own, *self._asked]


class _Story:
    """Who said what: the first words of each message that are not told elsewhere."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, Role], str] = {}

    def hear(self, one: Said, sentence: str) -> None:
        """Keep the first sentence of a message that says something."""
        key = (one.turn_seq, one.role)
        if key not in self._lines and (len(sentence) > _SHORTEST_STORY or asks(sentence) or not sentence.isascii()):
            self._lines[key] = sentence[:_READ]

    def told(self, newest: int) -> list[Heard]:
        """Give the story of the newest turns, without the last one."""
        return [
            Heard("story", sentence, turn_seq, who)
            for (turn_seq, who), sentence in self._lines.items()
            if newest - _STORY_TURNS < turn_seq < newest
        ]


async def _last_exchange(said: Sequence[Said], pause: Pause) -> list[Entry]:
    """Quote the end: what a person said last, and what the assistant said to it."""
    spoken_last = [one for one in said if one.role in ("user", "assistant") and not one.text.isspace() and one.text]
    if not spoken_last:
        return []
    turn_seq = spoken_last[-1].turn_seq
    last = {one.role: one for one in spoken_last if one.turn_seq == turn_seq}
    quoted = [entry("last", await _excerpt(one.text, pause), turn_seq, role) for role, one in last.items()]
    return [made for made in quoted if made is not None]


async def _excerpt(text: str, pause: Pause) -> str:
    sentences = await _without_orders(text, spoken(text[: 2 * _PASTED]).sentences or [text[:_EXCERPT]], pause)
    return shortened(" ".join(sentences[:20])[: 4 * _EXCERPT], _EXCERPT)
