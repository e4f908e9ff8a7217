"""The prompts of the model librarian, and the JSON schema of its answer.

Messages are embedded in a JSON document, so that no text in it can end its own string. The instructions are in the
system text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.librarian.contract import Task, TranscriptMessage
from contextinfinity.librarian.digest import Digest, Kind, SummaryEntry

FIELDS: dict[str, Kind] = {
    "decisions": "decision",
    "constraints": "constraint",
    "preferences": "preference",
    "open_questions": "question",
    "artifacts": "artifact",
    "facts": "fact",
}
"""The fields of an answer that contain entries, with their kinds."""

_PROMPTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
SUMMARISE, SHRINK = _PROMPTS["summarise"], _PROMPTS["shrink"]
_TEXT, _TURN = {"type": "string"}, {"type": "integer"}


def _items(**properties: Json) -> Json:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        },
    }


_PROPERTIES: dict[str, Json] = {
    "topics": _items(first=_TURN, last=_TURN, text=_TEXT),
    **{field: _items(text=_TEXT, turn=_TURN) for field in FIELDS},
    "retired": _items(text=_TEXT, turn=_TURN, settled_in=_TURN),
}
SCHEMA: Json = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": [*_PROPERTIES],
    "additionalProperties": False,
}


def question(
    task: Task, before: Digest, must: Iterable[SummaryEntry], lacking: Sequence[SummaryEntry], invented: Sequence[str]
) -> str:
    """Return the request for new notes; ``lacking`` and ``invented`` list the errors of the previous answer."""
    document: dict[str, Json] = {
        "budget_tokens": task.budget,
        "topic_is_over": task.topic_is_over,
        "pinned_facts": [_sound(fact) for fact in task.pinned_facts],
        "notes_so_far": _notes(before),
        "must_keep": _entries(must),
    }
    if lacking:
        document["missing_in_your_last_answer"] = _entries(lacking)
    if invented:
        document["not_in_the_document_but_in_your_last_answer"] = [*invented]
    document["transcript"] = [_said(one) for one in task.said]
    return msgspec.json.encode(document).decode()


def shrink_question(made: Digest, budget: int, must: Iterable[SummaryEntry]) -> str:
    """Return the request for shorter notes."""
    return msgspec.json.encode({"budget_tokens": budget, "must_keep": _entries(must), "notes": _notes(made)}).decode()


def _said(one: TranscriptMessage) -> Json:
    said: dict[str, Json] = {"turn": one.turn_seq, "who": one.role, "text": _sound(one.text)}
    return said if one.at is None else {**said, "date": one.at.date().isoformat()}


def _sound(text: str) -> str:
    """Replace lone surrogates, which JSON cannot represent."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _notes(made: Digest) -> Json:
    topics: list[Json] = [{"first": each.first, "last": each.last, "text": each.text} for each in made.topics]
    return {"topics": topics, "notes": _entries(each for each in made.entries if each.kind != "retired")}


def _entries(entries: Iterable[SummaryEntry]) -> list[Json]:
    return [{"kind": each.kind, "turn": each.turn_seq or 0, "who": each.who, "text": each.text} for each in entries]
