"""Whatever a tool does becomes its result; nothing it does ends the turn."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from contextinfinity.domain.message import ContentBlock, ImageBlock, TextBlock, ToolCallItem, ToolResultBlock
from contextinfinity.errors import AlreadyExists, InvalidInput
from contextinfinity.tools.toolbox import NO_RESULT, Mode, Toolbox

MODES: tuple[Mode, Mode] = ("parse_only", "enabled")
PICTURE = ImageBlock(media_type="image/png", source={"type": "base64", "data": "iVBORw0KGgo="})


def call(name: str = "tool", **arguments: Any) -> ToolCallItem:
    return ToolCallItem(call_id="c7", name=name, arguments=arguments)


async def run(function: Callable[..., Any], timeout_seconds: float = 60.0, **arguments: Any) -> ToolResultBlock:
    box = Toolbox(mode="enabled", timeout_seconds=timeout_seconds)
    box.add(function, name="tool")
    async with asyncio.timeout(30):
        return await box.run(call(**arguments))


async def given(value: object) -> tuple[ContentBlock, ...]:
    """What a model sees when a tool gives this."""
    result = await run(lambda: value)
    assert not result.is_error
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResultBlock) == result, "it can be kept"
    return result.content


def text_of(result: ToolResultBlock) -> str:
    (block,) = result.content
    assert isinstance(block, TextBlock)
    return block.text


# --- what a tool gives


@dataclass
class Weather:
    city: str
    degrees: float


class Sky(msgspec.Struct):
    colour: str


class Odd:
    """Nothing JSON knows, and no friend of comparisons."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "odd"


@pytest.mark.req("TOOLS-1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("It rains.", "It rains."),
        ("", NO_RESULT),
        (None, NO_RESULT),
        (0, "0"),
        (False, "false"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ({1: 2}, '{"1":2}'),
        (2**70, str(2**70)),
        (Decimal("1.50"), '"1.50"'),
        ({"a"}, '["a"]'),
        (Weather("Paris", 3.5), '{"city":"Paris","degrees":3.5}'),
        (Sky("blue"), '{"colour":"blue"}'),
        (PurePosixPath("a/b"), '"a/b"'),
        (Odd(), '"odd"'),
        ([Odd()], '["odd"]'),
        (["It", "rains."], '["It","rains."]'),
    ],
)
async def test_what_a_tool_gives_is_text_or_json(value: object, text: str) -> None:
    assert await given(value) == (TextBlock(text=text),)


@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        (PICTURE, (PICTURE,)),
        (TextBlock(text="Look:"), (TextBlock(text="Look:"),)),
        ([TextBlock(text="Look:"), PICTURE], (TextBlock(text="Look:"), PICTURE)),
        ((PICTURE, PICTURE), (PICTURE, PICTURE)),
    ],
)
async def test_pictures_and_blocks_are_given_as_they_are(value: object, blocks: tuple[ContentBlock, ...]) -> None:
    assert await given(value) == blocks


async def test_a_list_that_is_not_all_blocks_is_json() -> None:
    (block,) = await given([PICTURE, "and words"])
    assert isinstance(block, TextBlock)
    assert json.loads(block.text)[1] == "and words"


async def test_bytes_of_a_name_that_are_no_text_are_shown_as_what_they_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # a report of this test could not hold them
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert await given(name) == (TextBlock(text="caf\\udce9"),)

    def missing() -> None:
        raise FileNotFoundError(name)

    assert text_of(await run(missing)) == "FileNotFoundError: caf\\udce9"


def endless() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (["caf\udce9"], "UnicodeEncodeError"),
        (endless(), "RecursionError"),
        (TextBlock(text="caf\udce9"), "UnicodeEncodeError"),
        ([ImageBlock(media_type="image/png", source={"type": "base64", "data": object()})], "TypeError"),
    ],
    ids=["text", "endless", "block", "picture"],
)
async def test_what_cannot_be_kept_is_an_error_of_the_tool(value: object, error: str) -> None:
    result = await run(lambda: value)
    assert result.is_error
    assert text_of(result).startswith(f"{error}: ")
    assert msgspec.json.encode(result)


