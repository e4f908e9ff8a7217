"""A conversation of ten million tokens: imported, then talked on in windows of 8k, 32k and 128k.

The chats of BEAM with 500,000 and 1,000,000 tokens are read from ``$CONTEXTINFINITY_BENCH_BEAM``, a git directory of
the public repository mohammadtavakoli78/BEAM, and put one after the other; only the first half of each is used. The
talk that follows is a chat that was not imported. After each of its exchanges one of BEAM's own questions about the
imported chats is asked, as a turn of the same conversation. Evidence counts by the share of its messages of which the
prompt quotes a passage; it was said up to ten million tokens earlier, so no window shows it verbatim.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec

from benchmarks.answering import models
from benchmarks.asked import Asked, Said, Talk
from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import digest, ids_by_side
from benchmarks.plain_rankings import Passages, count
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.session import Owner
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Embedder
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import RetrievalParts
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.exchange.importer import import_file
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.providers.scripted import ABILITIES, ScriptedProvider, ScriptedReply
from contextinfinity.settings import load_settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import VERSION
from contextinfinity.wiring import setup_of

BEAM = Path(os.environ.get("CONTEXTINFINITY_BENCH_BEAM", "beam.git"))
SIZES = {"500K": 18, "1M": 18}
"""The kinds of chats, and the last one of each that is used."""
TOKENS = int(os.environ.get("CONTEXTINFINITY_BENCH_TOKENS", "10_000_000"))
WINDOWS = (8_192, 32_768, 131_072)
QUESTIONS = 80
"""Asked in each window, spread over all imported chats."""
CONTEXT_MS = 100.0
"""From the message to the model's request, with two durable commits, the resolving of references and the search."""
DRAIN_SECONDS = 600
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


async def run(bench: Bench) -> list[Row]:
    """Import once, then talk in each window on a copy."""
    chats = _chats() if bench.scale.blocks > 2 else iter(())
    if (first := next(chats, None)) is None:
        return [Row(what="a conversation of ten million tokens", result=f"not measured: BEAM is not in {BEAM}")]
    talk, tokens = _joined([first], chats, TOKENS)
    following = next(chats)
    embedder = built_in()
    place = bench.folder / f"ten-million-{digest(VERSION, embedder.name, str(tokens))}"
    imported = await _imported(place, talk, tokens)
    asked = random.Random(7).sample(talk.asked, min(QUESTIONS, len(talk.asked)))
    rows = _import_rows(talk, tokens, imported)
    passages = Passages(talk)
    for window in WINDOWS:
        with bench.scratch() as folder:
            shutil.copytree(place, folder, dirs_exist_ok=True)
            seen = (await _talked(folder, window, following, asked, embedder)).rows(window, passages)
        bench.console.print(*(f"{row.what.strip()}: {row.result}" for row in seen), sep="\n")
        rows += seen
    return rows


# --- the chats ---


def _chats() -> Iterator[Talk]:
    for size, last in SIZES.items() if BEAM.is_dir() else ():
        for number in range(1, last + 1):
            folder = f"chats/{size}/{number}"
            said, asked = _read(f"{folder}/chat.json"), _read(f"{folder}/probing_questions/probing_questions.json")
            if said is not None and asked is not None:
                yield _talk(f"{size}-{number}", said, asked)


def _read(path: str) -> Any:
    """Return a JSON file of the repository; None where the copy does not have its contents."""
    shown = subprocess.run(["git", "-C", str(BEAM), "show", f"HEAD:{path}"], capture_output=True, check=False)
    return None if shown.returncode else json.loads(shown.stdout)


def _talk(name: str, batches: list[Any], questions: dict[str, list[dict[str, Any]]]) -> Talk:
    messages = [message for batch in batches for turn in batch["turns"] for message in turn]
    said = [
        Said(f"{name}/{each['id']}", each["role"], "", re.sub(r"\s*->->.*$", "", each["content"], flags=re.S), BEGIN)
        for each in messages
        if each["content"].strip()
    ]
    known = {each.id for each in said}
    asked = [
        Asked(each["question"], frozenset(evidence), 0)
        for kind in questions.values()
        for each in kind
        if (evidence := known & {f"{name}/{number}" for number in _numbers(each.get("source_chat_ids", []))})
    ]
    return Talk(said, asked)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict | list):
        return [found for each in (value.values() if isinstance(value, dict) else value) for found in _numbers(each)]
    return [int(value)] if str(value).isdigit() else []


