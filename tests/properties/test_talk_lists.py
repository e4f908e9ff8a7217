"""Clients that send whole conversations edit, drop, double, reorder, ask again, trim, sum up, send at once and again,
and models fail in between. No turn is lost, changed or doubled, no message that was sent is missing from the ledger,
and no conversation ever sees a word of another one, although all of them use the same phrases.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import Message, own_text, say
from contextinfinity.domain.prefix_hash import number_of, plain_text
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.resent_history import ResentHistory
from contextinfinity.engine.running_turn import SendOptions, Terms
from contextinfinity.engine.sent_conversation import SentConversation
from contextinfinity.engine.thread_matching import SUMMARY
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.storage.journal import JournalFolder
from tests.ledgers import open_store

Sides: TypeAlias = list[tuple[str, str]]

OWNER = Owner(user_id="ann")
WORDS = ("yes", "no", "go on")
"""Phrases that all conversations share, too short to recognise one by."""
MOST_MOVES = 25
DETAILS = "and all the details of it, which nobody but this one client would ever think of writing down here " * 2
FAILURE = ScriptedReply(error=Problem(code="server", message="It broke."))
HALF = ScriptedReply(pieces=("Half of",), error=Problem(code="server", message="It broke."))

places = st.integers(0, 30)
texts = st.sampled_from(WORDS)
moves = st.one_of(
    st.tuples(st.just("send"), texts),
    st.tuples(st.just("tell"), st.just(0)),
    st.tuples(st.just("again"), st.booleans()),
    st.tuples(st.just("lose"), texts),
    st.tuples(st.just("edit"), places, texts),
    st.tuples(st.just("answer"), places, texts),
    st.tuples(st.just("drop"), places),
    st.tuples(st.just("double"), places),
    st.tuples(st.just("swap"), places, places),
    st.tuples(st.just("cut"), places),
    st.tuples(st.just("trim"), places),
    st.tuples(st.just("sum up"), places),
    st.tuples(st.just("remind"), places, st.integers(0, 2)),
    st.tuples(st.just("new"), st.just(0)),
    st.tuples(st.just("at once"), st.lists(texts, min_size=2, max_size=4)),
    st.tuples(st.just("as it came"), texts),
    st.tuples(st.just("fail"), st.sampled_from(("all", "half"))),
    st.tuples(st.just("stumble"), texts, texts, st.sampled_from(("all", "half"))),
)


@dataclass
class World:
    """An engine whose model always gives the same answer, the lists sent to it, and what it acknowledged."""

    folder: Path
    failing: list[ScriptedReply] = field(default_factory=list)
    sent: dict[str, list[Sides]] = field(default_factory=dict)
    """The lists whose last message a turn is: several, where a lost request was sent again."""
    acknowledged: dict[str, Turn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conversations = 0
        model = Model(name="m", provider=ScriptedProvider(self.answer), model_id="m")
        store = open_store(self.folder / "ledger.db")
        models = Models(by_name={"m": model}, default="m")
        self.engine = Engine(store, JournalFolder(self.folder / "streams"), models, Setup())
        self.talks = ResentHistory(self.engine)

    def answer(self, request: ProviderRequest) -> ScriptedReply:
        if self.failing:
            return self.failing.pop()
        return ScriptedReply(pieces=(answer_to(request.prompt.messages[-1].rendered_text),))

    async def post(self, messages: list[Message], mark: str, *, retry: bool = False, exact: bool = False) -> Turn:
        """Send a list, wait for the end, and see at once what must hold of this one request."""
        body = number_of(repr((messages, exact)).encode())
        talk = SentConversation(messages=tuple(messages), body=body, is_retry=retry)
        terms = Terms(system="Be brief.", only_last=0 if exact else None)
        turn, _ = await self.talks.begin(talk, OWNER, SendOptions(use_memory=False, may_ask_back=False, terms=terms))
        async for _ in self.engine.watch(turn.id):
            pass
        ended = await self.engine.store.turns.get(turn.id)
        assert ended is not None
        sent = joined(messages)
        self.sent.setdefault(turn.id, []).append(sent)
        self.acknowledged.setdefault(ended.id, ended)
        assert joined([ended.user_message]) == [("user", sent[-1][1])]
        explained = await self.engine.explain(turn.id)
        assert explained.matches
        shown = joined(list(explained.messages))
        assert shown == sent or (not exact and is_end_of(shown, sent)), "the model sees what the client says, once"
        for text in (text for _, text in shown):
            assert text.count("mark ") == text.count(mark), f"{mark} is shown {text}"
        await self.check_kept(ended, messages)
        return ended

    async def check_kept(self, turn: Turn, messages: list[Message]) -> None:
        """See that every message that was sent is stored in front of the turn, or with one as a summary."""
        line = [
            one
            for one in await self.engine.store.turns.history(turn.branch_id, limit=1000, before=turn.turn_seq + 1)
            if one.phase is not Phase.FAILED or one.id == turn.id
        ]
        said = Counter(side.rendered_text for one in line for side in (one.user_message, one.answer) if side)
        whole = "\n".join([*said, *(json.dumps(one.metadata, ensure_ascii=False) for one in line)])
        summaries = [one.metadata.get(SUMMARY) for one in line if isinstance(one.metadata, dict)]
        for message in messages:
            assert message.rendered_text in whole or message.rendered_text in summaries, "a sent message is missing"


def answer_to(text: str) -> str:
    """Return the answer to a question: the same for every user."""
    return f"{WORDS[len(text) % 3]}, indeed"


def with_reminder(text: str, mark: str) -> str:
    """Add a reminder block as agents do; the mark in it is this client's."""
    return f"{text}<system-reminder>{mark}</system-reminder>"


