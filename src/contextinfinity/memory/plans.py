"""Extract dated plans: what, and until when it is in the future. A plan without a future date is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.memory.guards import is_meant
from contextinfinity.memory.memory_findings import StatedFact, StatedPeriod, When, key_of
from contextinfinity.memory.third_person import sentence, thing, to_third_person
from contextinfinity.text.vocabulary import patterns

_PATTERNS: Final = patterns("statements")

_EVENT = (
    r"(?:flight|train|trip|journey|vacation|holiday|holidays|appointment|check-?up|exam|test|interview|meeting|call"
    r"|wedding|surgery"
    r"|operation|concert|conference|presentation|talk|deadline|move|thesis defen[cs]e|defen[cs]e|marathon|race"
    r"|graduation|party"
    r"|visit|visa|course|class|lesson|workshop|tournament|match|game|performance|recital|audition|delivery|due date"
    r"|birthday party"
    r"|anniversary|reservation|dinner|lunch|hearing|start date|first day|last day|parental leave|leave|retirement"
    r"|launch|release"
    r"|viva|driving test|date|due|festival|camping trip|road trip|reunion|scan|therapy session|session|parents' visit)"
)
_WHAT = rf"(?P<what>(?:[\w'’-]+ ){{0,4}}?{_EVENT}(?: (?:to|in|with|for|at|from|of) (?:[\w'’-]+ ?){{1,4}}?)?)"
_SHIFTED = (
    r"(?:scheduled|set|planned|booked|moved|postponed|rescheduled|pushed(?: back)?|brought forward|delayed|changed"
    r"|due(?! (?:for|to)\b))"
)
_AT = r"(?: (?:to|for|until|on|in|at|back to))?"
_NEWLY = (
    rf"(?:(?:is|will be|'s)(?: (?:now|actually|also|still|being))+(?: {_SHIFTED})?"
    rf"|(?:was|has been|got|had to be)(?: \w+)? {_SHIFTED}){_AT}"
)
_SET = rf"(?:(?:is|will be|takes place|starts|begins|'s)(?: {_SHIFTED})?{_AT}|{_NEWLY})"
_MINE = re.compile(rf"\b(?:my|our) {_WHAT} {_SET}\b", re.I)
_KNOWN = re.compile(rf"\bthe {_WHAT} {_NEWLY}\b", re.I)
""""The flight" without a possessive must have been mentioned before: a date in a contract is not a plan."""
_DUE: Final = _PATTERNS["due"]
_MOVED = re.compile(rf"\b(?:my|our|the) {_WHAT} (?:moved|slipped|changed) to\b", re.I)
_HAVE: Final = _PATTERNS["have"]
_GOING: Final = _PATTERNS["going"]
_DOING: Final = _PATTERNS["doing"]
_CANCELLED: Final = _PATTERNS["cancelled"]
_CALLED_OFF: Final = _PATTERNS["called_off"]
_NOT_GOING: Final = _PATTERNS["not_going"]
_MARRIAGE = re.compile(r"\bgetting married\b", re.I)
_TRAVEL = re.compile(r"\b(?:flight|flying|trip|journey|travell?ing|going|driving|heading|off)\b", re.I)
_PAST = re.compile(r"\b(?:last|past|ago|yesterday|previous|since|(?:19|20)\d\d)\b", re.I)
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b", re.I)
_ON_A_DAY = (_MINE, _KNOWN)
_NEAR = 18
_BORDER = re.compile(r"[,;.!?] ")
_LONGEST = timedelta(days=100)
"""A longer period is not a date to plan for."""
_TIME = re.compile(r"\bat (\d{1,2}(?::\d\d)?(?: ?[ap]m)?|noon|midnight)\b", re.I)


def plans_in(text: str, said_at: datetime, when: When) -> Iterator[StatedFact]:
    """Yield the plans in a sentence."""
    if (over := _cancelled(text, said_at)) is not None:
        yield over
        return
    named = next((one for one in when(text, said_at) if _future_days(one, said_at) is not None), None)
    ahead = None if named is None else _future_days(named, said_at)
    if named is None or ahead is None:
        return
    for pattern in (_MINE, _KNOWN, _DUE, _MOVED, _HAVE, _GOING, _DOING):
        for match in pattern.finditer(text):
            if is_meant(text, *match.span()) and (pattern not in _ON_A_DAY or _is_near(text, match, named)):
                yield _plan_of(match, text, ahead)
                return


def _is_near(text: str, match: re.Match[str], named: StatedPeriod) -> bool:
    """Return whether a date belongs to the words before it: close enough, and in the same clause."""
    place = text.find(named.words, match.end())
    between = text[match.end() : place] if place >= 0 else ""
    return len(between) <= _NEAR and not _BORDER.search(between)


def _cancelled(text: str, said_at: datetime) -> StatedFact | None:
    until = said_at + timedelta(days=30)
    for pattern in (_CANCELLED, _CALLED_OFF, _NOT_GOING):
        for match in pattern.finditer(text):
            if not is_meant(text, *match.span()):
                continue
            if pattern is _NOT_GOING:
                how, where = match["how"].lower(), match["where"]
                fact = _plan_fact(match, f"The user is not {how} to {where}", f"{how} {where}", until)
                return replace(fact, ends=("plan",), named=tuple(key_of(where).split()))
            what = to_third_person(_event(match["what"]))
            return replace(_plan_fact(match, f"The user's {what} was cancelled", what, until), vague=True)
    return None


class Days(Struct, frozen=True):
    """A range of days in the future."""

    start: datetime
    end: datetime


def _future_days(span: StatedPeriod, said_at: datetime) -> Days | None:
    """Interpret a time as a future one: a month or weekday that is not marked as past is the next one."""
    start, end = span.start, span.end
    if end - start > _LONGEST or (end <= said_at and _PAST.search(span.words)):
        return None
    if end <= said_at:
        step = timedelta(days=7) if _WEEKDAY.search(span.words) else timedelta(days=365)
        while end <= said_at:
            start, end = (_year_on(start), _year_on(end)) if step.days > 7 else (start + step, end + step)
    return Days(start, end)


def _year_on(moment: datetime) -> datetime:
    return moment.replace(year=moment.year + 1, day=min(moment.day, 28) if moment.month == 2 else moment.day)


def _plan_of(match: re.Match[str], text: str, span: Days) -> StatedFact:
    day = _day(span)
    if (hour := _TIME.search(text, match.end())) is not None:
        day = f"{day}, {hour[1]}"
    named = match.groupdict()
    if named.get("how"):
        where = named.get("where") or ""
        what = " ".join(f"{named['how'].lower()} {'to ' if where else ''}{where}{named.get('what') or ''}".split())
        about = f"{'moving' if named['how'].lower() == 'moving' else 'flying'} {where}" if where else what
        return _plan_fact(match, f"The user is {to_third_person(_event(what))} ({day})", about, span.end)
    what = _event(named["what"])
    due = "due " if named.get("due") else ""
    fact = _plan_fact(match, f"The user's {to_third_person(what)}: {due}{day}", what, span.end)
    return replace(fact, vague=match.re is not _HAVE)


def _plan_fact(match: re.Match[str], content: str, about: str, until: datetime) -> StatedFact:
    start, end = match.span()
    return StatedFact(
        content=sentence(content),
        start=start,
        end=end,
        kind="plan",
        about=f"plan:{key_of(_MARRIAGE.sub('wedding', _TRAVEL.sub('travel', about)))}",
        weight=5,
        valid_to=until,
    )


def _event(what: str) -> str:
    """Remove trailing prepositions from the name of an event."""
    return re.sub(r"\s+(?:on|at|in|for|from|with|to)$", "", thing(what))


def _day(span: Days) -> str:
    last = span.end - timedelta(seconds=1)
    if span.start.date() >= last.date():
        return span.start.date().isoformat()
    return f"{span.start.date().isoformat()} to {last.date().isoformat()}"
