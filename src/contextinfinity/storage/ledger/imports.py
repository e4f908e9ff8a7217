"""Imported messages: how they become turns; duplicates are detected in the transaction that adds them.

A message is a duplicate if its conversation already has its ``external_id`` or, without one, if the same text was
imported from the same position. A user message starts a turn, and the next assistant message answers it. Consecutive
tool results form one message, because a model must see them together. Any other assistant message is a turn of its own.

In conversations with branches each turn is stored once, on the branch of its parent. Consecutive turns are written
together, with one state for all of them. A branch is created in the same transaction as
its first turn, so that a killed import leaves no empty branches.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, from_millis, new_id, to_millis
from contextinfinity.domain.message import Message, ToolOutputItem, ToolResultBlock, TranscriptItem
from contextinfinity.domain.state import State
from contextinfinity.domain.transfer import ImportCounts, ImportedMessage, ImportedTurn, Origin
from contextinfinity.domain.turn import Completed, Exchange, Paused, Turn
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.database import Connection, Row, StoreResource, looks, reads
from contextinfinity.storage.invariants import LARGEST_COUNT, can_be_answered, check_json, check_message, row_limit
from contextinfinity.storage.ledger.contents import metadata_column
from contextinfinity.storage.ledger.recording import answer, append, last_turn, settled_head
from contextinfinity.storage.ledger.rows import inputs_column, items_column, must, pack, unpack
from contextinfinity.storage.ledger.sessions import existing_branch, fork_branch

LONGEST_ID = 512
HASH_BYTES = 16


class Pair(NamedTuple):
    """Messages that become one turn."""

    said: tuple[ImportedMessage, ...]
    answer: ImportedMessage | None = None

    @property
    def is_open(self) -> bool:
        """Whether the turn still lacks an answer."""
        return self.answer is None and self.said[0].message.role != "assistant"


def pairs_of(imported: Sequence[ImportedMessage], there: Collection[int] = ()) -> list[Pair]:
    """Group messages into turns, but not across positions that exist already."""
    pairs: list[Pair] = []
    known = sorted(there)
    for each in imported:
        last = pairs[-1] if pairs else None
        if last is not None and bisect(known, last.said[-1].place) != bisect(known, each.place):
            last = None
        if last is not None and last.is_open and each.message.role == "assistant":
            pairs[-1] = Pair(last.said, each)
        elif last is not None and last.answer is None and _brings_results(each) and _brings_results(last.said[-1]):
            pairs[-1] = Pair((*last.said, each))
        else:
            pairs.append(Pair((each,)))
    return pairs


def exchange_of(pair: Pair) -> Exchange:
    """Return the turn that a pair becomes, with the time of its first message."""
    first, answer = pair.said[0], pair.answer
    blocks = tuple(block for each in pair.said for block in each.message.blocks)
    everything = pair.said if answer is None else (*pair.said, answer)
    return Exchange(
        message=first.message if len(pair.said) == 1 else Message(role="tool", blocks=blocks),
        answer=None if answer is None else answer.message,
        created_at=next((each.created_at for each in everything if each.created_at is not None), None),
        model=next((each.model for each in reversed(everything) if each.model), ""),
    )


def hash_of(imported: ImportedMessage) -> bytes:
    """Return a short hash of a message's content, to recognise it within one conversation."""
    return wire.content_hash(imported.message)[:HASH_BYTES]


def check_imported(imported: Sequence[ImportedMessage]) -> None:
    """Raise ``InvalidInput`` for imported messages that cannot be stored."""
    for each in imported:
        check_message(each.message)
        check_json(each.details, "details")
        if not 0 <= each.place <= LARGEST_COUNT:
            raise InvalidInput(f"place is {each.place}; it may be 0 to 2**53.")
        if each.external_id is not None and not 1 <= len(each.external_id) <= LONGEST_ID:
            raise InvalidInput(f"The id has {len(each.external_id)} characters; it may have 1 to {LONGEST_ID}.")


def _brings_results(imported: ImportedMessage) -> bool:
    blocks = imported.message.blocks
    return imported.message.role == "tool" and any(isinstance(block, ToolResultBlock) for block in blocks)


_EXPORTED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9]+")
"""The message id in our own exports: the turn's id and the message's position in the turn."""

Hashed = tuple[ImportedMessage, bytes]


def origins_of_turn(connection: Connection, turn_ids: Collection[TurnId]) -> dict[TurnId, tuple[Origin, ...]]:
    """Return the origins of the messages of turns, question first; turns that were not imported are left out."""
    rows = {turn_id: connection.many("select_origins", (pack(turn_id),)) for turn_id in turn_ids}
    return {turn_id: tuple(map(_to_origin, found)) for turn_id, found in rows.items() if found}


def read_beginning(connection: Connection, session_id: SessionId, *, limit: int = 64) -> tuple[Origin, ...]:
    """Return the origins of a session with the lowest positions, in order."""
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