def _joined(begun: list[Talk], more: Iterator[Talk], wanted: int) -> tuple[Talk, int]:
    """Put chats one after the other until there are so many tokens, a message every three minutes."""
    tokens = sum(count(each.text) for each in begun[0].said)
    while tokens < wanted and (chat := next(more, None)) is not None:
        begun.append(chat)
        tokens += sum(count(each.text) for each in chat.said)
    messages = [each for chat in begun for each in chat.said]
    said = [each._replace(at=BEGIN + timedelta(minutes=3 * place)) for place, each in enumerate(messages)]
    return Talk(said, [each for chat in begun for each in chat.asked]), tokens


# --- the import ---


async def _imported(place: Path, talk: Talk, tokens: int) -> dict[str, float]:
    """Import and index, unless that was done; return what it took."""
    if not (figures := place / "import.json").exists():
        file = _written(place, talk)
        began, busy = time.perf_counter(), time.process_time()
        store = SqliteStore(place / "ledger.db")
        (done,) = (await import_file(store, file, owner=Owner())).sessions
        stored = time.perf_counter()
        assert done.added == len(talk.said)
        async with _engine(place, store, models(lambda _: "Fine."), built_in()) as engine:
            await engine.complete_index()
            await engine.job_runner.drain(DRAIN_SECONDS, folds=True)
        found = {
            "import_s": stored - began,
            "index_s": time.perf_counter() - stored,
            "cpu_s": time.process_time() - busy,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "text_bytes": sum(len(each.text.encode()) for each in talk.said),
        }
        file.unlink()
        found["bytes"] = _size(place)
        figures.write_text(json.dumps(found), encoding="utf-8")
    imported: dict[str, float] = json.loads(figures.read_text(encoding="utf-8"))
    return imported


