"""The floor: raw SQLite writing the rows of an exchange, and nothing else.

The same tables and indexes, WAL, ``synchronous=FULL``, ``BEGIN IMMEDIATE``, prepared statements, one thread.
No asyncio, no checks, no triggers, no foreign keys, nothing read back; ids, hashes and compressed bodies
are made before the clock starts. So everything ContextInfinity adds to the rows shows up in the ratio.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from benchmarks.content import MODEL, WORKER, Content
from contextinfinity.domain import wire
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import Message
from contextinfinity.domain.prefix_hash import after, alone, beginning
from contextinfinity.domain.search import NewChunk
from contextinfinity.domain.session import Branch, Owner
from contextinfinity.domain.turn import Exchange
from contextinfinity.storage.ledger.keyword_index import SAMPLED, owner_token, session_token, token_of
from contextinfinity.storage.ledger.rows import items_column, message_columns, pack
from contextinfinity.text.keywords import VERSION, terms

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
Transaction: TypeAlias = tuple[Statement, ...]

_MESSAGE = "INSERT INTO message (session_id, role, text, blocks, content_hash) VALUES (?, ?, ?, ?, ?)"
_TURN = """INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, state_before, user_message, owner, created_at,
  updated_at) VALUES (?, ?, ?, ?, 'Accepted', ?, ?, ?, ?, ?)"""
_STEP = """INSERT INTO step (id, session_id, turn_id, step_index, provider, model_id, started_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)"""
_PLAN = "INSERT INTO plan (turn_id, step_index, session_id, body) VALUES (?, 0, ?, ?)"
_RETRIEVAL = "INSERT INTO retrieval (turn_id, chunk_id, session_id, similarity, rank) VALUES (?, ?, ?, ?, ?)"
_STEP_END = """UPDATE step SET items = ?, outcome = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?, cost = ?,
  displayed_bytes = ?, durable_bytes = ?, ended_at = ? WHERE id = ?"""
_SPENDING = """INSERT INTO spending VALUES ('', 'local', ?, ?)
  ON CONFLICT (org_id, user_id, day) DO UPDATE SET dollars = dollars + excluded.dollars"""
_RESPONSE = "INSERT INTO response (step_id, session_id, body) VALUES (?, ?, ?)"
_DAY = 24 * 3600 * 1000
_SPENDING = """INSERT INTO spending (org_id, user_id, day, dollars) VALUES ('', 'local', ?, ?)
  ON CONFLICT (org_id, user_id, day) DO UPDATE SET dollars = spending.dollars + excluded.dollars"""
_TURN_END = """UPDATE turn SET phase = 'ResponseFinalized', outcome = ?, answer = ?, updated_at = ?, input_tokens = ?,
  output_tokens = ?, cached_tokens = ?, cost = ? WHERE id = ?"""
_TRAIL = "INSERT INTO trail (turn_id, session_id, asked, answered, alone) VALUES (?, ?, ?, ?, ?)"
_END = """INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
  VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT (branch_id) DO UPDATE SET turn_id = excluded.turn_id,
  turn_seq = excluded.turn_seq, is_own = 1, answered = excluded.answered, alone = excluded.alone"""
_JOB = """INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?)"""
_STATE = """INSERT INTO state (id, session_id, branch_id, state_seq, parent_id, turn_seq, covers_turn_seq, reason,
  token_count_est, created_at, schema_version) VALUES (?, ?, ?, ?, ?, ?, 0, ?, 0, ?, 1)"""
_CHUNK = """INSERT INTO chunk (id, session_id, branch_id, turn_id, side, start, end, summary, chunk_type, token_est,
  content_hash, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_NAMESPACE = "INSERT OR IGNORE INTO namespace (key, name, dim, state) VALUES (1, ?, 256, 'current')"
_VECTOR = "INSERT INTO vector (key, namespace_key, chunk_key) VALUES (?, 1, ?)"
_BODY = "INSERT INTO loose_vector (key, namespace_key, session_id, body) VALUES (?, 1, ?, ?)"
_PLACED = "UPDATE namespace SET placed = placed + ?, filled = ? WHERE key = 1"
_COUNTED = "UPDATE word_state SET chunks = chunks + ? WHERE one = 1"
_WORDS = "INSERT INTO keyword (rowid, words) VALUES (?, ?)"
_STATED = """UPDATE word_state SET messages = messages + ?1, indexed = indexed + ?1, places = places + ?1, version = ?2
  WHERE one = 1"""
_SCOPE = """INSERT INTO word_scope (token, messages, places, first, last) VALUES (?1, ?2, ?2, ?3, ?4)
  ON CONFLICT (token) DO UPDATE SET messages = messages + ?2, places = places + ?2, last = ?4"""
_SAMPLE = "INSERT INTO word_sample (word, places) VALUES (?, 1) ON CONFLICT (word) DO UPDATE SET places = places + 1"
_UNCUT = "INSERT INTO uncut VALUES (?)"
_BRANCH = "UPDATE branch SET last_turn_seq = ?, head_state = ?, head_seq = ? WHERE id = ?"
_RECORDED = """INSERT INTO turn (id, session_id, branch_id, turn_seq, state_before, state_after, phase, outcome,
  user_message, answer, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 'Done', 'completed', ?, ?, ?, ?)"""


@dataclass
class Place:
    """Where the next exchange of a branch goes."""

    session_id: bytes
    branch_id: bytes
    head: bytes
    head_seq: int
    turn_seq: int
    tokens: tuple[str, str]
    """Of the session and its owner, as they stand among the words."""

    @staticmethod
    def of(branch: Branch) -> Place:
        """The end of a branch."""
        ids = (pack(branch.session_id), pack(branch.id), pack(branch.head_state))
        tokens = (session_token(ids[0]), owner_token(Owner()))
        return Place(*ids, branch.head_seq, branch.last_turn_seq, tokens)


class Floor:
    """A raw connection to a file that has our tables."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)
        for (name,) in self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            self.connection.execute(f"DROP TRIGGER {name}")
        self._messages: int = self.connection.execute("SELECT coalesce(max(key), 0) FROM message").get
        self._chunks: int = self.connection.execute("SELECT coalesce(max(key), 0) FROM chunk").get
        self.connection.execute(_NAMESPACE, (MODEL,))
        self._vectors: int = self.connection.execute("SELECT coalesce(max(key), 0) FROM vector").get

    def write(self, *transactions: Transaction) -> None:
        """Run transactions in one commit."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for transaction in transactions:
            for sql, values in transaction:
                execute(sql, values)
        execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def answering(self, place: Place, made: Content, turn: bytes) -> tuple[Transaction, ...]:
        """The rows of TX-0, which begins the turn at once, TX-P and TX-A."""
        now, step, end = _now(), made.step, made.end.step
        assert end is not None
        assert made.end.answer is not None
        place.turn_seq += 1
        self._messages += 2
        step_id, usage = pack(step.id), end.usage
        tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost)
        accept = (
            ("UPDATE branch SET last_turn_seq = ? WHERE id = ?", (place.turn_seq, place.branch_id)),
            (_MESSAGE, _message(place, made.question)),
            (_TURN, (turn, place.session_id, place.branch_id, place.turn_seq, place.head, self._messages - 1, WORKER,
                     now, now)),
            *_words(place, (self._messages - 1, made.question)),
            ("UPDATE session SET updated_at = ? WHERE id = ?", (now, place.session_id)),
            ("UPDATE turn SET phase = 'ContextPrepared', updated_at = ? WHERE id = ?", (now, turn)),
        )  # fmt: skip
        open_step = (
            (_STEP, (step_id, place.session_id, turn, 0, step.provider, step.model_id, now)),
            (_PLAN, (turn, place.session_id, wire.dumps(step.plan).decode())),
            *((_RETRIEVAL,
               (turn, pack(placed.chunk_id), place.session_id, placed.similarity, placed.rank))
              for placed in step.plan.retrieved),
            ("UPDATE turn SET phase = 'Responding', provider = ?, model = ?, updated_at = ? WHERE id = ?",
             (step.provider, step.model_id, now, turn)),
        )  # fmt: skip
        items, outcome = items_column(end.items, made.end.answer), wire.dumps(end.outcome).decode()
        trail = _trail(made.question, made.end.answer)
        finalise: tuple[Statement, ...] = (
            (_STEP_END, (items, outcome, *tokens, end.displayed_bytes, end.durable_bytes, now, step_id)),
            (_SPENDING, (now // 86_400_000, end.usage.cost)),
            (_MESSAGE, _message(place, made.end.answer)),
            *_words(place, (self._messages, made.end.answer)),
            (_TURN_END, (made.end.outcome, self._messages, now, *tokens, turn)),
            (_TRAIL, (turn, place.session_id, *trail)),
            (_END, (place.branch_id, place.session_id, turn, place.turn_seq, *trail[1:])),
            _job("summarize_turn", place, turn, now),
        )
        if end.usage.cost:
            finalise += ((_SPENDING, (now // _DAY, end.usage.cost)),)
        if end.response is not None:
            body = zlib.compress(end.response, 6)
            finalise += ((_RESPONSE, (step_id, place.session_id, body)),)
        return accept, open_step, finalise

    def whole(self, place: Place, made: Content) -> tuple[Transaction, ...]:
        """The rows of all four."""
        turn, state, now = pack(new_id()), pack(new_id()), _now()
        answering = self.answering(place, made, turn)
        number = place.head_seq + 1
        settle: list[Statement] = [
            ("DELETE FROM job WHERE turn_id = ?", (turn,)),
            ("UPDATE turn SET state_after = ?, phase = 'Done', updated_at = ? WHERE id = ?", (state, now, turn)),
            (_STATE, (state, place.session_id, place.branch_id, number, place.head, place.turn_seq, "turn", now)),
            ("UPDATE branch SET head_state = ?, head_seq = ? WHERE id = ?", (state, number, place.branch_id)),
        ]
        place.head, place.head_seq = state, number
        assert made.end.answer is not None
        texts = {"user": made.question.rendered_text, "assistant": made.end.answer.rendered_text}
        settle += [row for chunk in made.chunks for row in self._chunk(place, turn, chunk, texts[chunk.side])]
        settle.append((_COUNTED, (len(made.chunks),)))
        if vectors := sum(chunk.embedding is not None for chunk in made.chunks):
            settle.append((_PLACED, (vectors, self._chunks)))
        return *answering, tuple(settle)

    def recorded(self, place: Place, exchange: Exchange) -> Transaction:
        """The rows of an exchange that was finished elsewhere, with the state that counts past it."""
        assert exchange.answer is not None
        state, now = pack(new_id()), _now()
        place.turn_seq += 1
        place.head_seq += 1
        self._messages += 2
        turn = (pack(new_id()), place.session_id, place.branch_id, place.turn_seq, place.head, state)
        exchanged = _trail(exchange.message, exchange.answer)[2]
        rows: Transaction = (
            (
                _STATE,
                (state, place.session_id, place.branch_id, place.head_seq, place.head, place.turn_seq, "record", now),
            ),
            (_BRANCH, (place.turn_seq, state, place.head_seq, place.branch_id)),
            (_MESSAGE, _message(place, exchange.message)),
            (_MESSAGE, _message(place, exchange.answer)),
            *_words(place, (self._messages - 1, exchange.message), (self._messages, exchange.answer)),
            (_RECORDED, (*turn, self._messages - 1, self._messages, now, now)),
            (_END, (place.branch_id, place.session_id, turn[0], place.turn_seq, None, exchanged)),
            (_UNCUT, (self._messages - 1,)),
            ("UPDATE session SET updated_at = ? WHERE id = ?", (now, place.session_id)),
        )
        place.head = state
        return rows

    def _chunk(self, place: Place, turn: bytes, chunk: NewChunk, words: str) -> tuple[Statement, ...]:
        self._chunks += 1
        digest = wire.text_hash(words[chunk.start : chunk.end])
        owner = (pack(new_id()), place.session_id, place.branch_id, turn)
        span = (chunk.side, chunk.start, chunk.end, chunk.summary, chunk.chunk_type, chunk.token_est)
        row: Statement = (_CHUNK, (*owner, *span, digest, _now()))
        if chunk.embedding is None:
            return (row,)
        self._vectors += 1
        vector = (self._vectors, place.session_id, chunk.embedding.values)
        return row, (_VECTOR, (self._vectors, self._chunks)), (_BODY, vector)


def connect(path: Path) -> apsw.Connection:
    """Open a file as durable as ours, with nothing else set but what makes SQLite quick."""
    connection = apsw.Connection(str(path), statementcachesize=256)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else joins are prepared again for each bound value
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = OFF"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _now() -> int:
    return time.time_ns() // 1_000_000


def _trail(question: Message, answer: Message | None) -> tuple[int, int, int]:
    assert answer is not None
    asked = after(beginning(Owner()), question)
    return asked, after(asked, answer), after(alone(question, Owner()), answer)


def _message(place: Place, message: Message) -> tuple[Any, ...]:
    return (place.session_id, message.role, *message_columns(message))


def _words(place: Place, *said: tuple[int, Message]) -> Iterator[Statement]:
    """Return the rows of the index for new messages."""
    for key, message in said:
        words = [token_of(term) for term in dict.fromkeys(terms(message.rendered_text))]
        yield _WORDS, (4 * key, " ".join((*place.tokens, *words)))
        if key % SAMPLED == 0:
            yield from ((_SAMPLE, (word,)) for word in words)
    yield _STATED, (len(said), VERSION)
    for token in place.tokens:
        yield _SCOPE, (token, len(said), said[0][0], said[-1][0])


def _job(job_type: str, place: Place, turn: bytes, now: int) -> Statement:
    return (_JOB, (job_type, place.session_id, place.branch_id, turn, place.turn_seq, now, now, now))
