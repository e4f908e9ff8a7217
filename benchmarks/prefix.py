"""How much of a request repeats the one before: what a provider's cache need not read again.

The reference chat: 60 tokens asked, 340 answered, 800 brought back by a stand-in for retrieval that brings something
else each time; memories that change with every turn; turns fold when they are too many. The engine is the real one,
its model a script. Every request is held against the one before, as itself and as the vendors would get it.

Beside it the same conversation in two other ways: with the last 20 messages only, and with the memories of the moment
in front of the conversation.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks.harness import Bench, Row
from benchmarks.wires import VENDORS
from benchmarks.words import text
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import Json, Message, say
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import AuxiliaryModels, Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.prompt.assemble import shared
from contextinfinity.prompt.layout import MEMORIES
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.contract import write
from contextinfinity.providers.remote import overrides, wire
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.settings import Settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.tokens import counter_of
from contextinfinity.text.tokens.encodings import Encoding

ASKED, ANSWERED, RETRIEVED, PIECES = 60, 340, 800, 4
"""Tokens of a question, of an answer, of what is brought back; and in how many pieces."""
TURNS = 500
WINDOW = 20
SHARE, TURNS_AN_EPOCH = 0.9, 45
DRAIN_SECONDS = 60.0
MODEL_ID = "gpt-4o"
ABILITIES = Abilities(context_limit=128_000, max_output_tokens=16_384, encoding="o200k_base", known=True)

_ruler = Encoding("o200k_base")  # one of our own: what it has counted is still new to the engine


async def run(bench: Bench) -> list[Row]:
    """Talk, then compare."""
    with bench.scratch() as folder:
        sent = await converse(folder, TURNS if bench.scale.blocks > 2 else 12)
    written = {form: _written(sent, form) for form in FORMS}
    return [_repeated(written), _served(sent), _in_bytes(sent, written)]


# --- the reference chat ---


def words(rng: random.Random, tokens: int) -> str:
    """Make a text of that many tokens, or one or two more, that was never said before."""
    found = text(rng, tokens * 8).split()
    return " ".join(found[: bisect_left(range(len(found)), tokens, key=lambda n: _ruler.count(" ".join(found[:n])))])


def artifacts(rng: random.Random) -> tuple[Artifact, ...]:
    """Make what retrieval would bring back for a turn, the best first."""
    found = (words(rng, RETRIEVED // PIECES) for _ in range(PIECES))
    return tuple(
        Artifact(
            chunk_id=new_id(),
            side="assistant",
            text=body,
            start=0,
            end=len(body),
            tokens=RETRIEVED // PIECES,
            said_at=now(),
            score=0.9 - place / 10,
        )
        for place, body in enumerate(found, start=1)
    )


def reference_models(rng: random.Random, hear: Callable[[ProviderRequest], None]) -> Models:
    """Return the one model of the chat: a window of 128,000 tokens, and an answer to everything."""

    def script(request: ProviderRequest) -> ScriptedReply:
        hear(request)
        return ScriptedReply(pieces=(words(rng, ANSWERED),))

    model = Model(name="it", provider=ScriptedProvider(script, ABILITIES), model_id=MODEL_ID)
    return Models(by_name={"it": model}, default="it")


@dataclass(kw_only=True)
class Sent:
    """The requests of a chat."""

    requests: list[ProviderRequest] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    """Why the front of each was a new one; None: it was not."""
    said: list[Message] = field(default_factory=list)
    """The whole conversation, verbatim."""
    memories: list[str] = field(default_factory=list)
    """What was known at each turn."""

    @property
    def prompts(self) -> list[Prompt]:
        """What was sent, before it had a form."""
        return [request.prompt for request in self.requests]


async def converse(folder: Path, turns: int) -> Sent:
    """Hold the chat; what is done behind an answer is done before the next question."""
    sent, rng = Sent(), random.Random(11)

    async def retrieve(turn: Turn, rewritten: str | None) -> tuple[Artifact, ...]:
        return artifacts(rng)

    async def memories(turn: Turn) -> str:
        sent.memories.append(f"- Has said {turn.turn_seq} things, the last of them {turn.user_message.rendered_text}")
        return sent.memories[-1]

    store, journals = SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams")
    models = reference_models(rng, sent.requests.append)
    setup = Setup(helpers=AuxiliaryModels(retrieve=retrieve, memories=memories))
    async with Engine(store, journals, models, setup) as engine:
        thread = "new"
        for _ in range(turns):
            question = words(rng, ASKED)
            turn = await engine.ask(thread, question)
            thread = turn.thread_id
            sent.said += [say("user", question), say("assistant", turn.text)]
            sent.reasons.append((await engine.context(turn.turn_id)).epoch_reason)
            await engine.job_runner.drain(DRAIN_SECONDS, folds=True)
    return sent


# --- the two other ways ---


def with_a_window(sent: Sent) -> list[Prompt]:
    """Show the last messages only, and what was brought back for the question."""
    return [
        replace(prompt, messages=(*sent.said[max(0, 2 * at - WINDOW) : 2 * at], prompt.messages[-1]))
        for at, prompt in enumerate(sent.prompts)
    ]


def with_memories_in_front(sent: Sent) -> list[Prompt]:
    """Show what is known at the moment before the conversation, and all else as it was."""
    return [
        replace(prompt, system=(prompt.system[0], f"{MEMORIES}\n{known}"))
        for prompt, known in zip(sent.prompts, sent.memories, strict=True)
    ]


# --- what repeats ---


def _pieces(prompt: Prompt) -> tuple[str | Message, ...]:
    return (*prompt.system, *prompt.messages)


def by_prefix(before: Prompt, after: Prompt) -> int:
    """Count the pieces that a cache would serve which knows every beginning."""
    pairs = zip(_pieces(before), _pieces(after), strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(_pieces(before)))


def by_marks(before: Prompt, after: Prompt) -> int:
    """Count the pieces that a cache would serve which keeps what was marked, and looks where a mark is."""
    known = by_prefix(before, after)
    return max((at + 1 for at in {*before.markers} & {*after.markers} if at < known), default=0)


@dataclass(frozen=True, kw_only=True)
class Served:
    """Tokens of all requests, and those of them that came from a cache."""

    tokens: int
    served: int
    requests: int

    @property
    def share(self) -> float:
        """The part that need not be read again."""
        return self.served / self.tokens

    @property
    def afresh(self) -> float:
        """Tokens to be read in a request, on average."""
        return (self.tokens - self.served) / self.requests


def served(prompts: Sequence[Prompt], cache: Callable[[Prompt, Prompt], int] = by_prefix) -> Served:
    """Add up what a cache would have served."""
    counter = counter_of("scripted", MODEL_ID, ABILITIES.encoding)
    tokens = from_cache = 0
    for before, after in pairwise([Prompt(system=(), messages=()), *prompts]):
        sizes = [counter.count(piece) for piece in _pieces(after)]
        tokens += sum(sizes)
        from_cache += sum(sizes[: cache(before, after)])
    return Served(tokens=tokens, served=from_cache, requests=len(prompts))


FORMS = ("scripted", *(vendor.provider for vendor in VENDORS))


def bodies(sent: Sent, provider: str) -> Iterator[Json]:
    """Write the chat's requests as one vendor would get them."""
    if provider == "scripted":
        yield from map(msgspec.to_builtins, sent.requests)
        return
    vendor = next(vendor for vendor in VENDORS if vendor.provider == provider)
    said = vendor.settings(0)
    form, abilities = wire(said, Settings()), abilities_of(provider, vendor.model_id, overrides(said))
    for request in sent.requests:
        asked = replace(request, model_id=vendor.model_id)
        yield msgspec.json.decode(write(provider, form, abilities, asked).body)


