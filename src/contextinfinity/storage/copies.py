"""Files outside the ledger that contain conversation text, and how deleted text is removed from them.

``copies_of`` lists them all: journals, journals that a repair set aside, lines typed at the prompt of ``cix chat``,
temporary files, refused spools, backups, and the history files of workspaces. ``clear`` is idempotent and stateless:
the ledger knows what has to be removed, and keeps the intent row of a deletion until all copies are clear. A new kind
of file that contains conversation text has to be added to that list.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from contextinfinity.domain.ids import SessionId, StepId, is_id
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import LedgerBusy, LedgerFailed
from contextinfinity.storage import typed_lines
from contextinfinity.storage.deletion_scan import DataFiles, FilesScan, scan_files
from contextinfinity.storage.folders import is_locked, make_private, sync_folder
from contextinfinity.storage.journal.journal_reader import END, open_lines
from contextinfinity.storage.ledger.deletions import Deletions

if TYPE_CHECKING:
    from contextinfinity.storage.standby.spool import Item, Spooled

log = logging.getLogger(__name__)

ELSEWHERE = "written_elsewhere"
"""The file in the folder of backups that names the backups written to other places, one path per line."""
LOOK_SECONDS, BACKUP_SECONDS = 0.05, 10.0
"""Polling interval and longest wait of a deletion for a backup that another process is writing."""
LEFT_SECONDS = 86_400.0
"""Age from which a temporary file, or an unfinished journal of an unknown step, is removed; two ledgers may share a
data_dir."""


_COMMAND = re.compile(r"\A/\w*")
"""How a typed line begins that is a command; a message that begins with a slash is typed with two."""


class Copy(Protocol):
    """One kind of file that contains conversation text."""

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Remove text that is deleted or past its time to live; ``sessions`` are being deleted.

        Raises ``LedgerError`` if that is not possible now.
        """
        ...

    async def clear_turn(self, turn: Turn) -> None:
        """Remove the text of a turn that is about to be deleted; its journals are removed after that."""
        ...


class ThreadCopy(Protocol):
    """The threads that a second backend keeps beside the ledger (``storage.threads_shadow``)."""

    async def clear(self, session: Session, turn: Turn | None = None) -> None:
        """Remove the thread of a session, or what one turn says; raises ``LedgerError`` if that is not possible now."""
        ...


class Copies:
    """All copies, in the order in which they are cleared; ``backups`` and ``spools`` are folders in the data_dir."""

    def __init__(
        self,
        *kinds: Copy,
        backups: Path | None = None,
        spools: Path | None = None,
        scanned: DataFiles | None = None,
        threads: ThreadCopy | None = None,
    ) -> None:
        self.threads = threads
        self._kinds = kinds
        self._backups = backups
        self._spools = spools
        self._scanned = scanned

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId] = ()) -> None:
        """Clear all copies."""
        for copy in self._kinds:
            await _clear(copy, deletions, sessions)

    async def clear_turn(self, turn: Turn) -> None:
        """Clear all copies of one turn except its journals."""
        for copy in self._kinds:
            with _reported():
                await copy.clear_turn(turn)

    async def clear_journals(self, deletions: Deletions) -> None:
        """Clear the journals only: they cannot be matched once their turns are deleted."""
        for copy in self._kinds:
            if isinstance(copy, Journals):
                await _clear(copy, deletions, ())

    def external_backups(self) -> list[Path]:
        """Return existing backups that a user wrote to other places. These are never changed."""
        return [] if self._backups is None else external_backups(self._backups)

    async def scan(self, samples: Sequence[str]) -> tuple[FilesScan, ...]:
        """Search the bytes of every file for samples of deleted text; nothing without a data_dir."""
        if self._scanned is None:
            return ()
        return await asyncio.to_thread(scan_files, self._scanned, self.external_backups(), samples)

    async def in_use(self, deletions: Deletions) -> list[Path]:
        """Return files with deleted text that another process still uses, such as its spool."""
        from contextinfinity.storage.sqlite.backup import PATTERN
        from contextinfinity.storage.standby.spool import SUFFIX, read

        found: list[Path] = []
        for spool in sorted(self._spools.glob(f"*{SUFFIX}")) if self._spools else ():
            with suppress(FileNotFoundError):  # it was replayed just now
                if await _without_deleted(deletions, await asyncio.to_thread(read, spool)) is not None:
                    found.append(spool)
        logs = sorted(self._backups.glob(f"{PATTERN}-wal")) if self._backups else ()
        return [*found, *(log.with_name(log.name.removesuffix("-wal")) for log in logs)]


