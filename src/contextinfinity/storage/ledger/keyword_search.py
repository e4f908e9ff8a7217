"""Keyword search: positions with the most and the rarest words, in bounded time however common the words are.

    small scope (a session)   every word is looked up, so the result is exact
    large scope               the rarest words are looked up, newest positions first; for positions that would be shown,
                              the common words are read from the text

SQLite returns the rows of each word as one string; numpy combines them. A scope with a small part of the ledger is
intersected with each word; a larger scope is checked on the found positions, best first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from contextinfinity.domain.search import Scope, TextPosition, WordHit, WordHits
from contextinfinity.domain.turn import side_text
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import row_limit
from contextinfinity.storage.ledger.keyword_index import (
    MOST_TERMS,
    SAMPLED,
    owner_token,
    session_token,
    token_of,
    weight,
)
from contextinfinity.storage.ledger.rows import pack, to_message
from contextinfinity.storage.ledger.scope_filter import Number, ScopeFilter
from contextinfinity.storage.ledger.turns import find_turn
from contextinfinity.text.keywords import among

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]


SMALL = 20_000
"""Scopes up to this many positions are searched exactly."""
SHARE = 16
"""A scope with less than one part in this many of the ledger is intersected with each word."""
MOST_ROWS = 8_192
"""Rows of one word that are looked up in a large scope."""
ALL_ROWS = 2 * MOST_ROWS
"""Rows of all words together that are looked up in a large scope."""
ENOUGH = 512
"""With this many rows common words are not looked up; also the limit of rows with the two least common words."""
FURTHEST = 4_096
"""The most positions that are checked against the scope."""
LAST = 2**62


class _Within(NamedTuple):
    """The range of a keyword search: the tokens that a row must contain, and the first and last row.

    ``part`` is the share of these rows that belongs to the scope.
    """

    places: int
    tokens: tuple[str, ...] = ()
    first: int = 0
    last: int = LAST
    part: float = 1.0
    known: float = 1.0
    """Its share of the ledger; scales the frequency of a word in the whole ledger."""


class _LookedUp(NamedTuple):
    """The rows of each word, the number of positions with it, and the words whose rows are incomplete."""

    rows: list[Numbers]
    counts: list[int]
    partly: list[int]


class _Ranked(NamedTuple):
    """Positions, best first, with bit masks of the words that each contains and borrows."""

    numbers: list[Number]
    own: list[int]
    lent: list[int]


def find_words(connection: Connection, terms: Sequence[str], scope: Scope, *, most: int = 128) -> WordHits:
    """Return positions that contain any of the terms, those with the most and the rarest terms first.

    A borrowed term has half the weight; of equal scores the newer position comes first. The result is exact within
    a session; in large scopes common words are looked up among the newest positions only. ``since`` is inclusive,
    ``until`` exclusive; ``types`` admits sides that have a chunk of one of these types.
    """
    asked = list(terms[:MOST_TERMS])
    words = list(dict.fromkeys(asked))
    within = _within(connection, scope)
    if within is None or not words:
        return WordHits(counts=(0,) * len(asked), total=0 if within is None else within.places)
    found = _look_up(connection, words, within)
    weights = [weight(count, within.places) for count in found.counts]
    hits = _admitted(connection, _ranked(found, weights), scope, row_limit(most), wider=bool(found.partly))
    if found.partly:
        hits = _read_again(connection, hits, words, found.partly)
        hits.sort(key=lambda hit: -_score(hit[1], weights))
    places = [words.index(term) for term in asked]
    best = [hit for _, hit in hits[: row_limit(most)]]
    return WordHits(
        hits=tuple(best if len(words) == len(asked) else (_spread(hit, places) for hit in best)),
        counts=tuple(found.counts[place] for place in places),
        total=within.places,
    )


# --- where to look ---


def _within(connection: Connection, scope: Scope) -> _Within | None:
    """Return where to search for a scope; None if it is empty."""
    (everywhere,) = connection.many("select_places")[0]
    session = None if scope.session_id is None else pack(scope.session_id)
    if scope.branch_id is not None:
        branch = connection.one("select_branch", (pack(scope.branch_id),))
        if branch is None or session not in (None, branch[1]):
            return None
        session = branch[1]
    owner = scope.owner
    if session is None:
        if owner is None:
            return _Within(everywhere)
        token = owner_token(owner)
    else:
        if owner is not None and connection.one("select_session_owner", (session,)) != (owner.org_id, owner.user_id):
            return None
        token = session_token(session)
    return _within_part(connection, token, everywhere)


def _within_part(connection: Connection, token: str, everywhere: int) -> _Within | None:
    row = connection.one("select_scope", (token,))
    if row is None:
        return None
    messages, places, first, last = row
    part = places / max(everywhere, 1)
    rows = {"first": 4 * first, "last": 4 * last + 3, "known": part}
    if last - first + 1 == messages:  # all keys between are its own
        return _Within(places, **rows)
    if places <= SMALL or part * SHARE < 1:
        return _Within(places, tokens=(token,), **rows)
    return _Within(places, part=part, **rows)


# --- looking words up ---


def _look_up(connection: Connection, words: Sequence[str], within: _Within) -> _LookedUp:
    import numpy as np

    none = np.empty(0, dtype=np.int64)
    found = _LookedUp([none] * len(words), [0] * len(words), [])
    if within.places <= SMALL:
        for at, word in enumerate(words):
            found.rows[at] = _rows(connection, (word,), within, LAST)
            found.counts[at] = _own(found.rows[at])
        return found
    common = _common(connection, words, within)
    left, rarest = ALL_ROWS, sorted(range(len(words)), key=lambda at: (common[at], at))
    for at in rarest:
        found.counts[at] = common[at]
        if left < min(common[at], MOST_ROWS) or (common[at] > MOST_ROWS and ALL_ROWS - left >= ENOUGH):
            found.partly.append(at)
            continue
        rows = found.rows[at] = _rows(connection, (words[at],), within, MOST_ROWS)
        left -= len(rows)
        if len(rows) < MOST_ROWS:
            found.counts[at] = round(_own(rows) * within.part)
        else:
            found.partly.append(at)
    if len(found.partly) == len(words) > 1:
        _look_up_together(connection, words, within, found, rarest[:2])
    return found


def _look_up_together(
    connection: Connection, words: Sequence[str], within: _Within, found: _LookedUp, both: Sequence[int]
) -> None:
    """Add rows that contain both of the two least common words."""
    import numpy as np

    rows = _rows(connection, [words[at] for at in both], within, ENOUGH)
    for at in both:
        found.rows[at] = np.union1d(found.rows[at], rows)


def _common(connection: Connection, words: Sequence[str], within: _Within) -> list[int]:
    """Estimate the number of positions with each word from the sampled counts."""
    tokens = [token_of(word) for word in words]
    asked = msgspec.json.encode(tokens).decode()
    sampled: dict[str, int] = dict(connection.many("select_samples", (asked,)))
    return [round(sampled.get(token, 0) * SAMPLED * within.known) for token in tokens]


def _rows(connection: Connection, words: Sequence[str], within: _Within, most: int) -> Numbers:
    import numpy as np

    tokens = [*within.tokens, *map(token_of, words)]
    values = {
        "phrase": " AND ".join(f'"{token}"' for token in tokens),
        "tokens": msgspec.json.encode(tokens).decode(),
        "first": within.first,
        "last": within.last,
        "most": most,
    }
    (text,) = connection.many(("find_all_rows" if most == LAST else "find_rows"), values)[0]
    return np.fromstring(text or "", dtype=np.int64, sep=",")


def _own(rows: Numbers) -> int:
    """Count the rows of own words."""
    return int(len(rows) - (rows & 1).sum())


# --- ranking ---


def _ranked(found: _LookedUp, weights: Sequence[int]) -> _Ranked:
    """Score and sort positions: a borrowed word has half its weight; of equal scores the newer comes first."""
    import numpy as np

    rows = np.concatenate(found.rows)
    words = np.repeat(np.arange(len(weights)), [len(each) for each in found.rows])
    rows = np.sort((rows >> 1) << 6 | words << 1 | rows & 1)
    if not len(rows):
        return _Ranked([], [], [])
    numbers, words, borrowed = rows >> 6, rows >> 1 & 31, rows & 1
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    bits = np.left_shift(1, words)
    own, lent = (np.bitwise_or.reduceat(bits * which, starts) for which in (1 - borrowed, borrowed))
    value = np.asarray(weights)[words] >> borrowed
    value[1:] *= np.diff(rows >> 1) != 0  # count a word once that is both contained and borrowed
    score = np.add.reduceat(value, starts)
    order = -(score << 41 | numbers[starts])
    best = np.argpartition(order, FURTHEST)[:FURTHEST] if len(order) > FURTHEST else np.arange(len(order))
    best = best[np.argsort(order[best])]
    return _Ranked(numbers[starts][best].tolist(), own[best].tolist(), lent[best].tolist())


def _score(hit: WordHit, weights: Sequence[int]) -> int:
    score, lent = 0, hit.lent & ~hit.own
    for at, each in enumerate(weights):
        if hit.own >> at & 1:
            score += each
        elif lent >> at & 1:
            score += each // 2
    return score


Hits: TypeAlias = list[tuple[Number, WordHit]]


def _admitted(connection: Connection, ranked: _Ranked, scope: Scope, most: int, *, wider: bool) -> Hits:
    """Return the best positions within the scope; ``wider``: a quarter more, because the order may still change."""
    admission, wanted = ScopeFilter(connection, scope), most + most // 4 * wider
    hits: Hits = []
    for batch in _batches(len(ranked.numbers), wanted):
        places = admission.admitted(ranked.numbers[batch])
        hits += (
            (number, WordHit(places[number], own, lent))
            for number, own, lent in zip(ranked.numbers[batch], ranked.own[batch], ranked.lent[batch], strict=True)
            if number in places
        )
        if len(hits) >= wanted:
            break
    return hits[:wanted]


def _batches(length: int, wanted: int) -> Iterator[slice]:
    """Yield growing slices of a list; usually the first is enough."""
    start, size = 0, wanted
    while start < length and wanted:
        yield slice(start, start + size)
        start, size = start + size, 2 * size


def _read_again(connection: Connection, hits: Hits, words: Sequence[str], partly: Sequence[int]) -> Hits:
    """Read from the texts which of the common words each position contains."""
    keys = msgspec.json.encode([number >> 1 for number, _ in hits if not number & 1]).decode()
    rows = connection.many("select_messages", (keys,))
    texts = {2 * key: to_message(*content).rendered_text for key, *content in rows}
    again: Hits = []
    common = [words[at] for at in partly]
    for number, hit in hits:
        text = _tool_text(connection, hit.place) if number & 1 else texts.get(number, "")
        said, own = among(text, common), hit.own
        for at in partly:
            own |= (words[at] in said) << at
        again.append((number, WordHit(hit.place, own, hit.lent)))
    return again


def _tool_text(connection: Connection, place: TextPosition) -> str:
    turn = find_turn(connection, place.turn_id)
    return "" if turn is None else side_text(turn, "tool")


def _spread(hit: WordHit, places: Sequence[int]) -> WordHit:
    """Reorder the bits to the order of the question, where a word can occur twice."""
    own = sum((hit.own >> place & 1) << at for at, place in enumerate(places))
    lent = sum((hit.lent >> place & 1) << at for at, place in enumerate(places))
    return WordHit(hit.place, own, lent)
