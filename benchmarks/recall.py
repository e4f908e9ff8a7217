"""How much of what answers a question comes back within so many tokens: in a search, and in a prompt.

Three public sets: LoCoMo (questions of categories 1 to 4), BEAM (chats with an assistant), REALTALK. Each conversation
is imported into a ledger, indexed, and asked through the engine. A question's evidence counts by the share of its
messages of which a passage comes back. Beside it: BM25, BM25 with neighbours and raw vectors, packed alike. For BEAM
also R@10 over the user's messages, as others report it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean
from tempfile import mkdtemp
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from benchmarks.answering import models
from benchmarks.asked import LOCOMO, PUBLIC, Asked, Talk, chats, locomo, public
from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import digest, ids_by_side
from benchmarks.peer_stores import peer_rows
from benchmarks.plain_rankings import PLAIN, Passages, count
from contextinfinity.domain.ids import now
from contextinfinity.domain.message import say
from contextinfinity.domain.search import Chunk, Hits, IndexedMessage, TextPosition
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.embedders.choice import Embedders
from contextinfinity.engine.artifacts import Need
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import RetrievalParts, Setup
from contextinfinity.engine.history_search import HistorySearch
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.retrieval.chunk_boundaries import parts_of
from contextinfinity.retrieval.spans import spans_of
from contextinfinity.settings import Settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import VERSION
from contextinfinity.wiring.embedding import embedder_of

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Embedder

BUDGETS = (1_000, 2_000)
WINDOW = 128_000
AIMS = {"LoCoMo": (88, 92), "BEAM": (68, 74), "REALTALK": (78, 85), "our chats": (90, 95)}
FEW = 40
"""Messages and questions of a conversation at the size of a test."""


class Shares(NamedTuple):
    """For one question and each budget: the share of the evidence that a search and a prompt bring back."""

    search: tuple[float, ...]
    prompt: tuple[float, ...]
    plain: dict[str, tuple[float, ...]]
    user_messages: float | None
    """The share of the user's messages among the evidence that are among the first ten of them."""


async def run(bench: Bench) -> list[Row]:
    """Measure every set that is there, with the best embedder of this machine."""
    sets = {"LoCoMo": without_adversarial(locomo()), "BEAM": public("beam"), "REALTALK": public("realtalk")}
    sets = {"our chats": [_first(chats())]} if bench.scale.blocks <= 2 else {**sets, "our chats": [chats()]}
    embedder = embedder_of(Settings())
    rows: list[Row] = []
    for name, talks in sets.items():
        if not talks:
            where = LOCOMO.parent if name == "LoCoMo" else PUBLIC
            rows.append(Row(what=f"evidence found ({name})", result=f"not measured: it is not in {where}"))
            continue
        rows += _rows(name, *await measured(bench.folder, name, talks, embedder))
        if name == "LoCoMo":
            rows += peer_rows(talks, BUDGETS)
    return rows


async def measured(folder: Path, name: str, talks: Sequence[Talk], embedder: Embedder) -> tuple[list[Shares], Series]:
    """Ask every question of a set."""
    shares, took = list[Shares](), Series()
    for number, talk in enumerate(talks):
        kept = folder / f"recall-{name}-{number}-{digest(VERSION, embedder.name)}"
        passages = Passages(talk)
        async with engine_at(kept, embedder) as engine:
            asking = await Asking.of(engine, talk, embedder)
            for asked in talk.asked:
                shares.append(await asking.shares(asked, passages, took))
    return shares, took


