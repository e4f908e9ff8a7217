"""A conversation as a plain list of turns: the form in which applications log it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextinfinity.domain.message import Role
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.domain.wire import lone_surrogate
from contextinfinity.errors import InvalidInput

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}

LONGEST_ID = 128
"""The maximum length of a thread id in every backend, so that threads can move between backends."""


@dataclass(frozen=True)
class Turn:
    """One message of one role: user, assistant, system or tool."""

    role: str
    content: str


class Thread:
    """One conversation. ``turns`` is its current list of turns, oldest first."""

    def __init__(self, thread_id: str, turns: Iterable[Turn] = ()) -> None:
        self._thread_id = thread_id
        self._turns = list(turns)

    @property
    def thread_id(self) -> str:
        """The id of the thread; it never changes."""
        return self._thread_id

    @property
    def turns(self) -> list[Turn]:
        """The turns; only ``add_turn`` and ``clear_thread`` change them."""
        return self._turns

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._thread_id!r})"


def can_be_a_thread(thread_id: str) -> bool:
    """Return whether a thread id is valid."""
    return 1 <= len(thread_id) <= LONGEST_ID and _is_unicode(thread_id)


def check_thread_id(thread_id: str) -> None:
    """Raise ``InvalidInput`` if a thread id is too long, empty or not valid Unicode."""
    if not can_be_a_thread(thread_id):
        raise InvalidInput(
            f"A thread id of {len(thread_id)} characters cannot be used.",
            hint=f"It has 1 to {LONGEST_ID} characters of valid Unicode.",
        )


def check_turn(turn: Turn) -> None:
    """Raise ``InvalidInput`` if a turn has an unknown role or content that cannot be stored."""
    if turn.role not in ROLES:
        raise InvalidInput(f"The role of a turn is {turn.role!r}; it may be {', '.join(ROLES)}.")
    if not isinstance(turn.content, str):
        raise InvalidInput(f"The content of a turn is of type {type(turn.content).__name__}; it must be a string.")
    try:
        turn.content.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The content of a turn holds {lone_surrogate(error)}.") from error


def logged(turn: LedgerTurn) -> list[Turn]:
    """Return a ledger turn as one or two plain turns: the message, and the answer if there is one."""
    said = [Turn(role=turn.user_message.role, content=turn.user_message.rendered_text)]
    if turn.answer is not None:
        said.append(Turn(role=turn.answer.role, content=turn.text))
    return said


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