class ImportStore(StoreResource):
    """Imported messages, each stored once. The rules of ``storage.contract`` apply."""

    origins = looks(origins_of_turn)
    beginning = reads(read_beginning)

    async def add(self, branch_id: BranchId, imported: Sequence[ImportedMessage]) -> ImportCounts:
        """Append the messages that the session does not have yet, as turns in phase Done without an owner.

        One state covers all of them. If the first message is an answer, and the branch's newest turn was imported
        without one from an earlier position, it becomes that turn's answer. Two new messages with an existing one
        between them do not form one turn. Raises ``OutOfOrder`` if there is something to add while turns of the branch
        are neither committed nor failed.
        """
        check_imported(imported)
        hashed = [(each, hash_of(each)) for each in imported]
        return await self._database.write(lambda connection: add_messages(connection, branch_id, hashed), bulk=True)

    async def add_turns(self, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
        """Add the turns that the session does not have yet, in one transaction; parents must precede their children.

        A turn is appended to its parent's branch, or to a new branch forked after the parent if that branch has
        continued; the first turn without a parent starts the main branch. The result counts messages; one that
        several branches share is counted once. Turns after a deleted turn are left out (``clashing``). Raises
        ``OutOfOrder`` while turns of a branch are neither committed nor failed.
        """
        for turn in turns:
            check_message(turn.message)
            check_imported(turn.messages)
            if turn.answer is not None:
                check_message(turn.answer)
        return await self._database.write(lambda connection: add_turns(connection, session_id, turns), bulk=True)


PROVIDER = "import"


def add_turns(connection: Connection, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
    """Add the turns that the session does not have yet; parents must precede their children."""
    key = pack(session_id)
    must(connection.one("select_session", (key,)), "session", session_id)
    added, clashing = 0, list[int]()
    for run in _runs(connection, turns):
        branch_id = _branch_after(connection, key, run[0].parent)
        if branch_id is None:
            clashing += [each.place for turn in run for each in turn.messages]
            continue
        added += _append(connection, key, branch_id, run)
    if added:
        begun = min((turn.created_at for turn in turns if turn.created_at is not None), default=None)
        connection.execute("date_session", {"id": key, "begun": None if begun is None else to_millis(begun)})
    names = {each.external_id for turn in turns for each in turn.messages}
    return ImportCounts(added=added, skipped=len(names) - added - len(clashing), clashing=tuple(clashing))


def _is_there(connection: Connection, turn_id: TurnId) -> bool:
    """Return whether the turn exists or was deleted."""
    key = (pack(turn_id),)
    return connection.one("select_place", key) is not None or connection.one("select_buried_turn", key) is not None


def _runs(connection: Connection, turns: Sequence[ImportedTurn]) -> Iterator[list[ImportedTurn]]:
    """Yield new turns in runs of consecutive ones."""
    run: list[ImportedTurn] = []
    for turn in turns:
        is_new = not _is_there(connection, turn.id)
        if run and (not is_new or turn.parent != run[-1].id):
            yield run
            run = []
        if is_new:
            run.append(turn)
    if run:
        yield run


def _branch_after(connection: Connection, session_id: bytes, parent: TurnId | None) -> BranchId | None:
    """Return a branch that ends with the parent, forking if needed; None if the parent is unknown."""
    if parent is None:
        place = (must(connection.one("select_main_branch", (session_id,)), "session", unpack(session_id))[0], 0)
    elif (found := connection.one("select_place", (pack(parent),))) is not None:
        place = found
    else:
        return None
    branch = existing_branch(connection, unpack(place[0]))
    if branch.last_turn_seq == place[1]:
        return branch.id
    return fork_branch(connection, branch.id, at=place[1]).id


def _append(connection: Connection, session_id: bytes, branch_id: BranchId, run: Sequence[ImportedTurn]) -> int:
    """Append consecutive turns; return how many of their messages are on no other branch."""
    exchanges = [
        Exchange(id=turn.id, message=turn.message, answer=turn.answer, created_at=turn.created_at, model=turn.model)
        for turn in run
    ]
    made = append(connection, branch_id, settled_head(connection, branch_id), exchanges)
    place = {"branch_id": pack(branch_id), "first": made[0].turn_seq, "last": made[-1].turn_seq}
    keys = connection.many("select_message_keys", place)
    added = 0
    for turn, imported, (question, answered) in zip(made, run, keys, strict=True):
        added += _insert_origins(connection, session_id, imported, question, answered)
        if imported.rounds:
            _insert_steps(connection, session_id, turn, imported.rounds)
    return added


def _insert_origins(
    connection: Connection, session_id: bytes, turn: ImportedTurn, question: int, answer: int | None
) -> int:
    """Write the origins of a turn's messages and return how many; one that another branch has is written once.

    All replies of a turn belong to its answer, if it has one.
    """
    sides = [(question, 0), *[(question, 0) if answer is None else (answer, 1)] * (len(turn.messages) - 1)]
    rows = [
        origin_columns(key, answers, session_id, each, hash_of(each))
        for (key, answers), each in zip(sides, turn.messages, strict=True)
        if kept_hash(connection, session_id, each, hash_of(each)) is None
    ]
    connection.execute_many("insert_origin", rows)
    return len(rows)


def _insert_steps(connection: Connection, session_id: bytes, turn: Turn, rounds: Sequence[TranscriptItem]) -> None:
    """Write the tool rounds of a turn as steps, each with its tool outputs and its response."""
    steps: list[tuple[list[ToolOutputItem], list[TranscriptItem]]] = [([], [])]
    for item in rounds:
        if isinstance(item, ToolOutputItem):
            if steps[-1][1]:
                steps.append(([], []))
            steps[-1][0].append(item)
        else:
            steps[-1][1].append(item)
    if steps[-1][1]:
        steps.append(([], []))
    last = len(steps) - 1
    moment = to_millis(turn.created_at)
    rows = [
        {
            "id": pack(new_id()),
            "session_id": session_id,
            "turn_id": pack(turn.id),
            "step_index": index,
            "provider": PROVIDER,
            "model_id": turn.model,
            "inputs": inputs_column(tuple(inputs)),
            "items": items_column(tuple(items), None),
            "outcome": wire.dumps(Completed() if index == last else Paused(reason="tool_use")).decode(),
            "now": moment,
        }
        for index, (inputs, items) in enumerate(steps)
    ]
    connection.execute_many("insert_recorded_step", rows)
    connection.execute("count_steps", {"id": pack(turn.id), "steps": len(steps)})