async def test_a_result_answers_its_call() -> None:
    assert (await run(lambda: "here")).tool_use_id == "c7"
    assert (await run(lambda: 1 / 0)).tool_use_id == "c7"


# --- what goes wrong


def exits() -> None:
    sys.exit(3)


def interrupted() -> None:
    raise KeyboardInterrupt


def ends_an_iterator() -> None:
    next(iter(()))


def is_cancelled() -> None:
    raise asyncio.CancelledError


async def exits_later() -> None:
    sys.exit(3)


async def waits_for_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def ends_an_iterator_later() -> None:
    next(iter(()))


@pytest.mark.req("TOOLS-1")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (exits, "SystemExit(3)"),
        (interrupted, "KeyboardInterrupt()"),
        (ends_an_iterator, "StopIteration()"),
        (is_cancelled, "CancelledError()"),
        (exits_later, "SystemExit: 3"),
        (waits_for_a_cancelled_task, "CancelledError: "),
        (ends_an_iterator_later, "StopIteration"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_tool_that_would_end_more_than_itself_is_an_error(function: Callable[..., Any], said: str) -> None:
    result = await run(function)
    assert result.is_error
    assert said in text_of(result)


async def test_a_time_out_of_the_tools_own_is_told_as_its_own() -> None:
    def slow_disk() -> None:
        raise TimeoutError("the disk does not answer")

    async def slow_net() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    assert text_of(await run(slow_disk)) == "TimeoutError: the disk does not answer"
    assert text_of(await run(slow_net)) == "TimeoutError: "


async def test_a_tool_is_given_up_when_its_time_is_over_whatever_it_says_then() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("not yet") from None

    result = await run(stubborn, timeout_seconds=0.01)
    assert (text_of(result), result.is_error) == ("tool took longer than 0.01 s and was cancelled.", True)


@pytest.mark.parametrize("late", [None, ValueError("too late")])
async def test_what_comes_after_the_time_is_over_is_passed_over(late: Exception | None) -> None:
    go_on, running = threading.Event(), []
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))

    def stuck() -> None:
        running.append(threading.current_thread())
        go_on.wait()
        if late is not None:
            raise late

    assert (await run(stuck, timeout_seconds=0.01)).is_error
    go_on.set()
    await asyncio.to_thread(running[0].join)
    heard = asyncio.Event()
    loop.call_soon(heard.set)  # behind what the thread has told the loop
    await heard.wait()
    assert not complaints


async def test_a_turn_that_is_stopped_takes_its_tool_along() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    running = asyncio.create_task(run(endless))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left.is_set()


async def test_a_wrong_call_is_told_what_is_wrong() -> None:
    box = Toolbox(mode="enabled")
    missing = await box.run(call("missing"))
    assert (text_of(missing), missing.is_error) == ("There is no tool 'missing'; there are: none.", True)
    box.add(lambda days: days, name="ahead")
    box.add(lambda: None, name="back")
    assert text_of(await box.run(call("missing"))) == "There is no tool 'missing'; there are: ahead, back."
    assert "missing required field `days`" in text_of(await box.run(call("ahead")))


async def test_what_a_tool_refuses_is_told_in_its_own_words(caplog: pytest.LogCaptureFixture) -> None:
    def picky() -> None:
        raise InvalidInput("There is no such city.", hint="Look at a map.")

    result = await run(picky)
    assert (text_of(result), result.is_error) == ("There is no such city.", True)
    assert not caplog.records
    await run(exits)
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "a failure is logged"


@dataclass
class Key:
    name: str

    def __post_init__(self) -> None:
        raise KeyError(self.name)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


async def test_code_of_a_type_or_of_an_error_may_break_too() -> None:
    def take(key: Key) -> None: ...

    def silent() -> None:
        raise Mute

    broken = await run(take, key={"name": "lost"})
    assert (text_of(broken), broken.is_error) == ("KeyError: 'lost'", True)
    mute = await run(silent)
    assert text_of(mute).startswith("Mute: ")
    assert mute.is_error


