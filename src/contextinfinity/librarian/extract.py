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
from contextinfinity.librarian.contract import Pause, Said, no_pause
from contextinfinity.librarian.cues import asks, kind_of
from contextinfinity.librarian.digest import Entry, Kind, entry
from contextinfinity.librarian.fit import weight
from contextinfinity.librarian.sentences import spoken
from contextinfinity.librarian.shorten import TELLING, shortened
from contextinfinity.librarian.words import named, telling
from contextinfinity.text.entities import ARTIFACTS, Entity
from contextinfinity.text.orders import gives_orders

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
        text = self.sentence
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
    heard: list[Heard] = []
    questions = _Questions(waiting)
    story = _Story()
    for one in said:
        if one.role in ("user", "assistant"):
            heard += _own(one, questions, story)
        else:
            heard += _artifacts(one, _ends(one.text), set())
        await pause()
    heard += questions.still_open()
    heard += story.told(said)
    newest = max((one.turn_seq for one in said), default=0)
    heard.sort(key=lambda each: weight(each.kind, each.who, newest - each.turn_seq), reverse=True)
    made = []
    for each in heard[:most]:
        made.append(each.entry())
        await pause()
    return [*questions.unanswered, *filter(None, made), *_last_exchange(said)]


def _own(one: Said, questions: _Questions, story: _Story) -> list[Heard]:
    parts = spoken(one.text)
    sayable = _without_orders(one.text, parts.sentences)
    binding = sayable is parts.sentences
    heard: list[Heard] = []
    seen: set[str] = set()
    for sentence in sayable:
        kind = kind_of(sentence, assistant=one.role == "assistant") if binding else None
        if kind is None:
            story.hear(one, sentence)
            continue
        heard.append(Heard(kind, sentence, one.turn_seq, one.role))
        if _POINTING.search(sentence):
            seen.update(found.text for found in named(sentence))
    questions.hear(one, sayable if binding else [])
    heard += _artifacts(one, [*parts.sentences, *_ends("\n".join(parts.pasted))], seen)
    return heard


def own_words(text: str) -> str:
    """Give what somebody said themselves, and that binds: without what is pasted; nothing where orders are given."""
    return "" if gives_orders(text) else "\n".join(spoken(text).sentences)


def _without_orders(text: str, sentences: list[str]) -> list[str]:
    """Leave out the sentences that give orders; all of them where the orders lie between the sentences."""
    if not gives_orders(text):
        return sentences
    kept = [sentence for sentence in sentences if not gives_orders(sentence)]
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
        if left <= 0 or not _POINTING.search(line):
            continue
        for found in named(line):
            if found.kind not in ARTIFACTS or found.text in seen or left <= 0:
                continue
            seen.add(found.text)
            left -= 1
            yield Heard("artifact", _described(line, found), one.turn_seq, one.role)


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
    """Questions, until somebody answers them."""

    def __init__(self, waiting: Iterable[Entry]) -> None:
        self.unanswered: list[Entry] = []
        """Those of the waiting ones that were not answered."""
        self._waiting = [*waiting]
        self._open: list[Heard] = []
        self._asked: list[Heard] = []
        """Put by the assistant, and nobody has spoken since."""
        self._own: list[Heard] = []
        """Put by a person, and the assistant has not spoken since."""

    def hear(self, one: Said, sentences: list[str]) -> None:
        """Take notice of a message: it answers the questions before it, and may put its own."""
        put = [each for each in sentences if asks(each) and len(each) < _LONGEST_QUESTION and not _POLITE.search(each)]
        made = [Heard("question", each, one.turn_seq, one.role) for each in put[-2:]]
        if one.role == "user":
            self._hear_answers(one.text)
            self._own = made
        else:
            if self._own and any(_UNKNOWN.search(sentence) for sentence in sentences):
                self._open += self._own
            self._own, self._asked = [], made

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
            self._lines[key] = sentence

    def told(self, said: Sequence[Said]) -> list[Heard]:
        """Give the story of the newest turns, without the last one."""
        newest = max((one.turn_seq for one in said), default=0)
        return [
            Heard("story", sentence, turn_seq, who)
            for (turn_seq, who), sentence in self._lines.items()
            if newest - _STORY_TURNS < turn_seq < newest
        ]


def _last_exchange(said: Sequence[Said]) -> list[Entry]:
    """Quote the end: what a person said last, and what the assistant said to it."""
    spoken_last = [one for one in said if one.role in ("user", "assistant") and one.text.strip()]
    if not spoken_last:
        return []
    turn_seq = spoken_last[-1].turn_seq
    quoted: dict[Role, Entry | None] = {}
    for one in spoken_last:
        if one.turn_seq == turn_seq:
            quoted[one.role] = entry("last", _excerpt(one.text), turn_seq, one.role)
    return [made for made in quoted.values() if made is not None]


def _excerpt(text: str) -> str:
    sentences = _without_orders(text, spoken(text[: 2 * _PASTED]).sentences or [text[:_EXCERPT]])
    return shortened(" ".join(sentences)[: 4 * _EXCERPT], _EXCERPT)
