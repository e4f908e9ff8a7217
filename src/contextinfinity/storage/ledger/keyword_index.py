"""The keyword index in SQLite (FTS5), written in the transactions of the messages.

A row's id is 4 * message.key + its kind. Besides the words, a row holds a session token and an owner token, so that a
search within a session or owner is an intersection. Tokens start with a character that no word contains. The same
transaction updates the counts.

New rows are collected in ``connection.unindexed`` and written together by ``write_words`` before the commit, because
FTS5 flushes its pending words at every savepoint, which would happen for each message of a group commit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from contextinfinity.domain.search import ChunkSide
from contextinfinity.domain.session import Owner
from contextinfinity.storage.database import Connection, Values
from contextinfinity.storage.ledger.rows import must
from contextinfinity.text.keywords import VERSION, terms

BORROWED_FROM = 2
"""How many earlier turns a turn borrows words from."""
MOST_TERMS = 32
"""At most this many words of a question are looked up."""


def weight(count: int, total: int) -> int:
    """Return the weight of a word by its rarity; even, so that half of it (for a borrowed word) is an integer."""
    rest = max(total - count, 0)
    return 2 * round(1024 * math.log1p((rest + 0.5) / (count + 0.5)))


OWN, LENT, TOOL = 0, 1, 2
"""Kinds of rows: a message's own words, those it borrows; with ``TOOL`` added, the same of its turn's tool side."""

SAMPLED = 64
"""Word frequencies are estimated from one in this many messages."""

_SAFE = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
"""Characters that SQLite would split a word at, and their replacements."""


def token_of(term: str) -> str:
    """Escape a word so that SQLite does not split it."""
    return term if term.isalnum() else term.translate(_SAFE)


def session_token(session_id: bytes) -> str:
    """Return the token of a session."""
    return f"\ue100{session_id.hex()}"


def owner_token(owner: Owner) -> str:
    """Return the token of an owner. Tokens can collide: the scope filter checks the owner of every hit."""
    digest = hashlib.blake2b(f"{len(owner.org_id)} {owner.org_id} {owner.user_id}".encode(), digest_size=8)
    return f"\ue101{digest.hexdigest()}"


def index_messages(connection: Connection, session_id: bytes, said: Sequence[tuple[int, str]]) -> None:
    """Index the words of new messages: (key, text)."""
    for key, text in said:
        connection.unindexed[4 * key] = (session_id, text, True)


def asked_by_index(session_id: bytes) -> tuple[str, Values]:
    """Return the statement that ``write_words`` begins with for messages of one session."""
    return _select_owners({session_id})


def _select_owners(sessions: Collection[bytes]) -> tuple[str, Values]:
    return "select_session_owners", (json.dumps([session_id.hex() for session_id in sessions]),)


def write_words(connection: Connection) -> None:
    """Write the pending rows and update the total, session and owner counts."""
    waiting = connection.unindexed
    if not waiting:
        return
    tokens = _tokens_of(connection, {session_id for session_id, _, _ in waiting.values()})
    lines, sampled, scopes = list[tuple[int, str]](), list[tuple[str]](), dict[str, _IndexedCounts]()
    total = _IndexedCounts()
    for row, (session_id, text, is_new) in waiting.items():
        words = _words(text)
        lines.append((row, _line(words, tokens[session_id])))
        if row & LENT:
            continue
        if row % 4 == OWN and (row // 4) % SAMPLED == 0:
            sampled += [(word,) for word in words]
        counted = _IndexedCounts(int(is_new), int(row % 4 == OWN), int(bool(text.strip())), row // 4, row // 4)
        total = total.plus(counted)
        for token in tokens[session_id]:
            scopes[token] = scopes.get(token, _IndexedCounts()).plus(counted)
    waiting.clear()
    connection.execute_many("insert_words", lines)
    connection.execute_many("count_sample", sampled)
    if scopes:
        connection.execute("count_words", {**total._asdict(), "version": VERSION})
        sessions_of = {token: session_id for session_id, pair in tokens.items() for token in pair}
        counts = [
            {**count._asdict(), "token": token, "session_id": sessions_of[token]} for token, count in scopes.items()
        ]
        connection.execute_many("count_scope", counts)


class _IndexedCounts(NamedTuple):
    """Additions to the index: messages new in the ledger, messages, positions; the first and last message."""

    said: int = 0
    messages: int = 0
    places: int = 0
    first: int = 2**62
    last: int = 0

    def plus(self, other: _IndexedCounts) -> _IndexedCounts:
        """Add another count."""
        sums = (self.said + other.said, self.messages + other.messages, self.places + other.places)
        return _IndexedCounts(*sums, min(self.first, other.first), max(self.last, other.last))


def index_again(connection: Connection, session_id: bytes, said: Sequence[tuple[int, str]], *, other: bool) -> None:
    """Replace the indexed words of messages; ``other``: the old words were written by another version."""
    write_words(connection)
    indexed = _indexed(connection, [4 * key for key, _ in said])
    there = [(key, text) for key, text in said if 4 * key in indexed]
    index_missing(connection, session_id, said)
    tokens = _tokens(connection, session_id)
    connection.execute_many("replace_words", [(4 * key, _line(_words(text), tokens)) for key, text in there])
    if other:
        _count_samples(connection, there)


def clear_samples(connection: Connection) -> None:
    """Reset the counts of how common words are."""
    connection.execute("clear_sample")


def index_missing(connection: Connection, session_id: bytes, said: Iterable[tuple[int, str]]) -> None:
    """Index messages without words: they are older than the index."""
    texts = {4 * key: text for key, text in said}
    there = _indexed(connection, texts)
    connection.unindexed.update((row, (session_id, text, False)) for row, text in texts.items() if row not in there)


def index_sides(
    connection: Connection,
    session_id: bytes,
    keys: tuple[int, int | None],
    tool_text: str,
    borrowed: Mapping[ChunkSide, str],
) -> None:
    """Index the words of a turn's tool side, and the words that its sides borrow."""
    question, answer = keys
    rows: dict[ChunkSide, int] = {"user": 4 * question, "tool": 4 * question + TOOL}
    rows |= {} if answer is None else {"assistant": 4 * answer}
    texts = {rows["tool"]: tool_text}
    texts |= {row + LENT: borrowed[side] for side, row in rows.items() if side in borrowed}
    there = _indexed(connection, texts)
    for row, text in texts.items():
        if row in there:
            _replace_words(connection, session_id, row, text)
        elif text.strip():
            connection.unindexed[row] = (session_id, text, False)