@dataclass(kw_only=True)
class Written:
    """What of a chat's requests repeats, in the bytes of one form."""

    total: int = 0
    common: int = 0
    within: int = 0
    """Requests that go on in the epoch of the one before."""
    whole: int = 0
    """Those of them that begin with all of its sections 1 to 6."""


def _written(sent: Sent, provider: str) -> Written:
    found, before, must = Written(), None, 0
    for body, reason in zip(bodies(sent, provider), sent.reasons, strict=True):
        common, total = shared(before, body)
        found.total += total
        found.common += common
        found.within += reason is None
        found.whole += reason is None and common >= must
        before, must = body, total - _last_piece(body)
    return found


def _last_piece(body: Json) -> int:
    """Return the bytes of the piece with what was brought back and the user's words."""
    body = body.get("prompt", body)
    messages = body.get("messages") or body["input"]
    return shared(None, {"messages": messages[-1:]})[1]


# --- rows ---


def _repeated(written: dict[str, Written]) -> Row:
    within, whole = sum(each.within for each in written.values()), sum(each.whole for each in written.values())
    return Row(
        what=f"requests of an epoch with byte-identical sections 1–6 ({', '.join(written)})",
        target="100%",
        result=f"{whole / within:.2%}, {whole:,} of {within:,} requests",
        met=whole == within,
        values={"share": whole / within},
    )


def _served(sent: Sent) -> Row:
    ours = served(sent.prompts)
    window, memories = served(with_a_window(sent)), served(with_memories_in_front(sent))
    turns, epochs = len(sent.reasons), sum(reason is not None for reason in sent.reasons)
    ways = {f"the last {WINDOW} messages": window, "memories in front": memories}
    return Row(
        what=f"input tokens that a prefix cache can serve, reference chat of {turns} turns on a 128k model, with folds",
        target=f"≥ {SHARE:.0%}, ≤ 1 epoch in {TURNS_AN_EPOCH} turns",
        result=f"{ours.share:.1%}, 1 epoch in {turns / epochs:.0f} turns; {ours.afresh:,.0f} uncached per request",
        baseline="; ".join(f"{way}: {each.share:.1%}, {each.afresh:,.0f}" for way, each in ways.items()),
        met=ours.share >= SHARE and turns / epochs >= TURNS_AN_EPOCH,
        values={
            "share": ours.share,
            "turns_an_epoch": turns / epochs,
            "mean_tokens": ours.tokens / turns,
            "afresh_tokens": ours.afresh,
            "window_share": window.share,
            "window_afresh_tokens": window.afresh,
            "memories_share": memories.share,
            "memories_afresh_tokens": memories.afresh,
        },
    )


def _in_bytes(sent: Sent, written: dict[str, Written]) -> Row:
    marked = served(sent.prompts, by_marks).share
    shares = {form: each.common / each.total for form, each in written.items()}
    return Row(
        what="the same by cache markers alone, and in bytes per wire format",
        result=f"{marked:.1%}; {', '.join(f'{form} {share:.1%}' for form, share in shares.items())}",
        values={"by_marks": marked, **shares},
    )