def said_in(messages: list[Message]) -> Sides:
    """Return what was said, normalised as messages are matched."""
    return [(role, plain_text(say("user", text))) for role, text in joined(messages)]


def joined(messages: list[Message]) -> Sides:
    """Return what was said, as (role, text); what one side says in a row is one thing, without blank lines between."""
    sides: Sides = []
    for message in messages:
        text = "".join(map(own_text, message.blocks))
        if sides and sides[-1][0] == message.role:
            sides[-1] = (message.role, sides[-1][1] + text)
        else:
            sides.append((message.role, text))
    return sides


class Client:
    """It holds a list, and does with it what clients do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.last: tuple[list[Message], bool] | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a conversation; its mark is in no other one."""
        self.world.conversations += 1
        self.mark = f"mark {self.world.conversations};"
        self.messages: list[Message] = []
        self.last = None

    async def do(self, name: str, *how: Any) -> None:
        """Make one move."""
        size = len(self.messages)
        match name:
            case "send":
                await self.send(how[0])
            case "tell":
                await self.send(f"{self.mark} {size} {DETAILS}")
            case "as it came":
                await self.send(how[0], exact=True)
            case "again" if self.last is not None:
                await self.own(self.last[0], retry=how[0], exact=self.last[1])
            case "lose":
                await self.lose([*self.messages, say("user", how[0])])
            case "at once":
                lists = [[*self.messages, say("user", text)] for text in how[0]]
                turns = await asyncio.gather(*(self.world.post(one, self.mark) for one in lists))
                assert len({turn.id for turn in turns}) == len(turns), "equal requests are separate"
            case "fail":
                self.world.failing.append(FAILURE if how[0] == "all" else HALF)
            case "stumble":
                whole = self.messages
                self.world.failing.append(FAILURE if how[2] == "all" else HALF)
                await self.send(how[0])
                self.messages = whole
                await self.send(how[1])
            case "new":
                self.begin()
            case "trim":
                self.messages = self.messages[how[0] % (size + 1) :]
            case "cut":
                self.messages = self.messages[: how[0] % (size + 1)]
            case "sum up":
                self.messages = [say("user", f"In short: {self.mark} "), *self.messages[how[0] % (size + 1) :]]
            case _ if size and name != "again":
                self.change(name, *how)

    async def send(self, text: str, *, exact: bool = False) -> None:
        messages = [*self.messages, say("user", text)]
        turn = await self.own(messages, exact=exact)
        self.last = (messages, exact)
        if turn.answer is not None:
            self.messages = [*messages, turn.answer]

    async def own(self, messages: list[Message], **how: bool) -> Turn:
        """Send a list that no client waits for any more: it is a request of its own."""
        known = set(self.world.acknowledged)
        turn = await self.world.post(messages, self.mark, **how)
        assert turn.id not in known, "an answer was shared"
        return turn

    async def lose(self, messages: list[Message]) -> None:
        """Lose the connection before the answer comes, and send the request again: it joins, once."""
        lost = await self.own(messages)
        await self.world.talks.note_broken(lost.id)
        again = await self.world.post(messages, self.mark, retry=True)
        assert (again.id == lost.id) is (lost.phase is not Phase.FAILED)
        await self.own(messages, retry=True)

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
            case "remind":
                role, text = self.messages[place].role, plain_text(self.messages[place])
                self.messages[place] = say(role, (text, f"{text} ", with_reminder(text, self.mark))[how[1]])
            case "swap":
                other = how[1] % len(self.messages)
                self.messages[place], self.messages[other] = self.messages[other], self.messages[place]


