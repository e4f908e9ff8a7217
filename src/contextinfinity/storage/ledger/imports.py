"""Imported messages: duplicates are detected in the transaction that adds them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

import msgspec

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, from_millis, to_millis
from contextinfinity.domain.imported import ImportCounts, ImportedMessage, ImportedTurn, Origin
from contextinfinity.domain.state import State
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.imports import Pair, check_arrivals, exchange_of, hash_of, pairs_of
from contextinfinity.storage.invariants import can_be_answered, check_message, row_limit
from contextinfinity.storage.ledger.binding import StoreResource, looks, reads
from contextinfinity.storage.ledger.contents import metadata_column
from contextinfinity.storage.ledger.recording import answer, append, last_turn, settled_head
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.ledger.sessions import existing_branch

_EXPORTED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9]+")
"""The message id in our own exports: the turn's id and the message's position in the turn."""

Hashed = tuple[ImportedMessage, bytes]


def origins_of_turn(connection: Connection, turn_ids: Collection[TurnId]) -> dict[TurnId, tuple[Origin, ...]]:
    """Return the origins of the messages of turns."""
    rows = {turn_id: connection.many("select_origins", (pack(turn_id),)) for turn_id in turn_ids}
    return {turn_id: tuple(map(_to_origin, found)) for turn_id, found in rows.items() if found}


def read_beginning(connection: Connection, session_id: SessionId, *, limit: int = 64) -> tuple[Origin, ...]:
    """Return the origins of a session with the lowest positions."""
    values = (pack(session_id), row_limit(limit))
    return tuple(map(_to_origin, connection.many("select_beginning", values)))


def add_messages(connection: Connection, branch_id: BranchId, hashed: Sequence[Hashed]) -> ImportCounts:
    """Append the messages that the session does not have yet."""
    session_id = pack(existing_branch(connection, branch_id).session_id)
    fresh, there, clashing = _sift(connection, session_id, hashed)
    if fresh:
        head = settled_head(connection, branch_id)
        rest = [each for each, _ in fresh]
        keys = _answered(connection, branch_id, head, rest[0])
        if keys:
            rest, head = rest[1:], settled_head(connection, branch_id)
        keys += _appended(connection, branch_id, head, pairs_of(rest, there)) if rest else []
        rows = [origin_columns(key, answers, session_id, *of) for (key, answers), of in zip(keys, fresh, strict=True)]
        connection.execute_many("insert_origin", rows)
    skipped = len(hashed) - len(fresh) - len(clashing)
    return ImportCounts(added=len(fresh), skipped=skipped, clashing=tuple(clashing))


def _sift(
    connection: Connection, session_id: bytes, hashed: Sequence[Hashed]
) -> tuple[list[Hashed], list[int], list[int]]:
    """Return new messages, the positions of duplicates, and those whose id belongs to a message with other text."""
    fresh: list[Hashed] = []
    there: list[int] = []
    clashing: list[int] = []
    new: dict[object, bytes] = {}
    for each, digest in hashed:
        key = each.external_id or (each.place, digest)
        before = kept_hash(connection, session_id, each, digest)
        known = before or new.get(key)
        if known is None:
            new[key] = digest
            fresh.append((each, digest))
        elif known != digest:
            clashing.append(each.place)
        elif before:
            there.append(each.place)
    return fresh, there, clashing


def kept_hash(connection: Connection, session_id: bytes, each: ImportedMessage, digest: bytes) -> bytes | None:
    """Return the stored hash of the message with the same identity; None if it is new."""
    if each.external_id is None:
        row = connection.one("select_by_place", (session_id, each.place, digest))
    else:
        name = (external_id_mark(session_id, each.external_id), session_id, each.external_id)
        row = connection.one("select_by_external_id", name)
        if row is None and (found := _EXPORTED.fullmatch(each.external_id)) is not None:
            is_own = connection.one("select_own_turn", (pack(found[1]), session_id)) is not None
            return digest if is_own else None
    return None if row is None else row[0]


def _answered(
    connection: Connection, branch_id: BranchId, head: State, first: ImportedMessage
) -> list[tuple[int, int]]:
    """Make ``first`` the answer of the newest turn, if that was imported before it without one; return its key."""
    turn = last_turn(connection, branch_id) if first.message.role == "assistant" else None
    if turn is None or not can_be_answered(turn, head):
        return []
    place = {"branch_id": pack(branch_id), "first": turn.turn_seq, "last": turn.turn_seq}
    question = connection.one("select_message_keys", place)[0]  # type: ignore[index]
    stood = connection.one("select_last_place", (question,))[0]  # type: ignore[index]
    if stood is None or stood >= first.place:
        return []
    answer(connection, branch_id, head, turn, first.message)
    return [(connection.one("select_message_keys", place)[1], 1)]  # type: ignore[index]


def _appended(connection: Connection, branch_id: BranchId, head: State, pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    """Add turns; return for each message the key of its row, and whether it is an answer."""
    turns = append(connection, branch_id, head, [exchange_of(pair) for pair in pairs])
    place = {"branch_id": pack(branch_id), "first": turns[0].turn_seq, "last": turns[-1].turn_seq}
    keys: list[tuple[int, int]] = []
    for pair, (question, replied) in zip(pairs, connection.many("select_message_keys", place), strict=True):
        keys += [(question, 0)] * len(pair.said)
        keys += [] if pair.answer is None else [(replied, 1)]
    return keys


def origin_columns(
    key: int, answers: int, session_id: bytes, each: ImportedMessage, digest: bytes
) -> tuple[object, ...]:
    """Return the row that keeps where a message came from."""
    said_at = None if each.created_at is None else to_millis(each.created_at)
    mark, details = external_id_mark(session_id, each.external_id), metadata_column(each.details)
    return key, each.place, session_id, answers, each.external_id, mark, digest, said_at, details


def external_id_mark(session_id: bytes, external_id: str | None) -> int | None:
    """Return a 64-bit hash of an external id, which keeps the index small."""
    if external_id is None:
        return None
    digest = hashlib.blake2b(session_id + external_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _to_origin(row: Row) -> Origin:
    answers, place, digest, external_id, said_at, details = row
    return Origin(
        side="assistant" if answers else "user",
        place=place,
        content_hash=digest.hex(),
        external_id=external_id,
        created_at=None if said_at is None else from_millis(said_at),
        details=None if details is None else msgspec.json.decode(details),
    )


class LedgerImports(StoreResource):
    """``ImportStore`` of the contract, on a database."""

    origins = looks(origins_of_turn)
    beginning = reads(read_beginning)

    async def add(self, branch_id: BranchId, arrivals: Sequence[ImportedMessage]) -> ImportCounts:
        """Append the messages that the session does not have yet; they are hashed before the transaction begins."""
        check_arrivals(arrivals)
        hashed = [(each, hash_of(each)) for each in arrivals]
        return await self._database.write(lambda connection: add_messages(connection, branch_id, hashed), bulk=True)

    async def add_turns(self, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
        """Add the turns that the session does not have yet."""
        from contextinfinity.storage.ledger.imported_turns import add_turns  # avoids a circular import

        for turn in turns:
            check_message(turn.message)
            check_arrivals(turn.messages)
            if turn.answer is not None:
                check_message(turn.answer)
        return await self._database.write(lambda connection: add_turns(connection, session_id, turns), bulk=True)
