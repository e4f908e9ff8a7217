"""Index turns for search: split each answered turn into chunks with vectors, and fill gaps in the background.

Words are indexed together with each message. This module adds chunks and vectors: in TX-C for a turn that was just
committed, and in the background for everything else (imports, older releases, a changed embedder, a crash), page by
page and throttled. Existing entries are removed only after their replacement is complete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.search import (
    Chunk,
    Embedding,
    IndexReport,
    Namespace,
    NewChunk,
    ProgressCallback,
    packed,
    place_of,
)
from contextinfinity.domain.turn import Turn, sides_of
from contextinfinity.embedders.contract import Embedder
from contextinfinity.engine.engine_setup import RetrievalParts
from contextinfinity.engine.job_runner import Throttle
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.errors import LedgerFull, LedgerReadOnly, ProviderError
from contextinfinity.prompt.redact import Redactor, hidden_part, secrets_in
from contextinfinity.retrieval.chunk_boundaries import may_change_topic
from contextinfinity.retrieval.chunking import ChunkDraft, chunks_of
from contextinfinity.storage.contract import Store, Vectors
from contextinfinity.storage.invariants import ENDED
from contextinfinity.storage.ledger.keyword_index import BORROWED_FROM
from contextinfinity.telemetry.counters import count
from contextinfinity.text.keywords import VERSION

log = logging.getLogger(__name__)

PAGE = 64
"""The number of turns or chunks that are indexed at a time."""
EMBED_SECONDS = 60.0
FOLLOW_SECONDS = 1.0
"""How long after a look-up another process may have switched to another embedder."""


@dataclass(frozen=True, kw_only=True)
class Indexer:
    """Splits turns into chunks with vectors."""

    store: Store
    retrieval: RetrievalParts | None
    redactor: Redactor | None = None
    running: Mapping[TurnId, RunningTurn] = field(default_factory=dict)
    """The turns that run in this process: background work is throttled meanwhile."""

    async def chunks_of_turn(self, answered: AnsweredTurn, *, may_wait: bool = True) -> tuple[NewChunk, ...] | None:
        """Return the chunks of a turn with their vectors (TX-C); None if ``may_wait`` is false and the embedder is
        remote.
        """
        try:
            embedder = await current_embedder(self.store.vectors, self.retrieval)
            if embedder is not None and embedder.is_remote and not may_wait:
                return None
            turn = answered.turn
            cut = await _cut(turn, answered.earlier)
            ((_, chunks),) = await self._placed([(turn, cut)], embedder)
        except Exception:
            count("indexing_failed")
            raise
        count("turns_indexed")
        return chunks

    async def reconcile(self) -> None:
        """Compare the index with the ledger, throttled, and mark what is missing for ``complete_index``."""
        after: int | None = 0
        throttle = Throttle(self.running)
        while after is not None:
            after = await self.store.index.check(after=after)
            await throttle.pause()

    async def complete(self, *, rebuild: bool = False, progress: ProgressCallback | None = None) -> IndexReport:
        """Index everything that is missing; ``rebuild`` also rebuilds the words and chunks of every turn."""
        report = progress or (lambda _done, _all: None)
        state = await self.store.index.state()
        turns = await self._again(report) if rebuild or state.version != VERSION else 0
        turns += await self._fill(report)
        vectors, switched = await self._place(report)
        return IndexReport(turns=turns, vectors=vectors, switched=switched)

    async def _cut_turns(
        self, turns: Sequence[Turn], embedder: Embedder | None
    ) -> list[tuple[TurnId, tuple[NewChunk, ...]]]:
        """Split turns into chunks and embed them."""
        throttle = Throttle(self.running)
        cuts: list[tuple[Turn, tuple[ChunkDraft, ...]]] = []
        for place, turn in enumerate(turns):
            earlier = await self._earlier(turns[:place], turn)
            cuts.append((turn, await _cut(turn, earlier)))
            await throttle.pause()
        return await self._placed(cuts, embedder)

    async def _placed(
        self, cuts: Sequence[tuple[Turn, tuple[ChunkDraft, ...]]], embedder: Embedder | None
    ) -> list[tuple[TurnId, tuple[NewChunk, ...]]]:
        """Embed the chunks of turns; without an embedder they have no vectors."""
        rows: Iterator[bytes | None] = repeat(None)
        if embedder is not None:
            texts = [text for turn, found in cuts for text in _texts(turn, found, self.redactor)]
            rows = iter(await vectors_of(embedder, texts))
        return [(turn.id, tuple(_new(cut, embedder, next(rows)) for cut in found)) for turn, found in cuts]

    async def _earlier(self, page: Sequence[Turn], turn: Turn) -> Sequence[Turn]:
        """Return the turns just before one, from the page if they are in it."""
        near = page[-BORROWED_FROM:]
        wanted = range(max(1, turn.turn_seq - BORROWED_FROM), turn.turn_seq)
        if [(one.branch_id, one.turn_seq) for one in near] == [(turn.branch_id, seq) for seq in wanted]:
            return near
        return await self.store.turns.history(turn.branch_id, limit=BORROWED_FROM, before=turn.turn_seq)

    async def _again(self, report: ProgressCallback) -> int:
        """Rebuild the words and chunks of every turn, oldest first; an unchanged chunk keeps its vector."""
        index, done, messages, after = self.store.index, 0, 0, None
        total = (await index.state()).messages
        while page := await index.turns(after=after, limit=PAGE):
            ended = {turn.id for turn in page if turn.phase in ENDED}
            cut = dict(await self._cut_turns([turn for turn in page if turn.id in ended], None))
            await index.replace([(turn.id, cut.get(turn.id, ())) for turn in page])
            after, done = page[-1].id, done + len(page)
            messages += sum(1 if turn.answer is None else 2 for turn in page)
            report(messages, max(messages, total))
        return done

    async def _fill(self, report: ProgressCallback) -> int:
        """Chunk the turns that have ended and have no chunks yet."""
        index, done, total = self.store.index, 0, 0
        while turns := await index.uncut(limit=PAGE):
            total = total or (await index.state()).uncut
            await index.fill(await self._cut_turns(turns, None))
            done += len(turns)
            report(done, max(done, total))
        return done

    async def _place(self, report: ProgressCallback) -> tuple[int, bool]:
        """Embed chunks without a vector, for the current and the configured namespace; return (vectors, switched)."""
        if self.retrieval is None:
            return 0, False
        embedders, vectors, done, switched = self.retrieval.embedders, self.store.vectors, 0, False
        await current_embedder(self.store.vectors, self.retrieval)
        chosen = await embedders.chosen()
        there = await vectors.namespaces()
        if not there and (await self.store.index.state()).chunks:
            there = (await vectors.open(chosen.name, chosen.dim),)
        for namespace in there:
            wanted = namespace.state == "current" or (namespace.state == "filling" and namespace.name == chosen.name)
            embedder = await embedders.named(namespace.name) if wanted else None
            if embedder is not None:
                done += await self._fill_namespace(namespace, embedder, report)
                await vectors.build()
                switched |= namespace.state == "filling" and await vectors.switch(namespace.name)
                self.retrieval.placing.until = 0.0
        throttle = Throttle(self.running)
        while await vectors.drop_old():
            await throttle.pause()
        return done, switched

    async def _fill_namespace(self, namespace: Namespace, embedder: Embedder, report: ProgressCallback) -> int:
        vectors, done, throttle = self.store.vectors, 0, Throttle(self.running)
        total = (await self.store.index.state()).chunks - namespace.placed
        while chunks := await vectors.unplaced(namespace.name, limit=PAGE):
            rows = await _each_of(embedder, await self._stored_texts(chunks))
            await vectors.place(namespace.name, [(chunk.id, row) for chunk, row in zip(chunks, rows, strict=True)])
            done += len(chunks)
            report(done, max(done, total))
            await throttle.pause()
        return done

    async def _stored_texts(self, chunks: Sequence[Chunk]) -> list[str]:
        """Return the texts of stored chunks without the secrets of their messages.

        Nothing is left of a chunk whose message cannot be read any more, because it has expired.
        """
        if self.redactor is None:
            return [chunk.rendered_text for chunk in chunks]
        entries = await self.store.index.read([*dict.fromkeys(map(place_of, chunks))])
        secrets = {entry.place: secrets_in(entry.text, self.redactor) for entry in entries}
        return [
            hidden_part(chunk.rendered_text, chunk.start, secrets.get(place_of(chunk), [(chunk.start, chunk.end)]))
            for chunk in chunks
        ]


async def current_embedder(vectors: Vectors, retrieval: RetrievalParts | None) -> Embedder | None:
    """Return the embedder of the namespace that is searched now; None if there is none or it is not available.

    The configured embedder's namespace is opened if it does not exist.
    """
    if retrieval is None:
        return None
    placing = retrieval.placing
    if time.monotonic() < placing.until:  # vectors of a namespace that another process just left are made later
        return placing.embedder
    chosen = await retrieval.embedders.chosen()
    there = await vectors.namespaces()
    if not there:
        placing.opened.add(chosen.name)
        return chosen  # the first vectors create the namespace
    if chosen.name not in placing.opened:  # only once: if another process chooses another embedder later, follow it
        with suppress(LedgerReadOnly, LedgerFull):  # the search continues with the existing vectors
            if not any(space.name == chosen.name and space.state != "old" for space in there):
                await vectors.open(chosen.name, chosen.dim)
            placing.opened.add(chosen.name)
    placing.embedder, placing.until = await retrieval.embedders.named(there[0].name), time.monotonic() + FOLLOW_SECONDS
    return placing.embedder


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Embed texts; raise ``TimeoutError`` after ``EMBED_SECONDS``."""
    async with asyncio.timeout(EMBED_SECONDS):
        rows = await embedder.embed(texts) if texts else ()
    return [packed(row) for row in rows]


