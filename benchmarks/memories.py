"""What is remembered of people who say much: repeated, said in other words, corrected, among ordinary talk.

Twenty people tell of themselves now and then in a stream of talk. What is planted is known, so what was kept can be
held against it. The phrasings of ``life.tsv`` marked "unseen" were written when the rules were finished. Wrong memories
are counted in people's chats with each other (LoCoMo, read from ``$CONTEXTINFINITY_BENCH_DATA``): all that is drawn
there was read once, and ``judged.txt`` has a verdict for its hash: right, idle (true and not worth keeping) or wrong;
what no one has read is reported apart. First-person sentences of strangers are the MSC personas, read from the file
that ``$CONTEXTINFINITY_BENCH_PERSONAS`` names; those that are counted were never looked at. The sentences of
``tests/samples/first_person.tsv`` in four languages were written before the rules.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.asked import LOCOMO, locomo
from benchmarks.harness import Bench, Row, Series
from benchmarks.planted import conversation
from contextinfinity.domain.ids import now
from contextinfinity.domain.memory import Memory, NewMemory
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.engine.engine_setup import Remembering, Setup
from contextinfinity.engine.memory_editing import MemoryEditing
from contextinfinity.engine.memory_jobs import remember_again
from contextinfinity.engine.model_choice import Models
from contextinfinity.engine.recall import known_from, placed_texts, placeholder_session, recall_memories
from contextinfinity.memory.extraction import extract_facts
from contextinfinity.retrieval.dates import dates_mentioned
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, new_branch

HERE = Path(__file__).parent
PEOPLE = 20
TOLD = 0.3
"""The share of turns in which a person states a fact about themselves."""
SINGLE = {"home", "employer", "job", "partner", "colour", "language"}
"""What can be true once: said otherwise, it is a correction."""
VALUES = {
    "home": "Oslo Bonn Lyon Porto Leeds Turin Ghent Malmo Krakow Bergen Sevilla Graz Basel Utrecht Aarhus Galway",
    "employer": "Siemens Nokia Bosch Ikea Philips Spotify Airbus Lidl Zalando Ericsson Nestle Volvo Shell Bayer",
    "job": "nurse,teacher,baker,plumber,pilot,lawyer,electrician,designer,translator,architect,chef,gardener",
    "like": "chess,hiking,jazz,sushi,opera,pottery,rowing,crosswords,ramen,birdwatching,sailing,karaoke,knitting,tango",
    "dislike": "cilantro,liver,horror films,spam calls,oysters,traffic jams,karate,polka,brunch,techno,golf,marzipan",
    "allergy": "peanuts,shellfish,pollen,latex,wasps,soy,sesame,kiwi,celery,mustard",
    "pet": "Rex Bello Luna Milo Nala Oscar Poppy Rocky Toby Waldo",
    "partner": "Carla Igor Jana Pavel Ruth Stella Tomas Uma Viktor Wanda",
    "colour": "green,blue,teal,purple,orange,grey,crimson,white",
    "language": "German French Spanish Italian Dutch Polish Swedish",
    "plan": "Rome Tokyo Lima Cairo Delhi Quito Hanoi Accra Dakar Tunis",
    "note": "spare key,toolbox,red bicycle,sledge,old printer,tent,paint,ladder",
}


class Plant(NamedTuple):
    """A fact that a person stated about themselves, its words, and whether the rules were made with them in view."""

    what: str
    value: str
    words: str
    known: bool


async def run(bench: Bench) -> list[Row]:
    """Measure a stream of turns, ordinary chat, and the time it takes to recall."""
    tiny = bench.scale.blocks <= 2
    with bench.scratch() as folder:
        rows = await _stream(folder, turns=400 if tiny else 10_000)
    rows += [*_chat(), _personas(), *_samples()]
    with bench.scratch() as folder:
        rows.append(await _recalled(folder, count=400 if tiny else 10_000))
    return rows


def _phrasings() -> list[tuple[bool, str, str]]:
    lines = (HERE / "life.tsv").read_text("utf-8").splitlines()
    return [(mark == "known", what, words) for mark, what, words in (line.split("\t") for line in lines)]


def _life(chance: random.Random, turns: int) -> Iterator[Plant | str]:
    """Tell of one life among ordinary talk; something is said again in other words, or otherwise."""
    talk = (each.said[0].text for each in conversation(turns, 1_000_000, chance.randrange(1_000)))
    phrasings, day = _phrasings(), now() + timedelta(days=30)
    for _ in range(turns):
        if chance.random() > TOLD:
            yield next(talk)
            continue
        known, what, words = chance.choice(phrasings)
        listed = VALUES[what]
        value = chance.choice(listed.split(",") if "," in listed else listed.split())
        article = "an" if value[0] in "aeio" else "a"
        told = words.format(x=value, a=article, day=f"{(day + timedelta(days=chance.randrange(40))):%B %-d}")
        yield Plant(what, value, told, known)


async def _stream(folder: Path, turns: int) -> list[Row]:
    store, chance, began = SqliteStore(folder / "ledger.db"), random.Random(11), now() - timedelta(days=40)
    lives: dict[Owner, list[Plant]] = {}
    for person in range(PEOPLE):
        owner = Owner(user_id=f"person{person}")
        told = [*_life(chance, turns // PEOPLE)]
        lives[owner] = [each for each in told if isinstance(each, Plant)]
        branch = await new_branch(store, NewSession(owner=owner))
        await store.imports.add(branch.id, [*_arrivals(told, began)])
    await remember_again(store, Setup(remembering=Remembering()), Models(by_name={}, default=""))
    memories = MemoryEditing(store, Remembering())
    living = {owner: await memories.everything(owner, superseded=False) for owner in lives}
    troubles = [one.trouble for owner in lives for one in await memories.audit(owner)]
    await store.close()
    return _figures(lives, living, troubles)


def _arrivals(told: list[Plant | str], began: datetime) -> Iterator[ImportedMessage]:
    for place, each in enumerate(told):
        words = each.words if isinstance(each, Plant) else each
        at = began + timedelta(minutes=place)
        yield ImportedMessage(message=say("user", words), created_at=at, place=2 * place)
        yield ImportedMessage(
            message=say("assistant", "I live in a computer. Noted."), created_at=at, place=2 * place + 1
        )


def _figures(
    lives: dict[Owner, list[Plant]], living: dict[Owner, tuple[Memory, ...]], troubles: Sequence[str]
) -> list[Row]:
    count = sum(map(len, living.values()))
    ungrounded, doubled = troubles.count("ungrounded"), 100 * troubles.count("duplicate") / max(1, count)
    won = [_holds(living[owner], last) for owner, plants in lives.items() for last in _corrected(plants)]
    shares = {known: _recall(lives, living, known) for known in (True, False)}
    found, won_share = 100 * min(shares.values()), 100 * sum(won) / max(1, len(won))
    return [
        Row(what="memories without a source", target="0", result=f"{ungrounded} of {count}", met=not ungrounded,
            values={"ungrounded": ungrounded}),
        Row(what="near-duplicates among memories", target="≤ 0.5%", result=f"{doubled:.2f}%", met=doubled <= 0.5,
            values={"percent": doubled}),
        Row(what="corrections applied", target="100%", result=f"{won_share:.1f}% of {len(won)}", met=all(won),
            values={"percent": won_share}),
        Row(what="inserted facts that are known", target="≥ 95%", met=found >= 95, values={"percent": found},
            result=f"{100 * shares[True]:.1f}% in known phrasings, {100 * shares[False]:.1f}% in unseen ones"),
    ]  # fmt: skip


def _corrected(plants: list[Plant]) -> Iterator[Plant]:
    """Return the newest value of each fact that was changed."""
    for what in sorted(SINGLE):
        said = [each for each in plants if each.what == what]
        if len({each.value for each in said}) > 1:
            yield said[-1]


def _holds(memories: tuple[Memory, ...], plant: Plant) -> bool:
    """Return whether the newest value of a fact is known, and no earlier one."""
    others = [value for value in VALUES[plant.what].replace(",", " ").split() if value != plant.value]
    about = {"partner": "my:partner", "colour": "my:favourite colour", "language": "answers:language"}
    told = [memory.content for memory in memories if memory.about in (plant.what, about.get(plant.what))]
    return any(plant.value in content for content in told) and not any(
        f" {value}." in content or f" {value} " in content for content in told for value in others
    )


def _recall(lives: dict[Owner, list[Plant]], living: dict[Owner, tuple[Memory, ...]], known: bool) -> float:
    """Return the share of stated and not retracted facts that is known."""
    hits = [
        any(plant.value.split()[-1] in memory.content for memory in living[owner])
        for owner, plants in lives.items()
        for plant in _standing(plants)
        if plant.known is known
    ]
    return sum(hits) / max(1, len(hits))


def _standing(plants: list[Plant]) -> Iterator[Plant]:
    """Return the facts that were stated and not changed since."""
    last: dict[str, Plant] = {}
    for plant in plants:
        key = plant.what if plant.what in SINGLE else f"{plant.what} {plant.value}"
        last[key] = plant
    yield from last.values()


def _chat() -> list[Row]:
    """Count what is drawn from people's chats, and what of it is wrong."""
    what = "what is drawn from ordinary chat (LoCoMo)"
    talks = locomo()
    if not talks:
        missing = f"not measured: there is no {LOCOMO.name} in {LOCOMO.parent}; set CONTEXTINFINITY_BENCH_DATA"
        return [Row(what=what, result=missing)]
    judged = dict(line.split() for line in (HERE / "judged.txt").read_text("utf-8").splitlines())
    took, verdicts = Series(), list[str]()
    for said in (said for talk in talks for said in talk.said):
        with took.timed():
            drawn = extract_facts(said.text, said.at, dates_mentioned)
        told = [fact for fact in drawn.facts if not fact.ends]  # what ends something counts against what is known only
        verdicts += [judged.get(_mark(said.id, fact.content), "unread") for fact in told]
    turns = len(took.seconds)
    read = [verdict for verdict in verdicts if verdict != "unread"]
    true = 100 * sum(verdict != "wrong" for verdict in read) / max(1, len(read))
    worth = 100 * read.count("right") / max(1, len(read))
    of = f"of {len(read)} that were read, of {len(verdicts)} drawn from {turns} messages"
    return [
        Row(what=f"{what}: true", target="≥ 92%", result=f"{true:.1f}% {of}", met=true >= 92,
            values={"percent": true, "unread": len(verdicts) - len(read)}),
        Row(what=f"{what}: worth keeping", target="≥ 80%", result=f"{worth:.1f}% {of}", met=worth >= 80,
            values={"percent": worth}),
        Row(what="extraction from a message", result=str(took), values={"p95_ms": took.p95}),
    ]  # fmt: skip


