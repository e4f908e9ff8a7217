"""Journals of streams as rows, so that every host can resume a stream and end one whose host has died."""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta

import msgspec
import psycopg

from contextinfinity.domain.ids import StepId
from contextinfinity.storage.database import Connection
from contextinfinity.storage.journal.journal_reader import ChangeSignal, JournalEntry
from contextinfinity.storage.journal.shared import StoredSteps, WrittenEntries
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.postgres.connection import connect
from contextinfinity.storage.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0
_decoder = msgspec.json.Decoder(list[JournalEntry])


class JournalRows:
    """``SharedJournals`` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._bells: dict[StepId, list[ChangeSignal]] = {}
        self._changing = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    def write(self, written: Sequence[WrittenEntries]) -> Future[StoredSteps]:
        """Store entries, each once. The writers cannot be declared dead until this is done."""

        def work(connection: Connection) -> StoredSteps:
            writers = (json.dumps(sorted({each.writer for each in written})),)
            asked = (json.dumps([pack(each.step_id).hex() for each in written]),)
            connection.prefetch(("lock_live_writers", writers), ("select_steps_written", asked))
            live = {writer for (writer,) in connection.many("lock_live_writers", writers)}
            known = {unpack(step_id) for (step_id,) in connection.many("select_steps_written", asked)}
            stored = [each for each in written if each.step_id in known and each.writer in live]
            rows = [
                {
                    "step_id": pack(step_id),
                    "first": entries[0].seq,
                    "last": entries[-1].seq,
                    "entries": zlib.compress(msgspec.json.encode(entries), 1),
                }
                for step_id, _, entries in stored
            ]
            connection.execute_many("insert_journal_block", rows)
            steps = [each.step_id for each in stored]
            connection.execute("notify_journals", (json.dumps(steps),))
            return StoredSteps(steps, [each.step_id for each in written if each.writer not in live])

        return self._database.writing(work)

    def blocked_seconds(self) -> float:
        """Return for how many seconds the server has given no sign while this process waits for it."""
        return self._database.silence.seconds()

    def prune(self, keep: timedelta) -> None:
        """Delete what was written longer ago than ``keep`` and belongs to steps that have ended. Blocks."""
        seconds = keep.total_seconds()
        self._database.writing(lambda connection: connection.execute("prune_journals", (seconds,))).result()

    async def entries(self, step_id: StepId, after: int) -> Sequence[JournalEntry]:
        """Return the entries after number ``after``, in order."""
        values = {"step_id": pack(step_id), "after": after}
        rows = await self._database.read(lambda connection: connection.many("select_journal_blocks", values))
        read = (entry for (entries,) in rows for entry in _decoder.decode(zlib.decompress(entries)))
        found = {entry.seq: entry for entry in read if entry.seq > after}  # what was copied twice is there twice
        return [found[seq] for seq in sorted(found)]

    def listen(self, step_id: StepId, bell: ChangeSignal) -> None:
        """Signal when a host adds entries."""
        with self._changing:
            self._bells.setdefault(step_id, []).append(bell)
            if self._thread is None and not self._database.address.begin:  # a pooler passes no notifications on
                self._thread = threading.Thread(target=self._listen, name="journal-listener", daemon=True)
                self._thread.start()

    def unlisten(self, step_id: StepId, bell: ChangeSignal) -> None:
        """Stop signalling."""
        with self._changing:
            bells = self._bells[step_id]
            bells.remove(bell)
            if not bells:
                del self._bells[step_id]

    def close(self) -> None:
        """End the thread that listens."""
        self._closed = True
        if self._thread is not None:
            self._thread.join()

    def _listen(self) -> None:
        while not self._closed:
            try:
                with connect(self._database.address) as connection:
                    connection.execute("LISTEN contextinfinity_journals")
                    self._ring(list(self._bells))  # what was added before
                    while not self._closed:
                        for notice in connection.notifies(timeout=RECONNECT_SECONDS, stop_after=1):
                            self._ring([notice.payload])
            except psycopg.Error as error:
                log.info("notifications of the ledger are not received now: %s", error)
                threading.Event().wait(RECONNECT_SECONDS)

    def _ring(self, step_ids: Sequence[StepId]) -> None:
        with self._changing:
            bells = [bell for step_id in step_ids for bell in self._bells.get(step_id, ())]
        for bell in bells:
            bell.ring()