async def _each_of(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Embed texts; a text that is rejected while others are not gets a zero vector, so that it does not block them."""
    try:
        return await vectors_of(embedder, texts)
    except ProviderError:
        if len(texts) == 1:
            raise
    found: list[bytes | None] = []
    for text in texts:
        try:
            found += await vectors_of(embedder, [text])
        except ProviderError as error:
            log.warning("a text of %d characters has no vector; keyword search only: %s", len(text), error)
            found.append(None)
    if all(row is None for row in found):
        raise ProviderError(f"{embedder.name} returned no vectors.", hint="Keyword search finds the texts meanwhile.")
    nowhere = packed(np.zeros(embedder.dim, dtype=np.float32))
    return [nowhere if row is None else row for row in found]


async def _cut(turn: Turn, earlier: Sequence[Turn]) -> tuple[ChunkDraft, ...]:
    """Split a turn: on the event loop if it is short (a millisecond), otherwise in a thread."""
    if turn.rounds or any(map(may_change_topic, (turn.user_message.rendered_text, turn.text))):
        return await asyncio.to_thread(chunks_of, turn, earlier)
    return chunks_of(turn, earlier)


def _texts(turn: Turn, cuts: Sequence[ChunkDraft], redactor: Redactor | None) -> list[str]:
    """Return the texts of the chunks of a turn without the secrets of its messages."""
    if redactor is None:
        return [cut.text for cut in cuts]
    secrets = {spoken.side: secrets_in(spoken.text, redactor) for spoken in sides_of(turn)}
    return [hidden_part(cut.text, cut.start, secrets[cut.side]) for cut in cuts]


def _new(cut: ChunkDraft, embedder: Embedder | None, row: bytes | None) -> NewChunk:
    vector = None if embedder is None or row is None else Embedding(model=embedder.name, dim=embedder.dim, values=row)
    return NewChunk(
        side=cut.side,
        start=cut.start,
        end=cut.end,
        summary=cut.summary,
        chunk_type=cut.chunk_type,
        token_est=cut.token_est,
        borrowed=cut.borrowed,
        embedding=vector,
    )