def forget_session_words(connection: Connection, session_id: bytes) -> None:
    """Delete a session's counts."""
    connection.execute("delete_scope", (session_token(session_id),))


def _replace_words(connection: Connection, session_id: bytes, row: int, text: str) -> None:
    """Replace the indexed borrowed words of a message, or the tool text of its turn."""
    write_words(connection)
    tokens = _tokens(connection, session_id)
    if text.strip():
        connection.execute("replace_words", (row, _line(_words(text), tokens)))
        return
    connection.execute("delete_words", (row,))
    if not row & LENT:
        less: dict[str, object] = {
            "said": 0,
            "messages": 0,
            "places": -1,
            "version": VERSION,
            "first": row // 4,
            "last": row // 4,
        }
        connection.execute("count_words", less)
        less["session_id"] = session_id
        connection.execute_many("count_scope", [{**less, "token": token} for token in tokens])


def forget_words(connection: Connection, session_id: bytes, said: Sequence[tuple[int, str]]) -> None:
    """Undo the counts of messages that are about to be deleted, except those that triggers maintain."""
    write_words(connection)
    keys = {"messages": json.dumps([key for key, _ in said])}
    messages, places = must(connection.one("count_indexed", keys), "session", session_id.hex())
    token = _tokens(connection, session_id)[1]
    counts = {"messages": messages, "places": places, "token": token, "session_id": session_id}
    connection.execute("shrink_scope", counts)
    words = [(word,) for key, text in said if key % SAMPLED == 0 for word in _words(text)]
    connection.execute_many("unsay_sample", words)
    connection.execute_many("delete_sample", words)


def _tokens(connection: Connection, session_id: bytes) -> tuple[str, str]:
    return _tokens_of(connection, {session_id})[session_id]


def _tokens_of(connection: Connection, sessions: Collection[bytes]) -> dict[bytes, tuple[str, str]]:
    """Return the tokens of sessions and of their owners; raise ``NotFound`` if one is unknown."""
    rows = connection.many(*_select_owners(sessions))
    owners = {session_id: Owner(org_id=org_id, user_id=user_id) for session_id, org_id, user_id in rows}
    for session_id in sessions:
        must(owners.get(session_id), "session", session_id.hex())
    return {session_id: (session_token(session_id), owner_token(owner)) for session_id, owner in owners.items()}


def _count_samples(connection: Connection, said: Iterable[tuple[int, str]]) -> None:
    """Count the words of the sampled messages."""
    words = [(word,) for key, text in said if key % SAMPLED == 0 for word in _words(text)]
    connection.execute_many("count_sample", words)


def _words(text: str) -> list[str]:
    """Return the escaped words of a text, each once."""
    words = list(dict.fromkeys(terms(text)))
    return words if "".join(words).isalnum() else [token_of(word) for word in words]


def _line(words: list[str], tokens: tuple[str, str]) -> str:
    return " ".join((*tokens, *words))


def _indexed(connection: Connection, rows: Collection[int]) -> set[int]:
    """Return those of the rows that have words, or will have before the commit."""
    found = connection.many("select_rows", (json.dumps(list(rows)),))
    return {row for (row,) in found} | (connection.unindexed.keys() & set(rows))