async def test_a_tool_that_does_not_care_to_be_given_up_is_left_behind() -> None:
    given_up, done = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                given_up.set()
        return "at last"

    result = await run(stubborn, timeout_seconds=0.01)
    assert "was cancelled" in text_of(result)
    async with asyncio.timeout(30):
        await given_up.wait()
    left = [task for task in asyncio.all_tasks() if task.get_name() == "tool-tool"]
    done.set()
    await asyncio.gather(*left)


# --- how tools are run


async def test_a_result_that_is_too_long_is_cut_to_its_two_ends() -> None:
    box = Toolbox(mode="enabled", max_result_chars=100)
    box.add(lambda: "a" * 50 + "x" * 1000 + "z" * 50, name="long")
    box.add(lambda: "a" * 100, name="short")
    box.add(lambda: [PICTURE, TextBlock(text="b" * 101, annotations=("kept",))], name="blocks")
    assert text_of(await box.run(call("long"))) == f"{'a' * 50}\n[… 1000 characters left out …]\n{'z' * 50}"
    assert text_of(await box.run(call("short"))) == "a" * 100
    picture, words = (await box.run(call("blocks"))).content
    assert picture == PICTURE
    assert words == TextBlock(text=f"{'b' * 50}\n[… 1 characters left out …]\n{'b' * 50}", annotations=("kept",))

    def wordy() -> None:
        raise ValueError("b" * 1000)

    box.add(wordy)
    assert len(text_of(await box.run(call("wordy")))) == 100


async def test_a_tool_may_change_what_it_gets() -> None:
    def change(names: list[str], more: Any) -> None:
        names.clear()
        more["changed"] = True

    box = Toolbox(mode="enabled")
    box.add(change)
    asked = call("change", names=["Ada"], more={})
    assert not (await box.run(asked)).is_error
    assert asked == call("change", names=["Ada"], more={}), "what the model said stays as it was"


async def test_a_function_that_is_not_async_has_a_thread_of_its_own() -> None:
    where = contextvars.ContextVar("where", default="nowhere")
    where.set("here")
    seen: list[threading.Thread] = []

    def look() -> str:
        seen.append(threading.current_thread())
        return where.get()

    assert text_of(await run(look)) == "here", "it sees what its caller sees"
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon, "a tool that hangs does not keep the process alive"


async def test_an_async_function_runs_where_everything_else_does() -> None:
    async def look(who: str, times: int) -> str:
        return f"{who} {times} {threading.current_thread() is threading.main_thread()}"

    class Looker:
        async def __call__(self, who: str) -> str:
            return await look(who, 0)

    assert text_of(await run(look, who="Ada", times="2")) == "Ada 2 True"
    assert text_of(await run(functools.partial(look, "Ada"), times=1)) == "Ada 1 True"
    assert text_of(await run(Looker(), who="Ada")) == "Ada 0 True"


async def test_an_async_function_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("no thread is left")

    async def look() -> str:
        return "seen"

    monkeypatch.setattr(threading.Thread, "start", start)
    assert text_of(await run(look)) == "seen"
    assert text_of(await run(lambda: "seen")) == "RuntimeError: no thread is left"


# --- the tools there are


@pytest.mark.req("TOOLS-1")
def test_tools_are_told_in_the_order_in_which_they_were_added_unless_they_are_disabled() -> None:
    box = Toolbox()

    @box.add
    def second(a: int) -> int:
        """Two."""
        return a

    box.add(lambda: None, name="first", description="One.")
    assert second(3) == 3, "a function stays what it is"
    assert not box.specs
    for mode in MODES:
        box.mode = mode
        assert [(spec.name, spec.description) for spec in box.specs] == [("second", "Two."), ("first", "One.")]


def test_a_name_is_given_once() -> None:
    box = Toolbox(mode="enabled")
    box.add(lambda: "old", name="look")
    with pytest.raises(AlreadyExists, match="a tool look already") as caught:
        box.add(lambda: "new", name="look")
    assert "name=" in caught.value.hint
    assert len(box.specs) == 1
