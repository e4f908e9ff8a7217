"""What stands in a spool, and what it comes to.

A record is one thing that happened while the ledger was away. Folded together they are a cargo: sessions and texts,
then turns and exchanges in the order in which they were begun, each as far as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Exchange, NewStep, NewTurn, TurnEnd
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.replay import Landing


class SessionHeld(Struct, frozen=True, kw_only=True, tag="session"):
    """A session was made, under ids that were given out."""

    new: NewSession


class TextHeld(Struct, frozen=True, kw_only=True, tag="text"):
    """A text was kept that a plan refers to."""

    body: str


class TurnHeld(Struct, frozen=True, kw_only=True, tag="turn"):
    """A message was accepted."""

    new: NewTurn
    said_at: datetime


class StepHeld(Struct, frozen=True, kw_only=True, tag="step"):
    """A provider was asked."""

    turn_id: TurnId
    step: NewStep


class EndHeld(Struct, frozen=True, kw_only=True, tag="end"):
    """A turn ended."""

    turn_id: TurnId
    end: TurnEnd
    failed: bool = False


class ExchangeHeld(Struct, frozen=True, kw_only=True, tag="exchange"):
    """A finished turn from elsewhere was recorded, under the id it brings."""

    branch_id: BranchId
    exchange: Exchange


Record: TypeAlias = SessionHeld | TextHeld | TurnHeld | StepHeld | EndHeld | ExchangeHeld
Item: TypeAlias = Landing | ExchangeHeld


@dataclass
class Cargo:
    """What has to land: sessions and texts first, then turns in their order."""

    sessions: list[NewSession] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    turns: dict[TurnId, Item] = field(default_factory=dict)
    damaged: int = 0
    """How many records could not be read."""


def written(record: Record) -> bytes:
    """Give a record as it stands in the file."""
    return wire.dumps(record)


def cargo_of(records: Iterable[bytes | None]) -> Cargo:
    """Fold records together; what makes no sense is counted, and the rest still lands."""
    cargo = Cargo()
    for record in records:
        try:
            _load(cargo, wire.loads(Record, record or b""))
        except (msgspec.DecodeError, InvalidInput):
            cargo.damaged += 1
    return cargo


def _load(cargo: Cargo, record: Record) -> None:
    match record:
        case SessionHeld(new=session):
            cargo.sessions.append(session)
        case TextHeld(body=body):
            cargo.texts.append(body)
        case TurnHeld(new=new, said_at=said_at):
            turn_id = new.id or ""
            cargo.turns[turn_id] = Landing(turn_id=turn_id, new=new, said_at=said_at)
        case ExchangeHeld(exchange=exchange):
            cargo.turns[exchange.id or ""] = record
        case StepHeld(turn_id=turn_id, step=step):
            landing = landing_of(cargo.turns, turn_id)
            cargo.turns[turn_id] = replace(landing, steps=(*landing.steps, step))
        case EndHeld(turn_id=turn_id, end=end, failed=failed):
            cargo.turns[turn_id] = replace(landing_of(cargo.turns, turn_id), end=end, failed=failed)


class Belongings(Struct, frozen=True, kw_only=True):
    """To what a record belongs, as far as it says so."""

    turn_id: TurnId = ""
    branch_id: BranchId | None = None
    session_id: SessionId | None = None
    said_at: datetime | None = None


def belongings(record: bytes | None) -> Belongings | None:
    """Say to what a record belongs; None for a text, and for a record that is damaged."""
    try:
        found = wire.loads(Record, record or b"")
    except (msgspec.DecodeError, InvalidInput):
        return None
    match found:
        case SessionHeld(new=session):
            return Belongings(session_id=session.id)
        case TurnHeld(new=new, said_at=said_at):
            return Belongings(turn_id=new.id or "", branch_id=new.branch_id, said_at=said_at)
        case ExchangeHeld(branch_id=branch_id, exchange=said):
            return Belongings(turn_id=said.id or "", branch_id=branch_id, said_at=said.created_at)
        case StepHeld(turn_id=turn_id) | EndHeld(turn_id=turn_id):
            return Belongings(turn_id=turn_id)
    return None


def steps_in(records: Iterable[bytes | None]) -> set[StepId]:
    """Name the steps of the turns in a spool."""
    landings = (item for item in cargo_of(records).turns.values() if isinstance(item, Landing))
    return {step.id for landing in landings for step in landing.steps}


def in_order(turns: Mapping[TurnId, Item]) -> list[Item]:
    """Give what has to land in the order of its branch: what the ledger had accepted came before what was held.

    A process makes its ids in the order in which it accepts.
    """
    accepted, held = list[Landing](), list[Item]()
    for item in turns.values():
        if isinstance(item, Landing) and item.new is None:
            accepted.append(item)
        else:
            held.append(item)
    return [*sorted(accepted, key=lambda landing: landing.turn_id), *held]


def id_of(item: Item) -> TurnId:
    """Give the id of an item's turn; ids of one host sort by the time at which they were made."""
    return item.turn_id if isinstance(item, Landing) else item.exchange.id or ""


def branch_of(item: Item) -> BranchId | None:
    """Give the branch an item is appended to; None when the ledger had accepted its turn already."""
    if isinstance(item, Landing):
        return None if item.new is None else item.new.branch_id
    return item.branch_id


def landing_of(turns: dict[TurnId, Item], turn_id: TurnId) -> Landing:
    """Give how far a turn has come; one the ledger had accepted begins with nothing."""
    there = turns.get(turn_id)
    return there if isinstance(there, Landing) else Landing(turn_id=turn_id)