def _personas() -> Row:
    """Count the first-person sentences of strangers from which something is drawn."""
    what = "first-person sentences of strangers (MSC personas) that are drawn"
    path = Path(os.environ.get("CONTEXTINFINITY_BENCH_PERSONAS", LOCOMO.parent.parent / "personas.json"))
    if not path.is_file():
        return Row(what=what, result=f"not measured: there is no {path.name}; set CONTEXTINFINITY_BENCH_PERSONAS")
    said = [" ".join(each.split()) for each in json.loads(path.read_text("utf-8"))]
    random.Random(3).shuffle(said)
    held, naive = said[6000:9000], re.compile(r"(?:I(?:'m| am| have| like| love| work| live)|My) ")
    drawn = 100 * sum(bool(extract_facts(each, now(), dates_mentioned).facts) for each in held) / len(held)
    simple = 100 * sum(naive.match(each) is not None for each in held) / len(held)
    return Row(
        what=what,
        target="≥ 80%",
        result=f"{drawn:.1f}% of {len(held)}",
        baseline=f"those that begin with one of seven phrases {simple:.1f}%",
        met=drawn >= 80,
        values={"percent": drawn},
    )


def _samples() -> list[Row]:
    """Judge the sentences of ``first_person.tsv``: every other one was looked at while the rules were made."""
    lines = (HERE.parent / "tests" / "samples" / "first_person.tsv").read_text("utf-8").splitlines()
    held = [line.split("\t") for line in lines if not line.startswith("#")][1::2]
    rows = []
    for label, figure in (("keep", "≥ 80%"), ("drop", "≤ 5%")):
        said = [words for _, verdict, words in held if verdict == label]
        share = 100 * sum(bool(extract_facts(each, now(), dates_mentioned).facts) for each in said) / len(said)
        reached = share >= 80 if label == "keep" else share <= 5
        what = f"sentences in English, German, Spanish and Chinese to {label}: drawn"
        rows.append(Row(what=what, target=figure, result=f"{share:.1f}% of {len(said)}", met=reached,
                        values={"percent": share}))  # fmt: skip
    return rows


