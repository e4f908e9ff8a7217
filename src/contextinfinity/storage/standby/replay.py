"""Writes the spools of all processes on this data_dir into the ledger, in the order in which turns were accepted.

A branch takes its next message only after this has run, so nothing that any process acknowledged, whether that process
is dead or alive, can end up behind a later message. Every record may be replayed any number of times by any process:
what the ledger has is left as it is. Only removing a spool needs its lock.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from pathlib import Path

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.errors import BranchBusy, LedgerFailed, OutOfOrder
from contextinfinity.storage.standby.landing import Lander, waits_for_its_turn
from contextinfinity.storage.standby.records import Cargo, Item, branch_of, cargo_of, id_of, in_order
from contextinfinity.storage.standby.spool import SUFFIX, Spool, records_in


class Replay:
    """Reads the spools in a folder and writes what is new in them into the ledger."""

    def __init__(self, folder: Path, lander: Lander) -> None:
        self._folder = folder
        self._lander = lander
        self._read: dict[str, tuple[tuple[int, int], Cargo]] = {}
        """By spool: its inode and size when it was read, and its records."""
        self._written: dict[TurnId, Item] = {}
        self._sessions: set[SessionId | None] = set()
        self._texts: set[str] = set()
        self._running = asyncio.Lock()

    async def run(self, *, before: BranchId | None = None) -> None:
        """Replay all spools, before a message is appended to that branch or something is looked up.

        ``LedgerError`` when the ledger cannot be written; ``BranchBusy`` when a spooled exchange of the branch has to
        wait for a running turn. Without spools this costs one look at the folder.
        """
        if not self._refresh():
            return
        async with self._running:
            for cargo in self._cargoes():
                await self._write_content(cargo)
            waiting: set[BranchId] = set()
            for item in merge(*(in_order(cargo.turns) for cargo in self._cargoes()), key=id_of):
                branch = branch_of(item)
                if branch not in waiting and not await self._write(item) and branch is not None:
                    waiting.add(branch)
        if before in waiting:
            raise BranchBusy(f"Branch {before} has spooled turns that wait for a running one.")

    def spooled(self, branch_id: BranchId, own: Spool | None) -> Iterator[Item]:
        """Give what other processes hold for a branch, in the order in which it was accepted."""
        ours = "" if own is None else own.path.name
        self._refresh(but=ours)
        others = [in_order(cargo.turns) for name, (_, cargo) in self._read.items() if name != ours]
        return (item for item in merge(*others, key=id_of) if branch_of(item) == branch_id)

    def _refresh(self, *, but: str = "") -> bool:
        """Read the spools that changed, forget those that are gone, and tell whether there are any.

        The file called ``but`` is not read. ``LedgerFailed`` when another one cannot be.
        """
        found: dict[str, tuple[tuple[int, int], Cargo]] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and entry.name != but:
                        with suppress(FileNotFoundError):  # its process was done with it just now
                            found[entry.name] = self._cargo(entry)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise LedgerFailed(f"The spools in {self._folder} could not be read ({error.strerror}).") from error
        self._read = found
        if not found and not but:
            self._written.clear()
            self._sessions.clear()
            self._texts.clear()
        return bool(found)

    def _cargo(self, entry: os.DirEntry[str]) -> tuple[tuple[int, int], Cargo]:
        version = (entry.inode(), entry.stat().st_size)
        there = self._read.get(entry.name)
        if there is not None and there[0] == version:
            return there
        return version, cargo_of(records_in(Path(entry.path)))

    def _cargoes(self) -> list[Cargo]:
        return [cargo for _, cargo in self._read.values()]

    async def _write_content(self, cargo: Cargo) -> None:
        """Create sessions and keep texts once; a session that was deleted since must not come back."""
        for new in cargo.sessions:
            if new.id not in self._sessions:
                await self._lander.session(new)
                self._sessions.add(new.id)
        for body in cargo.texts:
            if body not in self._texts:
                await self._lander.text(body)
                self._texts.add(body)

    async def _write(self, item: Item) -> bool:
        """Write one item; False when its place in the branch is not taken yet."""
        if self._written.get(id_of(item)) == item:
            return True
        try:
            turn = await self._lander.turn(item)
        except OutOfOrder:  # an exchange needs a branch on which nothing is being answered
            return False
        if turn is None or not waits_for_its_turn(turn, item):
            self._written[id_of(item)] = item
        return True
