"""What is kept while the database is away: turns that wait to be written, and what was said last.

Both are bounded. ``Holding`` is the seam: this one holds turns in memory, and a durable one can take its place. A turn
that waits has its id already, so that writing it twice writes it once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from contextinfinity.conversation_memory.values import Turn

MOST_HELD = 1_000
MOST_CHARACTERS = 16_000_000
MOST_SESSIONS = 64
MOST_TURNS = 50


@dataclass(frozen=True, kw_only=True)
class HeldTurn:
    """A turn that was said and is to be written."""

    id: str
    session_id: str
    user_id: str
    query: str
    response: str
    metadata: dict[str, Any]
    created_at: datetime

    @property
    def characters(self) -> int:
        """How much it takes."""
        return len(self.query) + len(self.response) + len(str(self.metadata))


class Holding(Protocol):
    """Turns that wait for the database, in the order in which they were said."""

    def hold(self, turn: HeldTurn) -> bool:
        """Take a turn; False when there is no room, and then nothing was taken."""
        ...

    def waiting(self) -> tuple[HeldTurn, ...]:
        """Give all that wait, the oldest first."""
        ...

    def let_go(self, turn_id: str) -> None:
        """Forget a turn: it was written, or never can be."""
        ...


class InMemoryHolding:
    """``Holding`` that ends with the process."""

    def __init__(self, most: int = MOST_HELD, characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._room = characters
        self._turns: OrderedDict[str, HeldTurn] = OrderedDict()
        self._lock = threading.Lock()

    def hold(self, turn: HeldTurn) -> bool:
        """Take a turn, if there is room."""
        with self._lock:
            if len(self._turns) >= self._most or turn.characters > self._room:
                return False
            self._turns[turn.id] = turn
            self._room -= turn.characters
            return True

    def waiting(self) -> tuple[HeldTurn, ...]:
        """Give all that wait."""
        with self._lock:
            return tuple(self._turns.values())

    def let_go(self, turn_id: str) -> None:
        """Forget a turn."""
        with self._lock:
            turn = self._turns.pop(turn_id, None)
            self._room += 0 if turn is None else turn.characters


class Recent:
    """The last turns of the sessions spoken in last, for when the database cannot be asked."""

    def __init__(self, sessions: int = MOST_SESSIONS) -> None:
        self._most = sessions
        self._sessions: OrderedDict[str, deque[Turn]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, session_id: str, turns: Iterable[Turn]) -> None:
        """Remember turns; one that is known is replaced."""
        with self._lock:
            known = {turn.id: turn for turn in self._sessions.pop(session_id, ())}
            known |= {turn.id: turn for turn in turns}
            in_order = sorted(known.values(), key=lambda turn: turn.turn_number)
            self._sessions[session_id] = deque(in_order, maxlen=MOST_TURNS)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)

    def turns(self, session_id: str) -> list[Turn]:
        """Give what is remembered of a session, the oldest first."""
        with self._lock:
            return list(self._sessions.get(session_id, ()))

    def forget(self, session_id: str) -> None:
        """Remember nothing of a session."""
        with self._lock:
            self._sessions.pop(session_id, None)
