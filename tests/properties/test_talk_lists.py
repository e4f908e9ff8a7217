"""Clients that send whole conversations, as they are: they edit, drop, double, reorder, ask again, trim, sum up, send
at once and again, and models fail in between. Nothing that was acknowledged is ever lost, changed or doubled.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import Message, say
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import number_of
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.engine.continuing import Talk
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.parts import Asked, Model, Models, Setup, Terms
from contextinfinity.engine.talks import Talks
from contextinfinity.providers.scripted import Reply, ScriptedProvider
from contextinfinity.storage.journal import JournalFolder
from tests.ledgers import open_store

OWNER = Owner(user_id="ann")
WORDS = ("yes", "no", "go on")
FAILURE = Reply(error=Problem(code="server", message="It broke."))
HALF = Reply(pieces=("Half of",), error=Problem(code="server", message="It broke."))

places = st.integers(0, 30)
texts = st.sampled_from(WORDS)
moves = st.one_of(
    st.tuples(st.just("send"), texts),
    st.tuples(st.just("again"), st.just(0)),
    st.tuples(st.just("retry"), st.just(0)),
    st.tuples(st.just("edit"), places, texts),
    st.tuples(st.just("answer"), places, texts),
    st.tuples(st.just("drop"), places),
    st.tuples(st.just("double"), places),
    st.tuples(st.just("swap"), places, places),
    st.tuples(st.just("cut"), places),
    st.tuples(st.just("trim"), places),
    st.tuples(st.just("sum up"), places),
    st.tuples(st.just("anew"), st.just(0)),
    st.tuples(st.just("at once"), st.lists(texts, min_size=2, max_size=4)),
    st.tuples(st.just("as it came"), texts),
    st.tuples(st.just("fail"), st.sampled_from(("all", "half"))),
    st.tuples(st.just("stumble"), texts, texts, st.sampled_from(("all", "half"))),
)


@dataclass
class World:
    """An engine whose answers never repeat, the lists that were sent to it, and what it acknowledged."""

    folder: Path
    failing: list[Reply] = field(default_factory=list)
    sent: dict[str, list[list[tuple[str, str]]]] = field(default_factory=dict)
    """The lists whose last message a turn is: several, where a request was sent again."""
    acknowledged: dict[str, Turn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.said = 0
        self.newest: dict[int, Turn] = {}
        """By request."""
        model = Model(name="m", provider=ScriptedProvider(self.answer), model_id="m")
        store = open_store(self.folder / "ledger.db")
        models = Models(by_name={"m": model}, default="m")
        self.engine = Engine(store, JournalFolder(self.folder / "streams"), models, Setup())
        self.talks = Talks(self.engine)

    def answer(self, request: ProviderRequest) -> Reply:
        if self.failing:
            return self.failing.pop()
        self.said += 1
        return Reply(pieces=(f"answer {self.said}",))

    async def post(self, messages: list[Message], *, retry: bool = False, exact: bool = False) -> Turn:
        """Send a list, wait for the end, and see at once what must hold of this one request."""
        body = number_of(repr((messages, exact)).encode())
        talk = Talk(messages=tuple(messages), body=body, tried_within=600 * retry)
        terms = Terms(system="Be brief.", only_last=0 if exact else None)
        turn, _ = await self.talks.begin(talk, OWNER, Asked(use_memory=False, may_ask_back=False, terms=terms))
        async for _ in self.engine.watch(turn.id):
            pass
        ended = await self.engine.store.turns.get(turn.id)
        assert ended is not None
        if retry and body in self.newest and self.newest[body].phase is not Phase.FAILED:
            assert ended.id == self.newest[body].id, "a retry is no second turn"
        self.newest[body] = ended
        self.sent.setdefault(turn.id, []).append(joined(messages))
        self.acknowledged.setdefault(ended.id, ended)
        assert ended.user_message.rendered_text == joined(messages)[-1][1]
        explained = await self.engine.explain(turn.id)
        assert explained.matches
        shown = joined(list(explained.messages))
        sent = joined(messages)
        assert shown == sent or (not exact and ends_alike(shown, sent)), "the model hears what the client says, once"
        return ended


def joined(messages: list[Message]) -> list[tuple[str, str]]:
    """Give what was said, as (role, text); what one side says in a row is one thing."""
    sides: list[tuple[str, str]] = []
    for message in messages:
        if sides and sides[-1][0] == message.role:
            sides[-1] = (message.role, sides[-1][1] + message.rendered_text)
        else:
            sides.append((message.role, message.rendered_text))
    return sides


class Client:
    """It holds a list, and does with it what clients do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: list[Message] = []
        self.last: tuple[list[Message], bool] | None = None

    async def do(self, name: str, *how: Any) -> None:
        """Make one move."""
        size = len(self.messages)
        match name:
            case "send":
                await self.send(how[0])
            case "as it came":
                await self.send(how[0], exact=True)
            case "again" | "retry" if self.last is not None:
                await self.world.post(self.last[0], retry=name == "retry", exact=self.last[1])
            case "at once":
                lists = [[*self.messages, say("user", text)] for text in how[0]]
                await asyncio.gather(*map(self.world.post, lists))
            case "fail":
                self.world.failing.append(FAILURE if how[0] == "all" else HALF)
            case "stumble":
                whole = self.messages
                self.world.failing.append(FAILURE if how[2] == "all" else HALF)
                await self.send(how[0])
                self.messages = whole
                await self.send(how[1])
            case "anew":
                self.messages = []
            case "trim":
                self.messages = self.messages[how[0] % (size + 1) :]
            case "cut":
                self.messages = self.messages[: how[0] % (size + 1)]
            case "sum up":
                self.messages = [say("user", "In short: all was well. "), *self.messages[how[0] % (size + 1) :]]
            case _ if size and name not in ("again", "retry"):
                self.change(name, *how)

    async def send(self, text: str, *, exact: bool = False) -> None:
        messages = [*self.messages, say("user", text)]
        turn = await self.world.post(messages, exact=exact)
        self.last = (messages, exact)
        if turn.answer is not None:
            self.messages = [*messages, turn.answer]

    def change(self, name: str, *how: Any) -> None:
        place = how[0] % len(self.messages)
        match name:
            case "edit":
                self.messages = [*self.messages[:place], say("user", how[1])]
                self.messages.append(say("assistant", "as I would say it"))
            case "answer":
                self.messages[place] = say(self.messages[place].role, how[1])
            case "drop":
                del self.messages[place]
            case "double":
                self.messages.insert(place, self.messages[place])
            case "swap":
                other = how[1] % len(self.messages)
                self.messages[place], self.messages[other] = self.messages[other], self.messages[place]


