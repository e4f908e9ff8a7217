"""Messages that only go on with the last question: an answer to a question back, "and in Germany?", "and Joe's?"."""

from __future__ import annotations

import re

from contextinfinity.rewriting.focus import Focus
from contextinfinity.rewriting.message import Message, applied, asks, orders
from contextinfinity.rewriting.naming import Mention, mentions
from contextinfinity.rewriting.resolve import resolved
from contextinfinity.rewriting.things import COUNTED

_ELLIPSIS = re.compile(
    r"\W*(?:(?:and|but|so) (?:what|how) about|(?:what|how) about|and|but)\s+"
    r"((?:in|into|for|with|of|on|at|from|to|during|by|after|before)\s+)?"
    r"((?:the\s+)?[\w'’.-]+(?:\s[\w'’.-]+){0,3}%?)\s*\?*\s*$",
    re.I,
)
_BRIEF = 5
"""Words of an answer to a question back."""
_OWNS = re.compile(r"['’]s?(?!\w)")
_OWNER = re.compile(r"['’]s?$")
_STOPPING = re.compile(r"\W*(?:never ?mind|forget it|cancel|stop|no thanks|nothing)\b", re.I)
_RELATIVE = re.compile(r"\b(?:today|tonight|tomorrow|yesterday|(?:this|next|last) (?:week|month|year))\b", re.I)
_OFFER = re.compile(r"\b(?:help|assist|anything else|do for you)\b", re.I)
"""Questions back that ask for nothing."""
_BEHIND = re.compile(r" (?:in|on|at|from|for|with) (?:the )?$")
_JOINED = re.compile(r",? (?:and|or|than|vs\.?) (?:the )?$")


def continued(message: Message, focus: Focus) -> str | None:
    """Say in full what goes on with the last question: an answer to a question back, or "and in Germany?"."""
    if not focus.question or message.references or _STOPPING.match(message.text):
        return None
    answers = not (orders(message.text) or _OFFER.search(focus.asks_back))
    if answers and focus.asks_back and len(message.tokens) <= _BRIEF and not message.text.rstrip().endswith("?"):
        return f"{_explicit(focus.question, focus)} {focus.asks_back} {message.text}"
    match = _ELLIPSIS.match(message.text)
    if match is None or not (asks(focus.question) or orders(focus.question)):
        return None
    return _with_another(_whole_question(focus), match[1] or "", match[2], focus)


def _whole_question(focus: Focus) -> str:
    """Give the last question; one that only went on with another is put together first."""
    begun, went_on = focus.question, []
    for question in reversed(focus.questions):
        begun, match = question, _ELLIPSIS.match(question)
        if match is None:
            break
        went_on.append(match)
    whole = _explicit(begun, focus)
    for match in reversed(went_on):
        whole = _with_another(whole, match[1] or "", match[2], focus) or whole
    return whole


def _with_another(question: str, preposition: str, said: str, focus: Focus) -> str | None:
    """Ask the same of another thing; None when nothing in the question stands in its place."""
    owns = _OWNER.search(said) is not None
    said = _OWNER.sub("", said)
    new = next(iter(mentions(preposition + said.removeprefix("the "), titled=True)), None)
    if new is None:
        return None
    asked = mentions(question)
    if new.kind == "date" and preposition and (day := _RELATIVE.search(question)):
        return question[: day.start()] + preposition + said + question[day.end() :]
    if any(new.name in one.name for one in asked):
        return None
    old = _place_of(new, question, [one for one in asked if owns == bool(_OWNS.match(question, one.end))], preposition)
    if old is None:
        if not preposition or owns or any(one.kind == new.kind for one in asked):
            return None
        return f"{question.rstrip(' ?.!')} {preposition}{said}?"
    known = focus.known(new.name) if new.kind == "person" else None
    name = known.name if known else said
    start = old.start - 4 if name.lower().startswith("the ") and question[: old.start].endswith(" the ") else old.start
    return question[:start] + name + question[old.end :]


def _place_of(new: Mention, question: str, asked: list[Mention], preposition: str) -> Mention | None:
    """Find what a new thing takes the place of: of its kind, or the only thing that is asked about."""
    alike = [one for one in asked if one.kind == new.kind and one.name.endswith("%") == new.name.endswith("%")]
    if new.kind not in COUNTED and not alike:
        alike = [one for one in asked if one.kind not in COUNTED]
        alike = alike if len(alike) == 1 and _comparable(alike[0], new) else []
    if alike and new.kind not in COUNTED and not preposition and _BEHIND.search(question[: alike[-1].start]):
        front = [one for one in asked if _comparable(one, new) and not _BEHIND.search(question[: one.start])]
        alike = front if len(front) == 1 else alike
    if any(_JOINED.search(question[: one.start]) for one in alike[1:]):
        return None  # one of two that were compared: which of them goes?
    behind = [one for one in alike if preposition and question[: one.start].endswith(f" {preposition}")]
    return (behind or alike)[-1] if alike else None


def _comparable(one: Mention, other: Mention) -> bool:
    return (
        one.kind == other.kind
        or "thing" in (one.kind, other.kind)
        or {one.kind, other.kind} <= {"organisation", "place", "work"}
    )


def _explicit(question: str, focus: Focus) -> str:
    told = resolved(Message.of(question), focus)
    return applied(question, [change for change in told.changes if change.thing is not None]).strip()
