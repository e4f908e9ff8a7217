"""Conversations with questions whose answers are known.

LoCoMo (two people) is read from ``$CONTEXTINFINITY_BENCH_DATA`` (default: ``../shared/data`` beside the checkout), BEAM
(chats with an assistant) and REALTALK (two people) from ``$CONTEXTINFINITY_BENCH_PUBLIC`` (default: the same folder),
as ``beam.json`` and ``realtalk.json``. None of them is part of this repository. The chats with an assistant that are
stand among ordinary talk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.planted import conversation
from contextinfinity.domain.search import ChunkSide

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CONTEXTINFINITY_BENCH_DATA", HERE.parent.parent / "shared" / "data"))
PUBLIC = Path(os.environ.get("CONTEXTINFINITY_BENCH_PUBLIC", DATA))
LOCOMO = DATA / "locomo" / "conversations.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_BEGIN = datetime(2024, 3, 4, 9, tzinfo=UTC)
_SPOKEN = re.compile(r"^\*?(user|assistant): ", re.M)
_TALK_BETWEEN = 12
"""Exchanges of ordinary talk after each chat."""


class Said(NamedTuple):
    """A message."""

    id: str
    side: ChunkSide
    speaker: str
    text: str
    at: datetime


class Asked(NamedTuple):
    """A question, and the messages that answer it."""

    text: str
    evidence: frozenset[str]
    category: int


class Talk(NamedTuple):
    """A conversation, and what is asked about it."""

    said: list[Said]
    asked: list[Asked]


def locomo() -> list[Talk]:
    """Read the conversations; none where the file is absent."""
    return [_talk(each) for each in json.loads(LOCOMO.read_text(encoding="utf-8"))] if LOCOMO.is_file() else []


def _talk(sample: dict[str, Any]) -> Talk:
    talk = sample["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
    said = [each for number in numbers for each in _session(talk, number)]
    known = {each.id for each in said}
    asked = [
        Asked(each["question"], frozenset(found), each["category"])
        for each in sample["qa"]
        if (found := known & set(re.findall(r"D\d+:\d+", " ".join(each["evidence"]))))
    ]
    return Talk(said, asked)


def _session(talk: dict[str, Any], number: int) -> Iterator[Said]:
    began = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    for place, each in enumerate(talk[f"session_{number}"]):
        side: ChunkSide = "user" if each["speaker"] == talk["speaker_a"] else "assistant"
        yield Said(each["dia_id"], side, each["speaker"], each["text"], began + timedelta(minutes=place))


def public(name: str) -> list[Talk]:
    """Read ``beam`` or ``realtalk``; none where the file is absent."""
    path = PUBLIC / f"{name}.json"
    return [_public(each) for each in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def _public(chat: dict[str, Any]) -> Talk:
    messages = [each for each in chat["messages"] if (each["content"] or "").strip()]
    first = messages[0].get("speaker", "")
    said = [
        Said(
            each["id"],
            each.get("role") or ("user" if each["speaker"] == first else "assistant"),
            each.get("speaker", ""),
            each["content"],
            datetime.fromisoformat(each["created_at"].replace("Z", "+00:00")),
        )
        for each in messages
    ]
    known = {each.id for each in said}
    asked = [
        Asked(each["question"], frozenset(found), 0)
        for each in chat["questions"]
        if (found := known & {*each["evidence"]})
    ]
    return Talk(said, asked)


def chats() -> Talk:
    """Read the chats with an assistant as one conversation, with talk between them."""
    text = (HERE / "assistant_chats.txt").read_text(encoding="utf-8")
    said = [
        Said(f"{number}", side, "", words, _BEGIN + timedelta(minutes=7 * number))
        for number, (side, words) in enumerate(chain.from_iterable(map(_spoken, _with_talk(text))))
    ]
    lines = (HERE / "chat_questions.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = (line.split("\t") for line in lines)
    return Talk(said, [Asked(text, frozenset(s.id for s in said if words in s.text), 4) for text, words in pairs])


def _with_talk(text: str) -> Iterator[str]:
    parts = text.split("\n---\n")
    talk = conversation(_TALK_BETWEEN * len(parts), every=3)
    for part in parts:
        yield part
        for _ in range(_TALK_BETWEEN):
            yield "\n".join(f"{each.role}: {each.text}" for each in next(talk).said)


def _spoken(chat: str) -> Iterator[tuple[ChunkSide, str]]:
    marks = [*_SPOKEN.finditer(chat)]
    for mark, end in zip(marks, [*(each.start() for each in marks[1:]), len(chat)], strict=True):
        yield "user" if mark[1] == "user" else "assistant", chat[mark.end() : end].strip()
