"""What a summary without a model still tells, on conversations that other people wrote.

Each conversation of LoCoMo, REALTALK and BEAM is folded 25 turns at a time; at the end the facts that its questions ask
for are looked for. Exchanges that outsiders wrote are inserted into other people's talk, and their facts are looked for
200 turns or more later. Facts that change must have their newest value, the old one at most as replaced. The
floor is a summary that keeps the last sentences. How facts
are judged is in ``summary_data``; ``python -m benchmarks.summary_weights`` fits the weights of the score with one set
left out.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from benchmarks.harness import Bench, Row
from benchmarks.planted import conversation
from benchmarks.strangers import SAMPLES
from benchmarks.summary_data import Conversation, Told, batches, conversations
from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import Task, TranscriptMessage
from contextinfinity.librarian.digest import Digest, digest, entry, parse, render
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.text.sentences import author_sentences
from contextinfinity.text.tokens import counter_of

FOLD = 25
BUDGETS = (500, 1_000, 2_560)
AIMS = {"locomo": 0.40, "realtalk": 0.30, "beam": 0.35}
TURNS, LATER = 1_200, 200
AT_ONCE = 6
ROLES: tuple[Role, Role] = ("user", "assistant")
KEPT = 0.5
CHANGED = 0.9
CPU_MS, TOKENS = 150.0, 24_000

count = counter_of("scripted", "bench").count


async def run(bench: Bench) -> list[Row]:
    """Measure all rows; a set that is absent is named."""
    small = bench.scale.blocks <= 2
    rows = []
    for name, aim in AIMS.items():
        talks = conversations(name)[: 1 if small else None]
        if not talks:
            missing = (
                f"not measured: there is no {name}; set CONTEXTINFINITY_BENCH_DATA and CONTEXTINFINITY_BENCH_CACHE"
            )
            rows.append(Row(what=f"summary offline: facts asked for in {name}", result=missing))
            continue
        rows.append(await _asked(name, talks, aim, BUDGETS[-1:] if small else BUDGETS))
    if locomo := conversations("locomo"):
        rows += await _planted(locomo, TURNS // 4 if small else TURNS)
        rows += [] if small else [await _changed(locomo)]
    return [*rows, await _large_fold(bench)]


async def fold(said: Sequence[TranscriptMessage], budget: int, every: int = FOLD) -> str:
    """Fold a conversation from its beginning, so many turns at a time."""
    summary = ""
    for batch in batches(said, every):
        task = Task(summary=summary, said=batch, budget=budget)
        summary = (await OfflineLibrarian().summarise(task, count)).text
    return summary


async def _asked(name: str, talks: Sequence[Conversation], aim: float, budgets: Sequence[int]) -> Row:
    shares, last = [], []
    uncovered = 0
    for budget in budgets:
        told: list[bool] = []
        recent: list[bool] = []
        for talk in talks:
            summary = await fold(talk.said, budget)
            covered = {turn for each in parse(summary).topics for turn in range(each.first, each.last + 1)}
            uncovered += len({one.turn_seq for one in talk.said} - covered)
            told += [Told(summary).has(fact) for fact in talk.facts]
            recent += [Told(_last_sentences(talk.said, budget)).has(fact) for fact in talk.facts]
        shares.append(statistics.fmean(told))
        last.append(statistics.fmean(recent))
    facts = sum(len(talk.facts) for talk in talks)
    return Row(
        what=f"summary offline: {facts:,} facts asked for in {name}, in the last summary of {_listed(budgets)} tokens",
        result=f"{' / '.join(f'{share:.0%}' for share in shares)}; {uncovered} turns under no range",
        target=f"≥ {aim:.0%} at {budgets[-1]:,}, 0 turns",
        baseline=f"{' / '.join(f'{share:.0%}' for share in last)} (last sentences)",
        met=shares[-1] >= aim and not uncovered,
        values={f"share_{budget}": share for budget, share in zip(budgets, shares, strict=True)},
    )


def _listed(budgets: Sequence[int]) -> str:
    return " / ".join(f"{budget:,}" for budget in budgets)


def _last_sentences(said: Sequence[TranscriptMessage], budget: int) -> str:
    """Keep the last sentences that fit: what a summary without any choice would be."""
    kept = []
    room = budget
    for one in reversed(said):
        for sentence in reversed(author_sentences(one.text).sentences):
            if made := entry("fact", sentence, one.turn_seq, one.role):
                kept.append(made)
                room -= count(made.text)
        if room < 0:
            break
    while count(text := render(digest(kept))) > budget:
        kept.pop()
    return text


def _other_talk(talks: Sequence[Conversation], turns: int) -> list[TranscriptMessage]:
    """Put conversations one after the other until there are so many turns."""
    made: list[TranscriptMessage] = []
    for talk in talks:
        first = made[-1].turn_seq if made else 0
        made += [
            TranscriptMessage(turn_seq=first + one.turn_seq, role=one.role, text=one.text, at=one.at)
            for one in talk.said
        ]
    return [one for one in made if one.turn_seq <= turns]


async def _planted(talks: Sequence[Conversation], turns: int) -> list[Row]:
    """Put the exchanges that outsiders wrote into other people's talk, and look for their facts 200 turns later."""
    facts = _samples("planted")
    places = sorted(random.Random(5).sample(range(5, turns - min(LATER, turns // 2)), len(facts)))
    chosen = random.Random(6).sample(facts, len(facts))
    talk, at = _with_exchanges(_other_talk(talks, turns), dict(zip(places, chosen, strict=True)))
    summaries = {"": parse(await fold(talk, BUDGETS[-1], 50)), **_baselines(talk)}
    told = {
        name: [_tells(fact["must_contain"], summary, turn) for fact, turn in zip(chosen, at, strict=True)]
        for name, summary in summaries.items()
    }
    share = statistics.fmean(told[""])
    sides = {
        side: statistics.fmean(
            is_told for fact, is_told in zip(chosen, told[""], strict=True) if fact["speaker"] == side
        )
        for side in ("user", "assistant")
    }
    return [
        Row(
            what=f"summary offline: {len(facts)} facts by outsiders, {LATER}+ turns later in {turns:,} turns of chats",
            result=f"{share:.0%} (user {sides['user']:.0%}, assistant {sides['assistant']:.0%})",
            target=f"≥ {KEPT:.0%} in {BUDGETS[-1]:,} tokens",
            baseline=", ".join(f"{name} {statistics.fmean(those):.0%}" for name, those in told.items() if name),
            met=share >= KEPT,
            values={"share": share, **sides},
        )
    ]


def _baselines(talk: Sequence[TranscriptMessage]) -> dict[str, Digest]:
    """Return summaries of the same size: sentences by chance, and the first sentences of messages by chance."""
    rng = random.Random(3)
    said = [(one, author_sentences(one.text).sentences) for one in rng.sample(talk, len(talk))]
    each = [(one, rng.choice(sentences)) for one, sentences in said if sentences]
    first = [(one, sentences[0]) for one, sentences in said if sentences]
    return {name: parse(_filled(those)) for name, those in (("random sentences", each), ("first sentences", first))}


def _filled(sentences: Sequence[tuple[TranscriptMessage, str]]) -> str:
    kept, room = [], BUDGETS[-1]
    for one, sentence in sentences:
        if room > 0 and (made := entry("fact", sentence, one.turn_seq, one.role)):
            kept.append(made)
            room -= count(made.text) + 5
    return render(digest(kept))


def _samples(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _with_exchanges(
    talk: Sequence[TranscriptMessage], exchanges: Mapping[int, Mapping[str, Any]]
) -> tuple[list[TranscriptMessage], list[int]]:
    """Insert exchanges before the given turns; also return their own turns, in the same order."""
    made: list[TranscriptMessage] = []
    inserted: list[int] = []
    for turn, messages in groupby(talk, lambda one: one.turn_seq):
        those = [*messages]
        if turn in exchanges:
            inserted.append(turn + len(inserted))
            made += [
                TranscriptMessage(turn_seq=inserted[-1], role=role, text=exchanges[turn][role], at=those[0].at)
                for role in ROLES
            ]
        made += [replace(one, turn_seq=turn + len(inserted)) for one in those]
    return made, inserted


def _tells(words: Sequence[str], summary: Digest, turn: int) -> bool:
    """Return whether the entries of a turn contain all words."""
    text = " ".join(each.text for each in summary.entries if abs((each.turn_seq or 0) - turn) <= 1).casefold()
    return all(word.casefold() in text for word in words)


async def _changed(talks: Sequence[Conversation]) -> Row:
    """Insert a fact and its newer value 100 turns apart; 200 turns later the newer one has to hold, the old one not."""
    pairs = _samples("changed")
    newest = old_gone = right = 0
    for start in range(0, len(pairs), AT_ONCE):
        some = pairs[start : start + AT_ONCE]
        first = {20 + 3 * number: pair["first"] for number, pair in enumerate(some)}
        second = {120 + 3 * number: pair["second"] for number, pair in enumerate(some)}
        talk, turns = _with_exchanges(_other_talk(talks, 340), first | second)
        held = [each for each in parse(await fold(talk, BUDGETS[-1])).entries if each.kind != "retired"]
        for pair, before, after in zip(some, turns, turns[len(some) :], strict=False):
            tells = any(_tells([word], digest(held), after) for word in pair["new"])
            lets_go = not any(_tells([word], digest(held), before) for word in pair["old"])
            newest, old_gone, right = newest + tells, old_gone + lets_go, right + (tells and lets_go)
    share = right / len(pairs)
    return Row(
        what=f"summary offline: {len(pairs)} changed facts by outsiders, 200 turns later: only the new value holds",
        result=f"{share:.0%} (new value {newest} of {len(pairs)}, old one absent or retired {old_gone})",
        target=f"≥ {CHANGED:.0%}",
        met=share >= CHANGED,
        values={"share": share, "newest": newest / len(pairs), "old_gone": old_gone / len(pairs)},
    )


async def _large_fold(bench: Bench) -> Row:
    """Fold as much as makes a branch fold, at once."""
    said: list[TranscriptMessage] = []
    tokens = 0
    for exchange in conversation(10_000, 20):
        said += exchange.said
        tokens += sum(count(one.text) for one in exchange.said)
        if tokens >= TOKENS:
            break
    before = await OfflineLibrarian().summarise(Task(said=tuple(said), budget=BUDGETS[-1]), count)
    later = tuple(replace(one, turn_seq=one.turn_seq + said[-1].turn_seq) for one in said)
    spent = []
    for _ in range(bench.scale.blocks):
        began = time.process_time()
        await OfflineLibrarian().summarise(Task(summary=before.text, said=later, budget=BUDGETS[-1]), count)
        spent.append((time.process_time() - began) * 1000)
    cpu = statistics.median(spent)
    return Row(
        what=f"summary offline: CPU for a fold of {TOKENS:,} tokens",
        result=f"{cpu:.0f} ms (fastest {min(spent):.0f})",
        target=f"≤ {CPU_MS:.0f} ms",
        met=cpu <= CPU_MS,
        values={"cpu_ms": cpu, "fastest_ms": min(spent)},
    )