def engine_at(folder: Path, embedder: Embedder) -> Engine:
    """Open an engine on a ledger of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    setup = Setup(retrieval=RetrievalParts(embedders=Embedders(lambda: embedder)), folds=False)
    journals = JournalFolder(folder / "streams")
    return Engine(SqliteStore(folder / "ledger.db"), journals, models(lambda _: "Fine."), setup)


class Asking:
    """A conversation in a ledger that is asked."""

    def __init__(self, engine: Engine, session: Session, ids: dict[tuple[int, str], str], embedder: Embedder) -> None:
        self._engine = engine
        self._session = session
        self._ids = ids
        self._embedders = Embedders(lambda: embedder)
        self._journals = JournalFolder(Path(mkdtemp()))

    @classmethod
    async def of(cls, engine: Engine, talk: Talk, embedder: Embedder) -> Asking:
        """Import a conversation, unless it is there, and index it."""
        store = engine.store
        (session,) = await store.sessions.list(Owner(), limit=1) or (await store.sessions.create(NewSession()),)
        arrivals = [
            ImportedMessage(
                message=say("user" if said.side == "user" else "assistant", said.text),
                place=place,
                external_id=said.id,
                created_at=said.at,
                details={"name": said.speaker} if said.speaker else None,
            )
            for place, said in enumerate(talk.said)
        ]
        await store.imports.add(session.active_branch, arrivals)
        await engine.complete_index()
        return cls(engine, session, await ids_by_side(store), embedder)

    async def shares(self, asked: Asked, passages: Passages, took: Series) -> Shares:
        """Ask one question in every way."""
        search, prompt = [], []
        for budget in BUDGETS:
            with took.timed():
                hits = await self._engine.search(asked.text, thread_id=self._session.id, budget=budget)
            search.append(_share(asked.evidence, _ids(hits)))
            prompt.append(_share(asked.evidence, await self._prompt(asked, budget)))
        plain = {
            name: tuple(_share(asked.evidence, passages.packed(ranking, asked.text, budget)) for budget in BUDGETS)
            for name, ranking in PLAIN.items()
        }
        return Shares(tuple(search), tuple(prompt), plain, await self._among_ten(asked))

    async def _prompt(self, asked: Asked, budget: int) -> Iterable[str]:
        """Return the ids of the messages that a prompt with that packing target gets pieces of."""
        return [self._ids[piece.turn_seq, piece.side] for piece in await self.pieces(asked.text, budget)]

    async def pieces(self, text: str, budget: int, before: int | None = None) -> tuple[Artifact, ...]:
        """Return the pieces that a prompt gets with that packing target, asked at turn ``before``."""
        store = self._engine.store
        branch = self._session.active_branch
        last = (await store.turns.history(branch, limit=1, before=before))[0]
        asked_at = now() if before is None else last.created_at + timedelta(minutes=1)
        turn = replace(last, user_message=say("user", text), turn_seq=last.turn_seq + 1, created_at=asked_at)
        retrieval = RetrievalParts(embedders=self._embedders, target=budget)
        search = HistorySearch(store=store, retrieval=retrieval, redactor=None)
        need = Need(turn=turn, explicit=None, first_shown=turn.turn_seq, room=2 * max(BUDGETS), window=WINDOW)
        return await search.retrieve(need, [])

    async def _among_ten(self, asked: Asked) -> float | None:
        users = {self._ids[key] for key in self._ids if key[1] == "user"} & asked.evidence
        if not users:
            return None
        hits = await self._engine.search(asked.text, thread_id=self._session.id, roles=("user",), limit=40)
        found = _ids(hits)[:10]
        return _share(users, found)


def _share(evidence: Iterable[str], found: Iterable[str]) -> float:
    wanted = set(evidence)
    return len(wanted & set(found)) / len(wanted)


def _ids(hits: Hits) -> list[str]:
    return list(dict.fromkeys(each for hit in hits.hits for each in hit.external_ids))


def entries_of(talk: Talk) -> list[IndexedMessage]:
    """Return the messages of a conversation as a store gives them, each cut into chunks."""
    entries, seq, is_open = list[IndexedMessage](), 0, False
    for said in talk.said:
        seq += said.side == "user" or not is_open
        is_open = said.side == "user"
        place = TextPosition(f"turn-{seq:05}", said.side)
        chunks = tuple(
            Chunk(
                id=f"{said.id}-{span.start}",
                session_id="session",
                branch_id="branch",
                source_turn=place.turn_id,
                side=said.side,
                start=span.start,
                end=span.end,
                rendered_text=said.text[span.start : span.end],
                summary="",
                chunk_type="Other",
                token_est=span.tokens,
                content_hash="",
                created_at=said.at,
            )
            for span in spans_of(said.text, parts_of(said.text), count)
        )
        entry = IndexedMessage(
            place=place,
            session_id="session",
            branch_id="branch",
            turn_seq=seq,
            said_at=said.at,
            text=said.text,
            speaker=said.speaker,
            external_ids=(said.id,),
            chunks=chunks,
        )
        entries.append(entry)
    return entries


def without_adversarial(talks: Sequence[Talk]) -> list[Talk]:
    """Leave out the questions of LoCoMo that confuse two people."""
    return [Talk(talk.said, [asked for asked in talk.asked if asked.category < 5]) for talk in talks]


def _first(talk: Talk) -> Talk:
    """Cut a conversation down to its beginning."""
    said = talk.said[:FEW]
    known = {each.id for each in said}
    return Talk(said, [asked for asked in talk.asked if asked.evidence <= known][:FEW])


def _rows(name: str, shares: Sequence[Shares], took: Series) -> list[Row]:
    rows = []
    for place, budget in enumerate(BUDGETS):
        search = 100 * mean(each.search[place] for each in shares)
        prompt = 100 * mean(each.prompt[place] for each in shares)
        aim = AIMS[name][place]
        rows.append(
            Row(
                what=f"evidence found within {budget:,} tokens ({name}): search",
                target=f"≥ {aim}%",
                result=f"{search:.1f}% (in a prompt {prompt:.1f}%)",
                met=search >= aim,
                values={"search_percent": search, "prompt_percent": prompt},
            )
        )
    for plain in shares[0].plain:
        told = " · ".join(f"{100 * mean(each.plain[plain][at] for each in shares):.1f}" for at in range(len(BUDGETS)))
        rows.append(Row(what=f"  baseline: {plain}", result=f"{told} %"))
    ten = [each.user_messages for each in shares if each.user_messages is not None]
    if ten:
        rows.append(Row(what=f"  user's messages among the first ten ({name})", result=f"{100 * mean(ten):.1f}%"))
    rows.append(Row(what="  a search with a budget", result=str(took), values={"p95_ms": took.p95}))
    return rows