def _mark(message_id: str, content: str) -> str:
    return hashlib.sha256(f"{message_id} {content}".encode()).hexdigest()[:12]


async def _recalled(folder: Path, count: int) -> Row:
    """Time what a request waits for: finding and ranking among many memories of one user."""
    store, chance, owner = SqliteStore(folder / "ledger.db"), random.Random(5), Owner(user_id="ann")
    branch = await new_branch(store, NewSession(owner=owner))
    words = [word for values in VALUES.values() for word in values.replace(",", " ").split()]
    facts = [f"The user likes {' '.join(chance.sample(words, 3))} number {number}." for number in range(count)]
    vectors = await placed_texts(facts)
    for start in range(0, count, 500):
        turn = await answer_turn(store, branch.id, "hello")
        new = [
            NewMemory(owner=owner, content=fact, said_at=now(), about=f"like:{fact}", weight=3, vector=vector)
            for fact, vector in zip(facts[start : start + 500], vectors[start : start + 500], strict=True)
        ]
        await store.memories.replace_extracted(turn.id, new)
    series, session = Series(), placeholder_session(owner)
    for _ in range(200):
        question = f"What about {chance.choice(words)} and {chance.choice(words)} tonight?"
        with series.timed():
            found = await recall_memories(store.memories, Remembering(), session, session.active_branch, question)
            await known_from(found, question, 2000)
    await store.close()
    return Row(
        what=f"recall among {count:,} memories of one user",
        target="p95 ≤ 5 ms",
        result=str(series),
        met=series.p95 <= 5,
        values={"p50_ms": series.p50, "p95_ms": series.p95},
    )
