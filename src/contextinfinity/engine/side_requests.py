"""Side requests: requests of a client about a conversation, outside the conversation itself.

Chat clients and agents ask for titles, tags, suggestions, summaries and memories of a conversation, often with the same
model and the same messages. Such a request is answered and stored like any other, but it is not part of the
conversation:

    it repeats a stored conversation     it gets a branch of that thread, which never becomes the active one
    it has no history                    it gets a thread of its own, which lists omit

A side request is recognised by its instruction (its system text, or a long last message) and by its shape. A wrong
guess corrects itself: as soon as a person continues from the answer, the branch becomes active and the thread is
listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.domain.message import Message
from contextinfinity.domain.turn import SIDE, Turn

PURPOSE_SUMMARY = "summary"
SUMMARY_WITHIN = 4
"""The number of messages at the beginning of a conversation that may contain a summary."""
INSTRUCTION_CHARACTERS = 400
"""Only a last message of at least this length is read as an instruction: people write shorter ones."""
SYSTEM_LOOKED_AT, MESSAGE_LOOKED_AT = 600, 2_000
"""The number of characters of an instruction that are read: its purpose comes first."""

_MAKE = (
    r"(?:generat|creat|writ|produc|provid|suggest|captur|summari[sz]|extract|analy[sz]|determin|identif|output|"
    r"name|find|condens)\w*"
)
_ABOUT = r"(?:conversation|chat|dialogue|discussion|session|thread|transcript|message history|messages)s?"
_NEAR = r"[^.\n]{0,120}"
_BRIEF = r"(?:titles?|topics?|tags?|kebab-case name|branch name|follow-?ups?)"
_LONG = r"(?:summary|summari[sz]es?|recap|memor(?:y|ies)|state[_ ]snapshot|commit messages?)"

_SHORT_ANSWERS = (
    re.compile(rf"\b{_MAKE}\b{_NEAR}\b{_BRIEF}\b{_NEAR}\b{_ABOUT}\b"),
    re.compile(r"\b(?:title|tag|topic) (?:generator|classifier|detector)\b"),
    re.compile(rf"\b{_ABOUT}\b{_NEAR}\bsearch quer|\bnew conversation topic\b"),
)
_LONG_ANSWERS = (
    re.compile(rf"\b{_LONG}\b{_NEAR}\b{_ABOUT}\b"),
    re.compile(rf"\b{_MAKE}\b{_NEAR}\b(?:commit messages?|state[_ ]snapshot)\b"),
    re.compile(r"\bsuggest\w*\b[^.\n]{0,40}\bthe user might\b"),
    re.compile(rf"\b{_ABOUT}\b{_NEAR}\bupdat\w*\b[^.\n]{{0,40}}\bmemor"),
    re.compile(r"\b(?:memory|fact)s? extract\w*|\bextract\w* (?:\w+ ){0,4}(?:memor(?:y|ies)|facts)\b"),
)


class SideRequest(Struct, frozen=True, kw_only=True):
    """The purpose of a request that is not part of a conversation."""

    purpose: str
    """``title`` for all short answers about a conversation, ``summary`` for longer ones."""

    @property
    def needs_quote(self) -> bool:
        """Whether it must quote a conversation to be a side request: people also have other texts summarised."""
        return self.purpose == PURPOSE_SUMMARY


def side_request_of(system: str, messages: Sequence[Message], *, has_tools: bool) -> SideRequest | None:
    """Recognise a side request by its instruction; the caller must find the conversation it belongs to.

    With tools only a long last message can be the instruction: an agent's system text covers many subjects.
    """
    spoken = [message for message in messages if message.role != "system" and message.blocks]
    if not spoken or spoken[-1].role == "assistant":
        return None
    if not has_tools and (purpose := _purpose(system[:SYSTEM_LOOKED_AT])):
        return SideRequest(purpose=purpose)
    last = spoken[-1].rendered_text
    if len(last) >= INSTRUCTION_CHARACTERS and (purpose := _purpose(last[:MESSAGE_LOOKED_AT])):
        return SideRequest(purpose=purpose)
    return None


def _purpose(instruction: str) -> str:
    text = instruction.lower()
    if any(pattern.search(text) for pattern in _SHORT_ANSWERS):
        return "title"
    return PURPOSE_SUMMARY if any(pattern.search(text) for pattern in _LONG_ANSWERS) else ""


def purpose_of(turn: Turn | None) -> str | None:
    """Return the purpose of a turn's side request; empty if it only looked like one; None if it did not."""
    if turn is None or not isinstance(turn.metadata, dict) or SIDE not in turn.metadata:
        return None
    return str(turn.metadata[SIDE])
