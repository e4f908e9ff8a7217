"""Agents that run their own tools: one request of a person, then many tool rounds, in a window that they outgrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.prompt import Prompt, RequestOptions, ToolSpec
from contextinfinity.engine.running_turn import Terms
from contextinfinity.providers.scripted import ABILITIES, ScriptedReply, ToolCall
from tests.scenarios.chatter import Chatter
from tests.scenarios.desk import Desk

REQUEST = "Rename the ledger column `owner` to `holder` in every module, and keep the tests green. Ticket QX-77."
TERMS = Terms(
    system="You are a careful engineer.",
    tools=(ToolSpec(name="read", description="Reads a file.", parameters={"type": "object"}),),
)
WINDOW = 8192


def output(number: int, characters: int) -> str:
    """Make what a tool gives back: lines that tell one result from another."""
    line = f"module_{number}.py: owner = row[{number}]\n"
    return (line * (characters // len(line) + 1))[:characters]


@dataclass
class Agent:
    """It asks once and then does what the model says, until that calls no tool any more."""

    desk: Desk
    client: Chatter
    rounds: int
    repeated: list[float] = field(default_factory=list)

    async def work(self, sizes: list[int], request: str = REQUEST) -> None:
        turn = await self.client.send(request, terms=TERMS)
        number = 0
        while turn.answer is not None and (calls := calls_of(turn.answer)):
            results = [
                ToolResultBlock(tool_use_id=call, content=(TextBlock(text=output(number, sizes[number % len(sizes)])),))
                for call in calls
            ]
            turn = await self.client.send(*results, terms=TERMS)
            number += 1
            told = await self.desk.engine.explain(turn.id)
            assert told.matches, "the request can be rebuilt"
            self.repeated.append(told.shared_bytes / told.total_bytes)
        assert turn.error is None, turn.error
        assert number == self.rounds


def calls_of(message: Message) -> list[str]:
    return [block.tool_use_id for block in message.blocks if isinstance(block, ToolUseBlock)]


def replies(rounds: int, name: str = "c") -> list[ScriptedReply | str]:
    looks = [
        ScriptedReply(
            tools=(ToolCall(call_id=f"{name}{number}", name="read", arguments={"path": f"module_{number}.py"}),)
        )
        for number in range(rounds)
    ]
    return [*looks, "Renamed everywhere."]


def whole_results(prompt: Prompt, name: str) -> int:
    """Count the results of the calls of that name that are shown verbatim, 800 characters each."""
    blocks = [block for message in prompt.messages for block in message.blocks if isinstance(block, ToolResultBlock)]
    texts = [(block.tool_use_id, "".join(str(part) for part in block.content)) for block in blocks]
    return sum(call.startswith(name) and "left out" not in text and len(text) > 800 for call, text in texts)


def check(prompt: Prompt, request: str = REQUEST) -> None:
    """See that the person's request is there, verbatim, once, and that calls and results go together."""
    opened = [message for message in prompt.messages if message.rendered_text == request]
    assert [message.role for message in opened] == ["user"], "the request of the running task is in every prompt"
    before: list[str] = []
    for message in prompt.messages:
        results = [block.tool_use_id for block in message.blocks if isinstance(block, ToolResultBlock)]
        assert results == before, "a result without its call, or a call without its result"
        before = calls_of(message)


@pytest.mark.req("CTX-13", "API-16")
async def test_a_tool_loop_that_outgrows_its_window_never_loses_the_request(tmp_path: Path) -> None:
    rounds = 100
    abilities = replace(ABILITIES, context_limit=WINDOW)
    async with Desk(tmp_path, *replies(rounds), abilities=abilities) as desk:
        agent = Agent(desk, Chatter(desk), rounds)
        await agent.work([200, 300, 900])
        assert len(desk.prompts) == rounds + 1
        for prompt in desk.prompts:
            check(prompt)
        newest = desk.prompts[-1].messages[-1].blocks[0]
        assert isinstance(newest, ToolResultBlock)
        assert newest.content == (TextBlock(text=output(rounds - 1, 200)),), "the newest round is whole"
        assert sum(agent.repeated) / rounds >= 0.85, "cuts are made rarely, and last"


@pytest.mark.req("CTX-13")
async def test_older_tasks_give_way_before_the_running_one(tmp_path: Path) -> None:
    abilities = replace(ABILITIES, context_limit=WINDOW)
    first, second = 12, 20
    answers = [*replies(first), *replies(second, "d")]
    async with Desk(tmp_path, *answers, abilities=abilities) as desk:
        client = Chatter(desk)
        await Agent(desk, client, first).work([800], "Look at all modules first, please. Ticket AB-1.")
        asked = len(desk.prompts)
        await Agent(desk, client, second).work([800])
        for prompt in desk.prompts[asked:]:
            check(prompt)
        shown = [(whole_results(prompt, "c"), whole_results(prompt, "d")) for prompt in desk.prompts[asked:]]
        assert shown[0][0] > 0, "the older task is there at first"
        assert (shown[-1][0], shown[-1][1] < second) == (0, True), "in the end both had to give way"
        for number, (older, running) in enumerate(shown):
            assert running == number or not older, "nothing of the running task is cut while an older one is there"


@pytest.mark.req("BUDGET-12")
async def test_a_slightly_longer_tool_result_loses_slightly_more(tmp_path: Path) -> None:
    kept = []
    sizes = [*range(8_000, 80_000, 4_000)]
    abilities = replace(ABILITIES, context_limit=WINDOW)
    call = ScriptedReply(tools=(ToolCall(call_id="c0", name="read", arguments={}),))
    async with Desk(tmp_path, *[part for _ in sizes for part in (call, "Done.")], abilities=abilities) as desk:
        for size in sizes:
            client = Chatter(desk)
            await client.send(f"Read it, all {size} characters.", terms=TERMS)
            result = ToolResultBlock(tool_use_id="c0", content=(TextBlock(text=output(1, size)),))
            await client.send(result, terms=TERMS)
            (shown,) = desk.prompts[-1].messages[-1].blocks
            assert isinstance(shown, ToolResultBlock)
            kept.append(len("".join(part.text for part in shown.content if isinstance(part, TextBlock))))
    fits = [size for size, length in zip(sizes, kept, strict=True) if size == length]
    assert fits, "what fits is whole"
    assert len(fits) < len(sizes), "the window is outgrown"
    for shorter, longer in pairwise(kept):
        assert longer >= shorter * 0.9, f"no cliff: {kept}"


@pytest.mark.req("API-12", "BUDGET-11")
async def test_a_message_that_leaves_little_room_for_an_answer_is_sent_as_the_vendor_takes_it(tmp_path: Path) -> None:
    """Nothing can be cut, and it is shorter than the window: only with an answer that was asked for it is too long."""
    abilities = replace(ABILITIES, context_limit=WINDOW)
    async with Desk(tmp_path, "Fine.", abilities=abilities) as desk:
        text = "word " * (7 * WINDOW // 8 * 4 // 5)
        assert WINDOW * 3 // 4 < desk.engine.models.named(None).counter.count(text) < WINDOW
        asks_much = replace(TERMS, request_options=RequestOptions(max_output_tokens=WINDOW // 4))
        refused = await Chatter(desk).send(text, terms=asks_much)
        assert refused.error is not None
        assert (refused.error.code, desk.prompts) == ("size", [])
        answered = await Chatter(desk).send(text, terms=TERMS)
        assert answered.error is None
        assert [message.rendered_text for message in desk.prompts[0].messages] == [text]
