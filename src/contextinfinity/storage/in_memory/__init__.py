"""The small ledger of plain dicts in which ``standby`` continues a branch; nothing else uses it."""

from __future__ import annotations

from contextinfinity.storage.in_memory.branches import InMemoryBranches
from contextinfinity.storage.in_memory.sessions import InMemorySessions
from contextinfinity.storage.in_memory.states import InMemoryStates
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.in_memory.turns import InMemoryTurns


class InMemoryStore:
    """The nouns of a ``Store`` that a held branch needs."""

    def __init__(self, tables: Tables | None = None) -> None:
        self._tables = tables or Tables()
        self.sessions = InMemorySessions(self._tables)
        self.branches = InMemoryBranches(self._tables)
        self.turns = InMemoryTurns(self._tables)
        self.states = InMemoryStates(self._tables)


__all__ = ["InMemoryStore"]
