"""A conversation that goes on for ever: ordinary talk, and now and then something that has to be remembered.

What is planted is known with its kind and with the words that have to be found again. The talk around it has numbers,
names and files of its own, and the assistant explains at length. The same seed gives the same conversation.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from contextinfinity.librarian.contract import TranscriptMessage

KINDS = ("decision", "constraint", "preference", "identifier", "number")


def _listed(words: str, between: str | None = None) -> list[str]:
    return [word.strip() for word in words.strip().split(between)]


_ADJECTIVES = _listed("""
billing search export import nightly mobile public internal legacy regional partner customer payment audit shipping
catalogue reporting invoice profile signup analytics staging archive messaging inventory refund booking translation
""")
_NOUNS = _listed("""
service pipeline dashboard gateway worker database queue report page module form job bucket cluster scheduler mailer
parser index cache console adapter endpoint wizard registry monitor proxy collector planner validator
""")
_TOOLS = _listed("""
PostgreSQL Redis Kafka RabbitMQ Terraform Ansible FastAPI Django Svelte Vue Elasticsearch ClickHouse DuckDB SQLite MinIO
Grafana Prometheus Sentry Celery Temporal Keycloak Traefik Caddy Nginx Rust Go Kotlin Elixir
""")
_TASTES = _listed(
    """
