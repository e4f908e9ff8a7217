"""Public conversations for measuring summaries, with the facts that their questions ask for.

LoCoMo is read from ``$CONTEXTINFINITY_BENCH_DATA/locomo``; BEAM and REALTALK from ``beam.json`` and ``realtalk.json``
there or in ``$CONTEXTINFINITY_BENCH_CACHE``, as the tool that prepares public data writes them. A fact is one message
that a question names as evidence: the sentence of it that is nearest to the question and its answer. A summary tells
it when an entry has two thirds of the sentence's words (without a question at its end), or all words of the answer in
the turn of the message. Questions without an answer, and those that ask for something that was never said, are left
out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import TranscriptMessage
from contextinfinity.librarian.digest import parse
from contextinfinity.text.sentences import author_sentences, before_question

DATA = Path(os.environ.get("CONTEXTINFINITY_BENCH_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
PREPARED = Path(os.environ.get("CONTEXTINFINITY_BENCH_CACHE", DATA))
_TOLD = 0.65
"""Share of a sentence's words that tell it."""
_LONGEST_ANSWER = 8
"""Words of an answer that may be found by itself."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a an the and or but of to in on at for with by from is are was were be been am it its this that these those
        i you he she they we my your his her their our me him them us as so do does did have has had not no yes will
        would can could should what when where who which how why there here just really very about into up out if
        than then too also
        """,
    )
)


class Fact(NamedTuple):
    """Something that a question asks for."""

    question: str
    answer: str
    kind: str
    turn: int
    role: Role
    sentence: str


class Conversation(NamedTuple):
    """What was said, oldest first, and the facts that are asked for."""

    said: tuple[TranscriptMessage, ...]
    facts: tuple[Fact, ...]


@cache
def conversations(name: str) -> tuple[Conversation, ...]:
    """Read a set: locomo, realtalk or beam; nothing when it is absent."""
    path = DATA / "locomo" / "conversations.json" if name == "locomo" else PREPARED / f"{name}.json"
    if not path.is_file():
        return ()
    read = _locomo if name == "locomo" else _prepared
    return tuple(_conversation(*read(each)) for each in json.loads(path.read_text(encoding="utf-8")))


Message = tuple[str, Role, str, datetime]
Question = tuple[str, object, object, list[str]]


def _locomo(given: dict[str, Any]) -> tuple[list[Message], list[Question]]:
    talk, messages = given["conversation"], []
    for key in sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])):
        at = datetime.strptime(talk[f"{key}_date_time"], "%I:%M %p on %d %B, %Y")
        for one in talk[key]:
            role: Role = "user" if one["speaker"] == talk["speaker_a"] else "assistant"
            messages.append((one["dia_id"], role, one["text"], at))
    asked = [(q["question"], q.get("answer"), q["category"], q["evidence"]) for q in given["qa"] if q["category"] != 5]
    return messages, asked


def _prepared(given: dict[str, Any]) -> tuple[list[Message], list[Question]]:
    first = given["messages"][0].get("speaker")
    messages: list[Message] = []
    for one in given["messages"]:
        role: Role = one["role"] if "role" in one else "user" if one["speaker"] == first else "assistant"
        messages.append((one["id"], role, one["content"], datetime.fromisoformat(one["created_at"].removesuffix("Z"))))
    return messages, [(q["question"], q["answer"], q["kind"], q["evidence"]) for q in given["questions"]]


def _conversation(messages: list[Message], asked: list[Question]) -> Conversation:
    said: list[TranscriptMessage] = []
    by_id: dict[str, TranscriptMessage] = {}
    turn = 0
    for name, role, text, at in messages:
        turn += 1 if role == "user" or not turn else 0
        said.append(TranscriptMessage(turn_seq=turn, role=role, text=text, at=at))
        by_id[name] = said[-1]
    return Conversation(tuple(said), tuple(_facts(by_id, asked)))


def _facts(by_id: dict[str, TranscriptMessage], asked: list[Question]) -> Iterator[Fact]:
    for question, answer, kind, evidence in asked:
        wanted = words(f"{question} {answer or ''}")
        for one in (by_id[name] for name in evidence if name in by_id and answer):
            sentences = author_sentences(one.text).sentences or [one.text]
            nearest = max(sentences, key=lambda each: len(words(each) & wanted) / (len(words(each)) + 4) ** 0.5)
            yield Fact(question, str(answer), str(kind), one.turn_seq, one.role, nearest)


def words(text: str) -> frozenset[str]:
    """Return the content words of a text, roughly stemmed; not the product's own, which would judge itself."""
    return frozenset(_stem(word.lower().replace("’", "'")) for word in _WORD.findall(text) if word.lower() not in _STOP)


def _stem(word: str) -> str:
    word = re.sub(r"'(s|m|re|ve|ll|d|t)$", "", word)
    for ending in ("ing", "ed", "es", "s", "e"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            return word[: -len(ending)]
    return word


class Told:
    """A summary, asked for facts; ``held`` leaves out what it gives as settled or replaced."""

    def __init__(self, summary: str, *, held: bool = False) -> None:
        entries = [each for each in parse(summary).entries if not (held and each.kind == "retired")]
        self._lines = [(each.turn_seq, words(each.text)) for each in entries]

    def has(self, fact: Fact) -> bool:
        """Return whether the summary contains a fact."""
        sentence, answer = words(before_question(fact.sentence)), words(fact.answer)
        for turn, line in self._lines:
            if sentence and len(sentence & line) / len(sentence) > _TOLD:
                return True
            if 0 < len(answer) <= _LONGEST_ANSWER and answer <= line and abs((turn or 0) - fact.turn) <= 1:
                return True
        return False


def batches(said: Iterable[TranscriptMessage], turns: int) -> Iterator[tuple[TranscriptMessage, ...]]:
    """Divide a conversation into folds of so many turns."""
    batch: list[TranscriptMessage] = []
    for one in said:
        if batch and (one.turn_seq - 1) // turns > (batch[0].turn_seq - 1) // turns:
            yield tuple(batch)
            batch = []
        batch.append(one)
    if batch:
        yield tuple(batch)