def ends_alike(shown: list[tuple[str, str]], sent: list[tuple[str, str]]) -> bool:
    """Tell whether all is shown that is kept, to who trimmed or summed up: from the last exchange on it is the same."""
    question = len(sent) > 2 and len(shown) > 2 and sent[-3][1].endswith(shown[-3][1])
    return question and shown[-2:] == sent[-2:]


async def lines(world: World) -> dict[str, list[Turn]]:
    """Read what every branch of every thread says, from the beginning."""
    store = world.engine.store
    found = {}
    for session in await store.sessions.list(OWNER, limit=1000):
        for branch in await store.branches.list(session.id):
            found[branch.id] = list(await store.turns.history(branch.id, limit=10_000))
    return found


async def check(world: World) -> None:
    """See that nothing was lost, changed or doubled."""
    found = await lines(world)
    turns = {turn.id: turn for line in found.values() for turn in line}
    if not turns:
        return
    for turn in world.acknowledged.values():
        assert turn.id in turns, "an acknowledged turn is lost"
        kept = turns[turn.id]
        assert (kept.user_message, kept.answer, kept.turn_seq) == (turn.user_message, turn.answer, turn.turn_seq)
    for line in found.values():
        assert len({turn.id for turn in line}) == len(line)
        assert [turn.turn_seq for turn in line] == sorted({turn.turn_seq for turn in line})
        before: list[Message] = []
        for turn in line:
            for sent in world.sent.get(turn.id, ()):
                said = joined([*before, turn.user_message])
                assert stands_where_sent(said, sent), f"{sent} was sent, and stands as {said}"
            before += counted(turn)
        told = [place for place, turn in enumerate(line) if turn.id in world.sent]
        assert told[-1:] == [len(line) - 1] or not line, "something was recorded that leads to no message"
    assert Counter((turn.branch_id, turn.turn_seq) for turn in turns.values()).most_common(1)[0][1] == 1


def counted(turn: Turn) -> list[Message]:
    """Give the sides of a turn that count: none of one that failed."""
    if turn.phase is Phase.FAILED:
        return []
    return [turn.user_message] if turn.answer is None else [turn.user_message, turn.answer]


def stands_where_sent(line: list[tuple[str, str]], sent: list[tuple[str, str]]) -> bool:
    """Tell whether a message stands where its sender thinks: after all that was sent, or after its last exchange.

    The latter is for who trims; what a summary stands for is kept, and so the summary is not.
    """
    return line == sent or ends_alike(line, sent)


async def run(folder: Path, clients: int, steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    world = World(folder)
    async with world.engine:
        talking = [Client(world) for _ in range(clients)]
        for who, move in steps:
            await talking[who % clients].do(*move)
        await check(world)


@pytest.mark.req("API-7")
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(clients=st.integers(1, 2), steps=st.lists(st.tuples(st.integers(0, 1), moves), min_size=1, max_size=25))
def test_no_list_of_messages_loses_changes_or_doubles_a_turn(
    clients: int, steps: list[tuple[int, tuple[Any, ...]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), clients, steps))