def copies_of(data_dir: Path, ledger: Path, *others: Copy, threads: ThreadCopy | None = None) -> Copies:
    """List the copies that belong to a data_dir and its ledger, and ``others`` outside of it."""
    spools, backups = ledger.with_name(f"{ledger.name}-spool"), data_dir / "backups"
    return Copies(
        Journals(data_dir / "streams", spools),
        Journals(backups, spools),
        TypedLines(data_dir / "chat_history"),
        Scratch(data_dir),
        RefusedSpools(spools),
        *others,
        Backups(backups),
        backups=backups,
        spools=spools,
        scanned=DataFiles(data_dir=data_dir, ledger=ledger, spools=spools, backups=backups),
        threads=threads,
    )


def external_backups(backups: Path) -> list[Path]:
    """Return existing backups that were written to other places."""
    try:
        lines = (backups / ELSEWHERE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [path for path in map(Path, dict.fromkeys(lines)) if path.exists()]


def note_external_backup(backups: Path, path: Path) -> None:
    """Record that a backup was written to another place, so that a deletion can list it."""
    make_private(backups)
    with open(backups / ELSEWHERE, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        file.write(f"{path.absolute()}\n")


async def _clear(copy: Copy, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
    with _reported():
        await copy.clear(deletions, sessions)


@contextmanager
def _reported() -> Iterator[None]:
    """Report a file that cannot be changed."""
    try:
        yield
    except OSError as error:
        raise LedgerFailed(
            f"Deleted text cannot be removed from {error.filename} ({error.strerror}).",
            hint="The deletion continues at the next start or with `cix cleanup`.",
        ) from error


class Journals:
    """Journals of provider calls in a folder, named after their step; copies have a number appended."""

    def __init__(self, folder: Path, spools: Path | None = None) -> None:
        self._folder = folder
        self._spools = spools

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId] = ()) -> None:
        """Remove the journals of deleted and expired turns, except those that are being written."""
        found = await asyncio.to_thread(self._found)
        if not found:
            return
        # Read the spools first: a step that leaves its spool in the meantime is then found in the ledger.
        held = await asyncio.to_thread(_steps_in_spools, self._spools)
        doomed = await deletions.steps_to_delete(found)
        stray = await deletions.stray_steps(found.keys() - held - doomed)
        paths = [path for step in doomed for path in found[step]]
        paths += [path for step in stray for path in found[step] if await asyncio.to_thread(_is_useless, path)]
        if paths:
            await asyncio.to_thread(self._remove, paths)

    async def clear_turn(self, turn: Turn) -> None:
        """Do nothing: the journals of unknown steps are removed by ``clear`` once the turn is deleted."""

    def _found(self) -> dict[StepId, list[Path]]:
        found: dict[StepId, list[Path]] = {}
        for path in self._folder.glob("*.jsonl"):
            if is_id(step := path.name.partition(".")[0]):
                found.setdefault(step, []).append(path)
        return found

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not is_locked(path):
                path.unlink(missing_ok=True)
        sync_folder(self._folder)


class TypedLines:
    """The file of lines that were typed at the prompt of ``cix chat``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Remove lines of deleted sessions and expired lines; during a deletion also lines without a session."""
        lines = await asyncio.to_thread(typed_lines.read, self._file)
        cutoffs = await deletions.cutoffs({line.session for line in lines if line.session})

        def is_kept(line: typed_lines.TypedLine) -> bool:
            if not line.session or line.at is None:
                return bool(line.text) and not sessions
            return line.session not in cutoffs or line.at > cutoffs[line.session]

        if not all(map(is_kept, lines)):
            await asyncio.to_thread(typed_lines.keep_only, self._file, is_kept)
        for unfinished in self._file.parent.glob(f"{self._file.name}.*"):  # of older releases
            unfinished.unlink(missing_ok=True)

    async def clear_turn(self, turn: Turn) -> None:
        """Remove lines whose words the turn's message contains: attachments follow them, a command may precede them."""
        said = turn.user_message.rendered_text

        def is_kept(line: typed_lines.TypedLine) -> bool:
            words = _COMMAND.sub("", line.text).strip()
            return line.session not in (None, turn.session_id) or not words or words not in said

        await asyncio.to_thread(typed_lines.keep_only, self._file, is_kept)


class Scratch:
    """Uploads, and messages in an editor, that a killed process left behind."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Remove those that are old enough to belong to no process."""
        for path in (*self._data_dir.glob(".cix-import-*"), *self._data_dir.glob("chat_history.*")):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - LEFT_SECONDS:
                    path.unlink()

    async def clear_turn(self, turn: Turn) -> None:
        """Do nothing: what they hold is in no turn yet."""


class RefusedSpools:
    """Spools that were set aside because the ledger rejected part of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Remove records of deleted sessions and expired ones, together with records without a session."""
        if not self._folder.is_dir():
            return
        from contextinfinity.storage.standby import spool

        for unfinished in self._folder.glob(f"*{spool.REFUSED}.new"):  # its writer was killed
            unfinished.unlink(missing_ok=True)
        for path, reason in spool.refused(self._folder).items():
            kept = await _without_deleted(deletions, await asyncio.to_thread(spool.read, path))
            if kept is not None:
                await asyncio.to_thread(spool.rewrite, path, kept, reason)

    async def clear_turn(self, turn: Turn) -> None:
        """Remove the records of the turn, together with records without a turn."""
        if not self._folder.is_dir():
            return
        from contextinfinity.storage.standby import spool

        for path, reason in spool.refused(self._folder).items():
            spooled = await asyncio.to_thread(spool.read, path)
            if turn.id in spooled.turns:
                turns = {turn_id: item for turn_id, item in spooled.turns.items() if turn_id != turn.id}
                kept = spool.Spooled(sessions=spooled.sessions, turns=turns)
                await asyncio.to_thread(spool.rewrite, path, kept, reason)


class Backups:
    """Backups of the ledger in the data_dir."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Delete the same sessions in each backup, and everything past its time to live."""
        if not self._folder.is_dir():
            return
        from contextinfinity.storage.sqlite.backup import PARTIAL, PATTERN
        from contextinfinity.storage.sqlite.purge import purge

        for path in self._folder.glob(f"*{PARTIAL}") if sessions else ():
            await _until_made(path)
            for unfinished in self._folder.glob(f"{path.name}*"):  # nothing if it was finished
                unfinished.unlink(missing_ok=True)
        for path in sorted(self._folder.glob(PATTERN)):
            await purge(path, sessions)

    async def clear_turn(self, turn: Turn) -> None:
        """Delete the same turn in each backup."""
        if not self._folder.is_dir():
            return
        from contextinfinity.storage.sqlite.backup import PARTIAL, PATTERN
        from contextinfinity.storage.sqlite.purge import purge

        for path in self._folder.glob(f"*{PARTIAL}"):
            await _until_made(path)
        for path in sorted(self._folder.glob(PATTERN)):
            await purge(path, (), (turn.id,))


async def _until_made(partial: Path) -> None:
    """Wait until another process has finished its backup. Raises ``LedgerBusy`` on timeout."""
    end = time.monotonic() + BACKUP_SECONDS
    while is_locked(partial):
        if time.monotonic() > end:
            raise LedgerBusy(f"The backup {partial} is being made; the deletion continues when it is done.")
        await asyncio.sleep(LOOK_SECONDS)


async def _without_deleted(deletions: Deletions, spooled: Spooled) -> Spooled | None:
    """Return a spool without deleted records and without texts (they have no session); None if nothing is deleted."""
    from contextinfinity.storage.standby.spool import Spooled, branch_of, said_at

    sessions = await deletions.sessions_of({branch for item in spooled.turns.values() if (branch := branch_of(item))})
    cutoffs = await deletions.cutoffs({*sessions.values(), *spooled.sessions})

    def is_kept(item: Item) -> bool:
        session, moment = sessions.get(branch_of(item) or ""), said_at(item)
        return session not in cutoffs or (moment is not None and moment > cutoffs[session])

    turns = {turn_id: item for turn_id, item in spooled.turns.items() if is_kept(item)}
    kept = {session_id: new for session_id, new in spooled.sessions.items() if session_id not in cutoffs}
    if len(turns) == len(spooled.turns) and len(kept) == len(spooled.sessions):
        return None
    return Spooled(sessions=kept, turns=turns)


def _is_useless(journal: Path) -> bool:
    """Return whether the journal of an unknown step can be removed: it has ended, or is a day old."""
    try:
        if journal.stat().st_mtime < time.time() - LEFT_SECONDS:
            return True
        lines = open_lines(journal)
    except OSError:
        return False
    if lines is None:
        return False
    try:
        last = lines.last()
    finally:
        lines.close()
    return last is not None and last.event_type == END


def _steps_in_spools(folder: Path | None) -> frozenset[StepId]:
    """Return the steps in spools; their journals are still needed."""
    if folder is None or not folder.is_dir():
        return frozenset()
    from contextinfinity.storage.standby.spool import steps_in

    return frozenset(steps_in(folder))
