"""How much of a long conversation is still in its summary: 50 turns folded at a time, budget 500 tokens.

Two librarians write it: the one that needs no model, and one that asks a scripted model, which answers in the form
asked for with what it was told to keep and with the first words of the newest turns. Both sides fold the same
conversation; after each fold everything planted so far is looked for, and the shares are means over all folds. What is
made from patterns says how long things are kept; the phrasings say how many of the ways in which people put things are
understood, each alone in 30 turns, and 15 of them in 50 turns with 200 more turns after them.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections import Counter
from typing import NamedTuple

import msgspec

from benchmarks.harness import Bench, Row
from benchmarks.planted import KINDS, Phrasing, Plant, conversation, is_in, is_kept, phrasings, talk_with
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.librarian.contract import Librarian, Said, Task
from contextinfinity.librarian.model import ModelLibrarian
from contextinfinity.librarian.offline import OfflineLibrarian
from contextinfinity.librarian.wording import FIELDS
from contextinfinity.providers.asking import Adviser
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.text.tokens import counter_of

TURNS = 10_000
FOLD = 50
BUDGET = 500
OFTEN, SELDOM = 20, 200
"""One turn in that many has something to be remembered. A summary of this budget has room for about 25 such things: the
first says how it thins out, the second how long it keeps what there is room for."""
BANDS = ((1, 100), (101, 1_000), (1_001, 10_000))
RECENT = 0.95
"""The share of what was planted in the last 100 turns that has to be there."""
TOGETHER, AFTERWARDS = 15, 200
"""Phrasings in 50 turns, and the turns that come after them."""
ALONE, LATER = 0.85, 0.75
"""The shares of the phrasings that have to be there: each alone, and together after all those turns."""
CPU_MS = 120.0
"""For 24,000 tokens of text."""
TOKENS = 24_000


class Folded(NamedTuple):
    """What a conversation left behind."""

    turns: int
    found: Counter[tuple[str, int]]
    """How often something planted was still there, by kind and by band of age."""
    sought: Counter[tuple[str, int]]
    milliseconds: list[float]
    """CPU for each fold."""
    largest: int
    by_model: float
    """The share of folds that the model wrote."""


async def run(bench: Bench) -> list[Row]:
    """Fold with both librarians."""
    turns = 4 * FOLD if bench.scale.blocks <= 2 else TURNS
    scripted = Adviser(provider=ScriptedProvider(extractive), model_id="scripted")
    sides: list[tuple[str, Librarian, int]] = [
        ("offline", OfflineLibrarian(), OFTEN),
        ("offline, planted seldom", OfflineLibrarian(), SELDOM),
        ("with a scripted model", ModelLibrarian(scripted), OFTEN),
    ]
    rows = [row for name, librarian, every in sides for row in _rows(name, await _fold(librarian, turns, every))]
    rounds = 1 if bench.scale.blocks <= 2 else 20
    for written, what in (("after", "never seen by the rules"), ("before", "written before the rules were finished")):
        rows.append(await _phrasings([each for each in phrasings() if each.written == written], what, rounds))
    return [*rows, await _large_fold(bench)]


async def _phrasings(known: list[Phrasing], what: str, rounds: int) -> Row:
    """Say things as people do, and look for them."""
    alone = [await _said(seed, [each], 0) for seed, each in enumerate(known)]
    later: list[tuple[Phrasing, bool]] = []
    for seed in range(rounds):
        later += await _said(seed, random.Random(seed).sample(known, TOGETHER), AFTERWARDS)
    first = statistics.fmean(kept for those in alone for _, kept in those)
    second = statistics.fmean(kept for _, kept in later)
    by_kind: dict[str, list[bool]] = {}
    for each, kept in later:
        by_kind.setdefault(each.kind, []).append(kept)
    kinds = {kind: statistics.fmean(those) for kind, those in sorted(by_kind.items())}
    told = ", ".join(f"{kind} {share:.0%}" for kind, share in kinds.items())
    return Row(
        what=f"summary offline: {len(known)} phrasings {what}, alone and {AFTERWARDS} turns later",
        measured=f"{first:.0%}, {second:.0%} ({told})",
        figure=f"≥ {ALONE:.0%}, ≥ {LATER:.0%}",
        reached=first >= ALONE and second >= LATER,
        values={"alone": first, "later": second, **kinds},
    )


async def _said(seed: int, spoken: list[Phrasing], afterwards: int) -> list[tuple[Phrasing, bool]]:
    count = counter_of("scripted", "bench").count
    turns = FOLD if afterwards else 30
    summary = ""
    for first in range(1, turns + afterwards + 1, turns):
        said = tuple(talk_with(spoken if first == 1 else [], turns, first, seed + first))
        summary = (await OfflineLibrarian().summarise(Task(summary=summary, said=said, budget=BUDGET), count)).text
    return [(each, is_kept(each, summary)) for each in spoken]


async def _large_fold(bench: Bench) -> Row:
    """Fold as much as makes a branch fold, at once."""
    count = counter_of("scripted", "bench").count
    said: list[Said] = []
    tokens = 0
    for exchange in conversation(TURNS, OFTEN):
        said += exchange.said
        tokens += sum(count(one.text) for one in exchange.said)
        if tokens >= TOKENS:
            break
    before = await OfflineLibrarian().summarise(Task(said=tuple(said)), count)
    spent = []
    for _ in range(bench.scale.blocks):
        began = time.process_time()
        await OfflineLibrarian().summarise(Task(summary=before.text, said=tuple(said)), count)
        spent.append((time.process_time() - began) * 1000)
    cpu = statistics.median(spent)
    return Row(
        what=f"summary offline: CPU for a fold of {TOKENS:,} tokens",
        measured=f"{cpu:.0f} ms (fastest {min(spent):.0f})",
        figure=f"≤ {CPU_MS:.0f} ms",
        reached=cpu <= CPU_MS,
        values={"cpu_ms": cpu, "fastest_ms": min(spent)},
    )


async def _fold(librarian: Librarian, turns: int, every: int) -> Folded:
    count = counter_of("scripted", "bench").count
    summary = ""
    batch: list[Said] = []
    plants: list[Plant] = []
    found: Counter[tuple[str, int]] = Counter()
    sought: Counter[tuple[str, int]] = Counter()
    spent: list[float] = []
    largest = written = 0
    for exchange in conversation(turns, every):
        batch += exchange.said
        plants += [exchange.plant] if exchange.plant else []
        if exchange.said[0].turn_seq % FOLD:
            continue
        began = time.process_time()
        made = await librarian.summarise(Task(summary=summary, said=tuple(batch), budget=BUDGET), count)
        spent.append((time.process_time() - began) * 1000)
        summary, batch = made.text, []
        largest = max(largest, count(summary))
        written += made.by != "offline"
        for plant in plants:
            key = (plant.kind, _band_of(exchange.said[0].turn_seq - plant.turn_seq + 1))
            sought[key] += 1
            found[key] += is_in(plant, summary)
    return Folded(turns, found, sought, spent, largest, written / len(spent))


def _band_of(age: int) -> int:
    return next(place for place, (_, high) in enumerate(BANDS) if age <= high)


def _rows(name: str, folded: Folded) -> list[Row]:
    rows = [_band(name, folded, place) for place, (low, _) in enumerate(BANDS) if folded.turns >= low]
    cpu = statistics.median(folded.milliseconds)
    rows.append(
        Row(
            what=f"summary {name}: largest, and CPU for a fold of {FOLD} turns (median)",
            measured=f"{folded.largest} tokens, {cpu:.0f} ms; {folded.by_model:.0%} of the folds by a model",
            figure=f"≤ {BUDGET} tokens",
            reached=folded.largest <= BUDGET,
            values={"largest_tokens": folded.largest, "cpu_ms": cpu, "by_model_share": folded.by_model},
        )
    )
    return rows


def _band(name: str, folded: Folded, band: int) -> Row:
    low, high = BANDS[band]
    shares = {kind: folded.found[kind, band] / max(1, folded.sought[kind, band]) for kind in KINDS}
    sought = sum(folded.sought[kind, band] for kind in KINDS)
    share = sum(folded.found[kind, band] for kind in KINDS) / max(1, sought)
    told = ", ".join(f"{kind} {part:.0%}" for kind, part in shares.items())
    return Row(
        what=f"summary {name}: still there of what was planted {low:,}–{high:,} turns ago",
        measured=f"{share:.0%} ({told})",
        figure=f"≥ {RECENT:.0%}" if band == 0 else "",
        reached=share >= RECENT if band == 0 else None,
        values={"share": share, **shares},
    )


def extractive(request: ProviderRequest) -> str:
    """Answer as a model would that copies: what it must keep, then what was said last, in the form asked for."""
    document = msgspec.json.decode(request.prompt.messages[-1].rendered_text)
    kinds = {kind: field for field, kind in FIELDS.items()}
    answer: dict[str, list[Json]] = {field: [] for field in FIELDS}
    for note in document["must_keep"]:
        answer[kinds[note["kind"]]].append({"text": note["text"], "turn": note["turn"]})
    for turn in document.get("transcript", ())[-4:]:
        said = Said(turn_seq=turn["turn"], role=turn["who"], text=turn["text"])
        answer["narrative"].append({"text": re.split(r"(?<=[.!?]) ", said.text)[0][:80], "turn": said.turn_seq})
    return msgspec.json.encode(answer).decode()
