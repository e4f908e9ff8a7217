"""Whether a fact is in the prompt by any way: verbatim, retrieved, in the summary, or as a memory.

The facts of ``strangers`` are said in a live conversation: every turn is answered by a script, indexed, remembered and
folded as in use, with the summary written offline. So many turns after each fact its question is asked on a fork, and
the request that the model gets is read again. A fact counts as shown by a part of the request that belongs to its own
turn and holds the words that the sample demands. A changed fact does not count if its old value is retrieved without
the mark that it was superseded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import mean

from benchmarks.answering import models
from benchmarks.asked import LOCOMO, Talk, locomo
from benchmarks.harness import Bench, Row
from benchmarks.strangers import AIMS, LATER, TURNS, Sample, planted
from contextinfinity.domain.session import Owner
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Embedder
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import RetrievalParts
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.providers.scripted import ScriptedReply
from contextinfinity.settings import Settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.wiring import setup_of
from contextinfinity.wiring.embedding import embedder_of

WAYS = ("word for word", "retrieved", "in the summary", "remembered")
KINDS = ("planted", "changed", "coding")
DRAIN_SECONDS = 60
Shown = dict[tuple[str, int], list[tuple[bool, ...]]]
"""By kind and distance, for each sample: whether it is shown by each of ``WAYS``, and whether it counts."""


async def run(bench: Bench) -> list[Row]:
    """Measure with the best embedder of this machine."""
    if not locomo():
        return [Row(what="facts by outsiders in whole prompts", result=f"not measured: there is no {LOCOMO}")]
    talk, samples = planted(TURNS // 20 if bench.scale.blocks <= 2 else TURNS)
    held = [sample for sample in samples if sample.kind in KINDS and not sample.is_development]
    embedder = embedder_of(Settings())
    with bench.scratch() as folder:
        shown = await asked_live(folder, talk, held, embedder)
    return [_row(kind, shown, embedder.name) for kind in KINDS]


async def asked_live(folder: Path, talk: Talk, samples: Iterable[Sample], embedder: Embedder) -> Shown:
    """Talk turn by turn, and ask each question at every distance."""
    said: dict[int, dict[str, str]] = {}
    for one in talk.said:
        said.setdefault(int(one.id.split()[0]), {})[one.side] = one.text
    due: dict[int, list[tuple[Sample, int]]] = {}
    for sample in samples:
        for later in LATER:
            due.setdefault(sample.turn + later, []).append((sample, later))
    answers: list[str] = []
    model = models(lambda _: ScriptedReply(text=answers.pop() if answers else "Fine."))
    setup = replace(
        setup_of(Settings(), model),
        retrieval=RetrievalParts(embedders=Embedders(lambda: embedder)),
        librarian=OfflineLibrarian(),
        rewriting=None,
        fold_pause=timedelta(),
    )
    shown: Shown = {}
    store, journals = SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams")
    async with Engine(store, journals, model, setup) as engine:
        thread = "new"
        for seq in sorted(said):
            answers.append(said[seq].get("assistant", "Fine."))
            thread = (await engine.ask(thread, said[seq].get("user", "Hello."))).thread_id
            await engine.job_runner.drain(DRAIN_SECONDS, folds=True)
            for sample, later in due.get(seq + 1, ()):
                shown.setdefault((sample.kind, later), []).append(await _shown(engine, thread, sample))
    return shown


async def _shown(engine: Engine, thread: str, sample: Sample) -> tuple[bool, ...]:
    """Ask on a fork, and look for the fact in the request."""
    fork = await engine.fork(thread)
    head = await engine.store.states.head(fork.id)
    turn = await engine.ask(thread, sample.question, branch_id=fork.id)
    request = await engine.explain(turn.turn_id)
    marked = {piece.chunk_id for piece in request.plan.retrieved if piece.superseded_by}
    pieces = [(piece.turn_seq, piece.text) for piece in request.quoted]
    outdated = [each.text for each in request.quoted if each.turn_seq == sample.old and each.chunk_id not in marked]
    lines = [(int(seq), line) for line in head.summary.splitlines() for seq in re.findall(r"#(\d+)", line)[:1]]
    memories = await engine.store.memories.read(Owner(), [*request.memories])
    ways = (
        sample.turn > head.covers_turn_seq,
        _holds(sample, (text for seq, text in pieces if seq == sample.turn)),
        _holds(sample, (line for seq, line in lines if seq == sample.turn)),
        _holds(sample, (memory.content for memory in memories)),
    )
    is_outdated = any(word.casefold() in text.casefold() for text in outdated for word in sample.old_words)
    return (*ways, any(ways) and not is_outdated)


def _holds(sample: Sample, texts: Iterable[str]) -> bool:
    text = " ".join(texts).casefold()
    return all(word.casefold() in text for word in sample.words)


def _row(kind: str, shown: Shown, name: str) -> Row:
    columns = {later: [100 * mean(column) for column in zip(*shown[kind, later], strict=True)] for later in LATER}
    ways = "; ".join(
        f"{way} {' / '.join(f'{columns[later][place]:.0f}' for later in LATER)}" for place, way in enumerate(WAYS)
    )
    shares = [columns[later][-1] for later in LATER]
    return Row(
        what=f"facts by outsiders in a whole prompt, {' / '.join(map(str, LATER))} turns later: {kind} ({name})",
        target=f"≥ {' / '.join(map(str, AIMS[kind]))}%",
        result=f"{' / '.join(f'{share:.0f}' for share in shares)}% ({ways})",
        met=all(share >= aim for share, aim in zip(shares, AIMS[kind], strict=True)),
        values={f"percent_{later}": share for later, share in zip(LATER, shares, strict=True)},
    )
