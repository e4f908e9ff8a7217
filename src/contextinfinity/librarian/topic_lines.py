"""Topic lines: group turns by topic, title them, and merge lines as they age.

A line has a range of turns, the days, the rarest words of the speakers and, while it is new, what was asked, the result
and what is open. The ranges of all lines together cover every folded turn. The older two adjacent lines are, the sooner
they are merged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from contextinfinity.librarian.contract import Count, TranscriptMessage
from contextinfinity.librarian.digest import Digest, SummaryEntry, Topic, topic, topic_line
from contextinfinity.librarian.extract import ScoredStatement
from contextinfinity.librarian.scoring import norm
from contextinfinity.librarian.shorten import day
from contextinfinity.text.content_words import content_words
from contextinfinity.text.orders import gives_orders
from contextinfinity.text.sentences import asks, author_sentences
from contextinfinity.text.topics import shift_scores

LONGEST = 30
"""The maximum number of turns of a new topic line."""
_SHORTEST = 3
_SHIFT = 0.5
"""The score from which a message starts a new topic."""
_READ, _OPENING = 500, 240
"""The number of characters of a message that are read: for its words, and to detect a new topic."""
_TERMS = 5
_DETAIL = 110
"""The maximum number of characters of each detail: what was asked, the result, what is open."""
_RARE = 9.0
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:[-'’][^\W_]+)*")


def find_topics(said: Sequence[TranscriptMessage], found: Sequence[ScoredStatement], first: int) -> list[Topic]:
    """Divide new turns into topics; the first one begins at turn ``first``."""
    spoken_to = [one for one in said if one.role in ("user", "assistant")]
    if not said:
        return []
    last = max(one.turn_seq for one in said)
    starts = [first, *_boundaries(spoken_to, first)]
    ends = [start - 1 for start in starts[1:]] + [max(last, first)]
    made = []
    for start, end in zip(starts, ends, strict=True):
        inside = [one for one in spoken_to if start <= one.turn_seq <= end]
        notes = [each for each in found if start <= (each.entry.turn_seq or 0) <= end]
        made.append(topic(start, end, _text(inside, notes)))
    return made


def _boundaries(said: Sequence[TranscriptMessage], first: int) -> list[int]:
    """Return the turns that start a new topic."""
    from contextinfinity.embedders.static import built_in

    texts = [one.text[:_OPENING] for one in said]
    times = [None if one.at is None else one.at.timestamp() for one in said]
    scores = shift_scores(texts, built_in().encode(texts), roles=[one.role for one in said], times=times)
    opened: list[int] = []
    begun = first
    for one, score in zip(said, scores.tolist(), strict=True):
        length = one.turn_seq - begun
        if length >= _SHORTEST and (score >= _SHIFT or length >= LONGEST):
            opened.append(one.turn_seq)
            begun = one.turn_seq
    return opened


def _text(said: Sequence[TranscriptMessage], found: Sequence[ScoredStatement]) -> str:
    days = _days([one.at for one in said if one.at is not None])
    parts = [" ".join(filter(None, (days, title([one.text[:_READ] for one in said]))))]
    asked = next((text for one in said if one.role == "user" and (text := _question(one))), "")
    results = [each for each in found if each.entry.who == "assistant" and each.entry.kind != "question"]
    best = max(results, key=lambda each: each.score, default=None)
    opened = [each.entry.text for each in found if each.entry.kind == "question"]
    for name, text in (
        ("asked", asked),
        ("result", best.entry.text if best else ""),
        ("open", opened[-1] if opened else ""),
    ):
        if text and len(text) <= _DETAIL and not gives_orders(text):
            parts.append(f"{name}: {text}")
    return "; ".join(parts)


def _question(one: TranscriptMessage) -> str:
    sentences = author_sentences(one.text[:_READ]).sentences
    return next((text for each in sentences if asks(each) and len(text := each) <= _DETAIL and len(text) > 15), "")


def _days(times: list[datetime]) -> str:
    return f"({'–'.join(dict.fromkeys(map(day, (min(times), max(times)))))})" if times else ""


def title(texts: Sequence[str]) -> str:
    """Return the words that characterise texts: frequent in them, and rare elsewhere."""
    seen: Counter[str] = Counter()
    written: dict[str, str] = {}
    for text in texts:
        for word in dict.fromkeys(_WORD.findall(text)):
            low = word.lower().removesuffix("'s").removesuffix("’s")
            seen[low] += 1
            written.setdefault(low, word)
    rare = {low: norm(low) for low in seen if len(low) > 2}
    weights = {low: seen[low] ** 0.7 * rarity for low, rarity in rare.items() if rarity >= _RARE}
    best = sorted(weights, key=lambda low: -weights[low])
    chosen: list[str] = []
    for low in best:
        if content_words(low) and not any(low[:5] == other[:5] for other in chosen):
            chosen.append(low)
        if len(chosen) == _TERMS:
            break
    return ", ".join(written[low].removesuffix("'s").removesuffix("’s") for low in chosen)


def without_details(each: Topic) -> Topic:
    """Keep only the range, the days and the words."""
    return topic(each.first, each.last, re.split(r"; (?:asked|result|open): ", each.text)[0])


def covering(before: Digest, first: int) -> list[Topic]:
    """Return the topics of the current summary, with a line for turns that none covers (from an earlier release)."""
    topics = [*before.topics]
    covered = 0
    for each in before.topics:
        if each.first > covered + 1:
            topics.append(topic(covered + 1, each.first - 1, _of_entries(before.entries, covered + 1, each.first - 1)))
        covered = max(covered, each.last)
    if (before.entries or before.topics) and covered < first - 1:
        topics.append(topic(covered + 1, first - 1, _of_entries(before.entries, covered + 1, first - 1)))
    return sorted(topics, key=lambda each: each.first)


def _of_entries(entries: Sequence[SummaryEntry], first: int, last: int) -> str:
    return title([each.text for each in entries if first <= (each.turn_seq or first) <= last])


def merged(topics: Sequence[Topic], room: int, details: int, count: Count) -> list[Topic]:
    """Merge lines until they take at most ``room`` tokens; the newest keep their details if these fit in addition."""
    bare = [without_details(each) for each in topics]
    costs = [count(topic_line(each)) + 1 for each in bare]
    while len(bare) > 1 and sum(costs) > room:
        newest = bare[-1].last
        at = min(range(len(bare) - 1), key=lambda place: _reluctance(bare[place], bare[place + 1], newest))
        bare[at : at + 2] = [_joined(bare[at], bare[at + 1])]
        costs[at : at + 2] = [count(topic_line(bare[at])) + 1]
    full = {(each.first, each.last): each for each in topics}
    for place in range(len(bare) - 1, -1, -1):
        whole = full.get((bare[place].first, bare[place].last), bare[place])
        more = count(topic_line(whole)) - costs[place] + 1
        if more > details:
            break
        bare[place], details = whole, details - more
    return bare


def _reluctance(one: Topic, other: Topic, newest: int) -> float:
    return (other.last - one.first + 1) / (newest - other.last + LONGEST)


_DAYS = re.compile(r"\(([^()]*?\d{4})\) ?")


def _joined(one: Topic, other: Topic) -> Topic:
    """Merge two lines: from the first day to the last, with words of each in proportion to its length."""
    days = [found[1] for each in (one, other) if (found := _DAYS.match(each.text))]
    ends = dict.fromkeys([days[0].split("–")[0], days[-1].split("–")[-1]]) if days else {}
    words = [_DAYS.sub("", each.text, count=1).split(", ") for each in (one, other)]
    many = min(len(words[0]), max(1, round((one.last - one.first + 1) / (other.last - one.first + 1) * _TERMS)))
    terms = dict.fromkeys([*words[0][:many], *words[1][: max(1, _TERMS - many)]])
    return topic(one.first, other.last, (f"({'–'.join(ends)}) " if ends else "") + ", ".join(filter(None, terms)))