def is_end_of(shown: Sides, sent: Sides) -> bool:
    """Return whether what was sent is the end of what is shown, behind one unknown message at most, and long enough."""
    rest = sent[1:]
    if len(shown) < len(rest) or (rest and shown[-len(rest) :] != rest):
        return False
    known, before = rest[:-1], shown[-len(sent)] if len(shown) >= len(sent) else ("", "\0")
    if before[0] == sent[0][0] and sent[0][1].strip().endswith(before[1].strip()):
        known = [before, *known]
    asked = [text.strip() for role, text in known if role == "user"]
    return len(asked) >= 2 and sum(map(len, asked)) >= 200


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
                said = said_in([*before, turn.user_message])
                plain = said_in([say("assistant" if role == "assistant" else "user", text) for role, text in sent])
                assert said == plain or is_end_of(said, plain), f"{sent} was sent, and is stored as {said}"
            before += counted(turn)
        told = [place for place, turn in enumerate(line) if turn.id in world.sent]
        assert told[-1:] == [len(line) - 1] or not line, "something was recorded that leads to no message"
    assert Counter((turn.branch_id, turn.turn_seq) for turn in turns.values()).most_common(1)[0][1] == 1


def counted(turn: Turn) -> list[Message]:
    """Return the messages of a turn; none of one that failed."""
    if turn.phase is Phase.FAILED:
        return []
    return [turn.user_message] if turn.answer is None else [turn.user_message, turn.answer]


async def run(folder: Path, clients: int, steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    world = World(folder)
    async with world.engine:
        talking = [Client(world) for _ in range(clients)]
        for who, move in steps:
            await talking[who % clients].do(*move)
        await check(world)


@pytest.mark.req("API-7", "API-13", "API-15")
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(clients=st.integers(1, 3), steps=st.lists(st.tuples(st.integers(0, 2), moves), min_size=1, max_size=MOST_MOVES))
def test_no_list_of_messages_loses_a_turn_or_mixes_two_conversations(
    clients: int, steps: list[tuple[int, tuple[Any, ...]]]
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(run(Path(folder), clients, steps))


conversations = st.lists(st.lists(st.sampled_from((*WORDS, "mark")), min_size=1, max_size=5), min_size=2, max_size=3)
changes = st.tuples(st.integers(0, 2), st.sampled_from(("as it is", "trim", "sum up", "edit")), st.integers(0, 9))


async def say_all(folder: Path, told: list[list[str]], known: int, changed: list[tuple[int, str, int]]) -> None:
    """Send the first conversations, then parts of all of them, as clients do that hold or know them."""
    world, lists = World(folder), list[list[Message]]()
    for number, texts in enumerate(told):
        marked = [f"mark {number}; {place} {DETAILS}" if text == "mark" else text for place, text in enumerate(texts)]
        lists.append([side for text in marked for side in (say("user", text), say("assistant", answer_to(text)))])
    async with world.engine:
        for number, messages in enumerate(lists[:known]):
            await world.post(messages[:-1], f"mark {number};")
        for who, how, place in changed:
            number = who % len(lists)
            messages = lists[number][place % len(lists[number]) :] if how in ("trim", "sum up") else [*lists[number]]
            if how == "sum up":
                messages.insert(0, say("user", f"In short: mark {number};"))
            elif how == "edit":
                messages[place % len(messages)] = say(messages[place % len(messages)].role, "yes")
            await world.post([*messages, say("user", "Well?")], f"mark {number};")
        await check(world)


@pytest.mark.req("API-13")
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(told=conversations, known=st.integers(1, 3), changed=st.lists(changes, min_size=1, max_size=4))
def test_conversations_that_share_phrases_never_share_a_thread(
    told: list[list[str]], known: int, changed: list[tuple[int, str, int]]
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(say_all(Path(folder), told, known, changed))