def _written(place: Path, talk: Talk) -> Path:
    """Write the conversation as a file of messages into an empty folder."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    file = place / "talk.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for each in talk.said:
            record = {"id": each.id, "role": each.side, "content": each.text, "created_at": each.at.isoformat()}
            out.write(json.dumps(record) + "\n")
    return file


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _engine(folder: Path, store: SqliteStore, known: Models, embedder: Embedder) -> Engine:
    setup = replace(
        setup_of(load_settings(data_dir=folder).settings, known),
        retrieval=RetrievalParts(embedders=Embedders(lambda: embedder)),
        librarian=OfflineLibrarian(),
        fold_pause=timedelta(),
    )
    return Engine(store, JournalFolder(folder / "streams"), known, setup)


def _import_rows(talk: Talk, tokens: int, took: dict[str, float]) -> list[Row]:
    return [
        Row(
            what=f"import and index of {tokens:,} tokens in {len(talk.said):,} messages as one conversation",
            result=(
                f"{took['import_s']:.0f} s to store, {took['index_s']:.0f} s to index; {took['cpu_s']:.0f} s of CPU, "
                f"at most {took['megabytes']:,.0f} MB of memory"
            ),
            values=took,
        ),
        Row(
            what="  the data_dir beside the text",
            result=f"{took['bytes'] / 1e6:,.0f} MB, {took['bytes'] / took['text_bytes']:.1f} ×",
        ),
    ]


# --- the talk ---


@dataclass(kw_only=True)
class Talked:
    """What was seen in one window."""

    asked: list[tuple[Asked, frozenset[str]]] = field(default_factory=list)
    """Each question, with the ids of the messages that its prompt quotes."""
    first: float = 0.0
    """Milliseconds until the model was asked for the first time."""
    context: Series = field(default_factory=Series)
    busy: Series = field(default_factory=Series)
    """CPU of the process in the same time."""
    stages: dict[str, list[float]] = field(default_factory=dict)
    folds: Series = field(default_factory=Series)
    tokens: list[int] = field(default_factory=list)
    limit: int = 0
    asked_back: int = 0
    uncovered: int = 0
    """Prompts in which an earlier turn was neither shown nor covered by the summary."""

    def rows(self, window: int, passages: Passages) -> list[Row]:
        """Return the figures."""
        found = 100 * mean(len(one.evidence & ids) / len(one.evidence) for one, ids in self.asked)
        some = 100 * mean(bool(one.evidence & ids) for one, ids in self.asked)
        budget = max(400, min(2_000, window * 15 // 1_000))
        packed = [(one, passages.packed(Passages.bm25, one.text, budget)) for one, _ in self.asked]
        plain = 100 * mean(len(one.evidence & ids) / len(one.evidence) for one, ids in packed)
        return [
            Row(
                what=f"context of a question after ten million tokens, window of {window:,}",
                target=f"p95 ≤ {CONTEXT_MS:g} ms",
                result=f"{self.context}; CPU {self.busy}",
                met=self.context.p95 <= CONTEXT_MS,
                values={"p50_ms": self.context.p50, "p95_ms": self.context.p95, "cpu_p95_ms": self.busy.p95},
            ),
            Row(
                what="  stages of the turn, median",
                result=", ".join(f"{stage} {median(took):.1f} ms" for stage, took in self.stages.items()),
            ),
            Row(
                what="  the very first question, which folds all that was imported",
                result=f"{self.first:,.0f} ms",
                values={"first_ms": self.first},
            ),
            Row(
                what="  prompt size",
                result=f"{mean(self.tokens):,.0f} tokens in the mean, at most {max(self.tokens):,} of {self.limit:,}",
                values={"largest_tokens": max(self.tokens)},
            ),
            Row(what="  prompts with a turn neither shown nor covered by the summary", result=str(self.uncovered)),
            Row(
                what="  evidence of BEAM's questions in the prompt",
                result=f"{found:.1f}%; some of it for {some:.0f}% of {len(self.asked)}; {self.asked_back} asked back",
                baseline=f"BM25 within {budget} tokens: {plain:.1f}%",
                values={"evidence_percent": found, "some_percent": some, "bm25_percent": plain},
            ),
            Row(
                what="  a fold in the talk that follows",
                result=f"{len(self.folds.seconds)} folds, {self.folds} of CPU" if self.folds.seconds else "no fold",
            ),
        ]


async def _talked(folder: Path, window: int, following: Talk, asked: Sequence[Asked], embedder: Embedder) -> Talked:
    """Talk on, and ask a question after every exchange."""
    seen, answers, moments = Talked(), list[str](), list[tuple[float, float]]()

    def script(_: ProviderRequest) -> ScriptedReply:
        moments.append((time.perf_counter(), time.process_time()))
        return ScriptedReply(text=answers.pop() if answers else "I see.")

    provider = ScriptedProvider(script, msgspec.structs.replace(ABILITIES, context_limit=window))
    known = Models(by_name={"small": Model(name="small", provider=provider, model_id="small")}, default="small")
    store = SqliteStore(folder / "ledger.db")
    exchanges = zip(following.said[::2], following.said[1::2], strict=False)
    async with _engine(folder, store, known, embedder) as engine:
        (session,) = await store.sessions.list(Owner(), limit=1)
        ids = await ids_by_side(store)
        for number, one in enumerate(asked):
            user, answer = next(exchanges)
            answers.append(answer.text)
            began = time.perf_counter()
            await engine.ask(session.id, user.text)
            if number == 0:
                seen.first = 1000 * (moments[-1][0] - began)
            await _settle(engine, store, session.active_branch, seen)
            moments.clear()
            began, busy = time.perf_counter(), time.process_time()
            turn = await engine.ask(session.id, one.text)
            quoted: set[str] = set()
            if moments:
                seen.context.seconds.append(moments[0][0] - began)
                seen.busy.seconds.append(moments[0][1] - busy)
                request = await engine.explain(turn.turn_id)
                ended = await store.turns.get(turn.turn_id)
                for stage, took in ({} if ended is None else ended.latency_ms).items():
                    seen.stages.setdefault(stage, []).append(took)
                places = [(piece.turn_seq, piece.role) for piece in request.quoted]
                quoted = {ids[place] for place in places if place in ids}
                seen.tokens.append(request.plan.tokens)
                seen.limit = 0 if request.plan.budget is None else request.plan.budget.input_limit
                head = await store.states.head(session.active_branch)
                gathered = request.plan.gathered
                seen.uncovered += gathered is not None and gathered[0] > head.covers_turn_seq + 1
            else:
                seen.asked_back += 1
            seen.asked.append((one, frozenset(quoted)))
            await _settle(engine, store, session.active_branch, seen)
    return seen


async def _settle(engine: Engine, store: SqliteStore, branch: str, seen: Talked) -> None:
    """Wait for the work after an answer, and note what a fold took."""
    covered, busy = (await store.states.head(branch)).covers_turn_seq, time.process_time()
    await engine.job_runner.drain(DRAIN_SECONDS, folds=True)
    if covered and (await store.states.head(branch)).covers_turn_seq > covered:
        seen.folds.seconds.append(time.process_time() - busy)