tables|bullet lists|short paragraphs|diagrams|worked examples|one-line answers|British spelling|metric units|dark themes
|plain SQL|type hints|functional style|early returns|long variable names|tabs|single quotes|small commits|green tea
|morning meetings|window seats|vegetarian food|direct feedback|written updates|weekly summaries
""",
    "|",
)

_PLANTS: dict[str, dict[str, str]] = {
    "decision": {
        "We decided to use {tool} for the {thing}.": "What did we decide to use for the {thing}?",
        "Let's go with {tool} for the {thing}.": "What did we choose for the {thing}?",
        "After talking to the team we agreed on {tool} for the {thing}.": "What did the team want for the {thing}?",
        "OK, the {thing} will run on {tool}, that's settled.": "What does the {thing} run on?",
        "We'll use {tool} for the {thing} from here on.": "What do we use for the {thing}?",
        "Decision: the {thing} moves to {tool}.": "Where does the {thing} move to?",
        "I've chosen {tool} for the {thing}.": "Which tool did I pick for the {thing}?",
    },
    "constraint": {
        "The {thing} must answer within {n} ms.": "How fast does the {thing} have to be?",
        "Never let the {thing} keep data longer than {n} days.": "How long may the {thing} store data?",
        "The {thing} may not use more than {n} MB of memory.": "How much memory is the {thing} allowed?",
        "Whatever happens, the {thing} has to stay below {n} requests per second.": (
            "How many requests may the {thing} make?"
        ),
        "Make sure the {thing} never sends more than {n} mails an hour.": "How many mails may the {thing} send?",
        "The {thing} is limited to {n} users, that is a hard limit.": "How many users can the {thing} have?",
        "Don't touch the {thing} before day {n} of the project.": "From which day on may we change the {thing}?",
    },
    "preference": {
        "I prefer {taste} for the {thing}.": "What do I like best for the {thing}?",
        "For the {thing} I'd rather have {taste}.": "What would I rather have for the {thing}?",
        "Please use {taste} whenever we talk about the {thing}.": "What did I ask you to use for the {thing}?",
        "I really like {taste} in the {thing}.": "What do I like in the {thing}?",
        "My preference for the {thing} is {taste}.": "What do I prefer for the {thing}?",
    },
    "identifier": {
        "The ticket for the {thing} is {id}.": "Which ticket belongs to the {thing}?",
        "You'll find the {thing} under {path}.": "Where do I find the {thing}?",
        "The {thing} has the account number {id}.": "What is the account number of the {thing}?",
        "By the way, {id} is the contract of the {thing}.": "Which contract does the {thing} have?",
        "I put the notes on the {thing} into {path}.": "Where are my notes on the {thing}?",
    },
    "number": {
        "The budget for the {thing} is {money} €.": "How much money is there for the {thing}?",
        "The {thing} goes live on {date}.": "When does the {thing} go live?",
        "The {thing} costs us {money} € a month.": "What do we pay for the {thing}?",
        "We have {n} customers on the {thing}.": "How many customers does the {thing} have?",
        "The review of the {thing} is on {date}.": "When is the {thing} reviewed?",
    },
}
"""What is planted, and how someone asks for it who does not remember the words."""

_ASKED = (
    "How does {tool} compare with {tool2} when there is a lot of traffic?",
    "Could you explain what happens when the {thing} restarts in the middle of a request?",
    "I was reading about {tool} yesterday and it left me a bit confused.",
    "What would you look at first if the {thing} got slow?",
    "That makes sense, thanks.",
    "Can you give me a small example for {tool}?",
    "My colleague thinks that {tool} is hard to operate, what do you say?",
    "Hm, I still don't see why the {thing} needs a lock there.",
    "The meeting took ages again, everybody had an opinion about the {thing}.",
    "I tried it on my laptop and it printed a warning about line {n}.",
    "Is it normal that the {thing} writes {n} log lines when it starts?",
    "Lunch was great, now back to work.",
)
_ANSWERED = (
    "There are several ways to look at this, and which one fits depends on how the {thing} is used.",
    "In most setups {tool} keeps its connections open, so a restart costs about {n} ms.",
    "A common mistake is to mix the settings of {tool} with those of {tool2}.",
    "You can see this in the logs: the request waits until the lock is free again.",
    "For example, a batch of {n} rows is usually handled in one go.",
    "The documentation of {tool} describes this in the chapter about operations.",
    "It helps to measure first, because the slow part is often somewhere else.",
    "If the {thing} is restarted, requests that are under way are repeated by the caller.",
    "In other words, the order of the two steps matters more than their speed.",
    "You could also write a small script such as tools/check_{n}.py that does it for you.",
    "Most teams start with the defaults and change one thing at a time.",
    "That is why the numbers differ between the two runs.",
    "I hope this helps, tell me if you want more detail on the {thing}.",
)


class Plant(NamedTuple):
    """Something to be remembered: the words that have to stand in one line again."""

    kind: str
    turn_seq: int
    words: tuple[str, ...]
    question: str
    """Asks for it, without what is to be found."""


class Exchange(NamedTuple):
    """One turn, and what is planted in it."""

    said: tuple[TranscriptMessage, TranscriptMessage]
    plant: Plant | None


def conversation(turns: int, every: int, seed: int = 7) -> Iterator[Exchange]:
    """Talk for that many turns; one in ``every`` has something planted, on average."""
    rng = random.Random(seed)
    things = [f"{adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS]
    rng.shuffle(things)
    for turn_seq in range(1, turns + 1):
        asked = [_filled(rng, rng.choice(_ASKED), _thing(rng)) for _ in range(rng.randint(1, 3))]
        answered = [_filled(rng, rng.choice(_ANSWERED), _thing(rng)) for _ in range(rng.randint(3, 9))]
        plant = None
        if rng.randrange(every) == 0:
            thing = things[turn_seq % len(things)]
            sentence, plant = _planted(rng, turn_seq, thing)
            asked.insert(rng.randint(0, len(asked)), sentence)
        yield Exchange(
            (
                TranscriptMessage(turn_seq=turn_seq, role="user", text=" ".join(asked)),
                TranscriptMessage(turn_seq=turn_seq, role="assistant", text=" ".join(answered)),
            ),
            plant,
        )


def is_in(plant: Plant, summary: str) -> bool:
    """Return whether a line of a summary still says what was planted."""
    return any(all(word in line for word in plant.words) for line in summary.splitlines())


def _thing(rng: random.Random) -> str:
    return f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"


def _planted(rng: random.Random, turn_seq: int, thing: str) -> tuple[str, Plant]:
    kind = rng.choice(KINDS)
    pattern, question = rng.choice([*_PLANTS[kind].items()])
    values = _values(rng)
    used = tuple(value for name, value in values.items() if f"{{{name}}}" in pattern)
    return pattern.format(thing=thing, **values), Plant(kind, turn_seq, (thing, *used), question.format(thing=thing))


def _values(rng: random.Random) -> dict[str, str]:
    tool, tool2 = rng.sample(_TOOLS, 2)
    month = rng.choice(("January", "March", "May", "July", "September", "November"))
    return {
        "tool": tool,
        "tool2": tool2,
        "taste": rng.choice(_TASTES),
        "n": str(rng.randint(11, 989)),
        "money": f"{rng.randint(1, 99)},{rng.randint(100, 999)}",
        "date": f"{rng.randint(1, 28)} {month}",
        "id": f"{rng.choice(('OPS', 'INV', 'CX', 'ACC'))}-{rng.randint(10_000, 99_999)}",
        "path": f"docs/{rng.choice(_NOUNS)}/{rng.choice(_ADJECTIVES)}_{rng.randint(10, 99)}.md",
    }


def _filled(rng: random.Random, pattern: str, thing: str) -> str:
    return pattern.format(thing=thing, **_values(rng))
