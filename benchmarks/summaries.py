"""What a summary without a model still tells, on conversations that other people wrote.

Each conversation of LoCoMo, REALTALK and BEAM is folded 25 turns at a time; at the end the facts that its questions ask
for are looked for. Phrasings that were written before the present rules are planted in other people's talk, on either
side, and looked for 200 turns or more later. Facts that change (BEAM's questions on updates) have to be told with
their newest value, the old one at most as replaced. The floor is a summary that keeps the last sentences. How facts
are judged is in ``summary_data``; ``python -m benchmarks.summary_weights`` fits the weights of the score with one set
left out.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from benchmarks.harness import Bench, Row
from benchmarks.planted import Phrasing, conversation, is_kept, phrasings
from benchmarks.summary_data import Conversation, Fact, Told, batches, conversations
from contextinfinity.librarian.contract import Task, TranscriptMessage
from contextinfinity.librarian.digest import digest, entry, parse, render
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.text.sentences import spoken
from contextinfinity.text.tokens import counter_of

FOLD = 25
BUDGETS = (500, 1_000, 2_560)
AIMS = {"locomo": 0.40, "realtalk": 0.30, "beam": 0.35}
TURNS, LATER, PLANTED = 1_200, 200, 72
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
            rows.append(Row(what=f"summary offline: facts asked for in {name}", measured=missing))
            continue
        rows.append(await _asked(name, talks, aim, BUDGETS[-1:] if small else BUDGETS))
    if locomo := conversations("locomo"):
        rows.append(await _planted(locomo, TURNS // 10 if small else TURNS))
    if locomo and (beam := conversations("beam")) and not small:
        rows.append(await _changed(locomo, beam))
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
        measured=f"{' / '.join(f'{share:.0%}' for share in shares)}; {uncovered} turns under no range",
        figure=f"≥ {aim:.0%} at {budgets[-1]:,}, 0 turns",
        floor=f"{' / '.join(f'{share:.0%}' for share in last)} (last sentences)",
        reached=shares[-1] >= aim and not uncovered,
        values={f"share_{budget}": share for budget, share in zip(budgets, shares, strict=True)},
    )


def _listed(budgets: Sequence[int]) -> str:
    return " / ".join(f"{budget:,}" for budget in budgets)


def _last_sentences(said: Sequence[TranscriptMessage], budget: int) -> str:
    """Keep the last sentences that fit: what a summary without any choice would be."""
    kept = []
    room = budget
    for one in reversed(said):
        for sentence in reversed(spoken(one.text).sentences):
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


async def _planted(talks: Sequence[Conversation], turns: int) -> Row:
    """Plant phrasings on either side, and look for them at the end."""
    rng = random.Random(11)
    known = rng.sample(phrasings(), min(PLANTED, turns // 10))
    talk = _other_talk(talks, turns)
    places = rng.sample(range(len([one for one in talk if one.turn_seq <= turns - min(LATER, turns // 2)])), len(known))
    sides: dict[str, list[Phrasing]] = {"user": [], "assistant": []}
    for place, phrasing in zip(places, known, strict=True):
        one = talk[place]
        said = f"{one.text} {phrasing.text[:1].upper()}{phrasing.text[1:].rstrip('.')}."
        talk[place] = TranscriptMessage(turn_seq=one.turn_seq, role=one.role, text=said, at=one.at)
        sides[one.role].append(phrasing)
    summary = await fold(talk, BUDGETS[-1], 50)
    shares = {
        side: statistics.fmean([is_kept(each, summary) for each in those] or [0]) for side, those in sides.items()
    }
    share = statistics.fmean(is_kept(each, summary) for each in known)
    return Row(
        what=f"summary offline: {len(known)} facts inserted into {turns:,} turns of other chats, {LATER}+ turns later",
        measured=f"{share:.0%} (user {shares['user']:.0%}, assistant {shares['assistant']:.0%})",
        figure=f"≥ {KEPT:.0%} in {BUDGETS[-1]:,} tokens",
        reached=share >= KEPT,
        values={"share": share, **shares},
    )


async def _changed(talks: Sequence[Conversation], beam: Sequence[Conversation]) -> Row:
    """Plant a fact and its newer value 100 turns apart; 200 turns later the newer one has to hold, the old one not."""
    pairs = [pair for talk in beam for pair in _updates(talk)]
    newest = old_gone = right = 0
    for place in range(0, len(pairs), 5):
        some = pairs[place : place + 5]
        talk = [one for one in _other_talk(talks, 340) if one.role == "user" or one.turn_seq % 2]
        for number, (old, new) in enumerate(some):
            for fact, turn in ((old, 20 + 3 * number), (new, 120 + 3 * number)):
                at = next((one.at for one in talk if one.turn_seq == turn), datetime(2024, 1, 1))
                talk.append(TranscriptMessage(turn_seq=turn, role="user", text=fact.sentence, at=at))
        summary = Told(await fold(sorted(talk, key=lambda one: one.turn_seq), BUDGETS[-1]), held=True)
        for number, (old, new) in enumerate(some):
            tells = summary.has(new._replace(turn=120 + 3 * number))
            lets_go = not summary.has(old._replace(turn=20 + 3 * number, answer=""))
            newest, old_gone, right = newest + tells, old_gone + lets_go, right + (tells and lets_go)
    share = right / max(1, len(pairs))
    return Row(
        what=f"summary offline: {len(pairs)} changed facts of BEAM, 200 turns later: new value present, old one not",
        measured=f"{share:.0%} (newest told {newest} of {len(pairs)}, old one gone or retired {old_gone})",
        figure=f"≥ {CHANGED:.0%}",
        reached=share >= CHANGED,
        values={"share": share, "newest": newest / max(1, len(pairs)), "old_gone": old_gone / max(1, len(pairs))},
    )


def _updates(talk: Conversation) -> list[tuple[Fact, Fact]]:
    """Return the facts of questions on updates: the first and the last evidence."""
    by_question: dict[str, list[Fact]] = {}
    for fact in talk.facts:
        if fact.kind == "knowledge_update" and fact.role == "user":
            by_question.setdefault(fact.question, []).append(fact)
    pairs = [sorted(facts, key=lambda fact: fact.turn) for facts in by_question.values()]
    return [(facts[0], facts[-1]) for facts in pairs if facts[0].sentence != facts[-1].sentence]


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
        measured=f"{cpu:.0f} ms (fastest {min(spent):.0f})",
        figure=f"≤ {CPU_MS:.0f} ms",
        reached=cpu <= CPU_MS,
        values={"cpu_ms": cpu, "fastest_ms": min(spent)},
    )
