"""The tools there are, and how they are run.

Whatever happens to a tool becomes its result: a value, or words that tell the model what went wrong, so that it can
try something else. A tool that takes too long is left behind. Nothing a tool does ends the turn.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    TextBlock,
    ToolCallItem,
    ToolResultBlock,
)
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.errors import AlreadyExists, InvalidInput
from contextinfinity.tools.functions import Function, Tool

log = logging.getLogger(__name__)

Mode: TypeAlias = Literal["disabled", "parse_only", "enabled"]

NO_RESULT = "(no result)"


@dataclass(kw_only=True)
class Toolbox:
    """Tools by name, and what may be done with them."""

    mode: Mode = "disabled"
    allow_parallel: bool = False
    timeout_seconds: float = 60.0
    max_rounds: int = 25
    max_result_chars: int = 200_000
    """A longer result is cut: its two ends stay."""
    _tools: dict[str, Tool] = field(default_factory=dict)
    _at_work: set[asyncio.Task[ToolResultBlock]] = field(default_factory=set)
    _warned_of: set[str] = field(default_factory=set)

    def add(self, function: Function, *, name: str | None = None, description: str | None = None) -> Function:
        """Let models call a function, async or not; gives it back, so that it can stand as a decorator."""
        tool = Tool(function, name=name, description=description)
        if tool.spec.name in self._tools:
            raise AlreadyExists(f"There is a tool {tool.spec.name} already.", hint="Give it another name=….")
        self._tools[tool.spec.name] = tool
        return function

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told, in the order in which tools were added; nothing when tools are disabled."""
        return () if self.mode == "disabled" else tuple(tool.spec for tool in self._tools.values())

    def warn_unable(self, model: str) -> None:
        """Log, once per model, that a model that cannot call tools answers without them."""
        if model not in self._warned_of:
            self._warned_of.add(model)
            names = ", ".join(spec.name for spec in self.specs)
            log.warning(
                "%s cannot call tools, so it answers without %s. Choose a model that can: `cix model list` says which.",
                model,
                names,
            )

    async def run(self, call: ToolCallItem) -> ToolResultBlock:
        """Run one call; always gives a result."""
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(call, f"There is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}.")
        running = asyncio.create_task(_outcome(call, tool, self.max_result_chars), name=f"tool-{call.name}")
        self._at_work.add(running)
        running.add_done_callback(self._at_work.discard)
        try:
            done, _ = await asyncio.wait({running}, timeout=self.timeout_seconds)
        finally:
            running.cancel()  # one that does not care for it is left behind
        if not done:
            return failed(call, f"{call.name} took longer than {self.timeout_seconds:g} s and was given up.")
        return running.result()


def failed(call: ToolCallItem, why: str) -> ToolResultBlock:
    """Make the result of a call that came to nothing."""
    return ToolResultBlock(tool_use_id=call.call_id, content=(TextBlock(text=_text(why)),), is_error=True)


async def _outcome(call: ToolCallItem, tool: Tool, longest: int) -> ToolResultBlock:
    """Call a function and make a result of whatever comes of it."""
    try:
        said = msgspec.json.decode(msgspec.json.encode(call.arguments))  # a copy: a tool may change what it gets
        content = _content(await _called(tool, tool.bind(said)))
        return ToolResultBlock(tool_use_id=call.call_id, content=tuple(_cut(block, longest) for block in content))
    except InvalidInput as error:
        return failed(call, error.message[:longest])
    except BaseException as error:  # an exit, an interrupt, anything: it ends the tool and nothing else
        if isinstance(error, asyncio.CancelledError) and _is_stopped():
            raise
        log.warning("the tool %s failed", call.name, exc_info=True)
        return failed(call, f"{type(error).__name__}: {_words_of(error)}"[:longest])


def _is_stopped() -> bool:
    """Tell whether it is we who are cancelled, and not something that a tool waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say what)"


def _cut(block: ContentBlock, longest: int) -> ContentBlock:
    """Leave the two ends of a text that is too long."""
    if not isinstance(block, TextBlock) or len(block.text) <= longest:
        return block
    half = longest // 2
    left_out = len(block.text) - 2 * half
    text = f"{block.text[:half]}\n[… {left_out} characters left out …]\n{block.text[-half:]}"
    return msgspec.structs.replace(block, text=text)


async def _called(tool: Tool, arguments: dict[str, Any]) -> object:
    """Call a function; one that is not async gets a thread of its own, so that nobody else waits for it."""
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(**arguments)
    value = await _in_thread(lambda: tool.function(**arguments))
    return await value if inspect.isawaitable(value) else value


async def _in_thread(work: Callable[[], object]) -> object:
    """Do something in a thread that nobody waits for when the process ends: a tool may hang for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: object, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value: object = None
        error: Exception | None = None
        try:
            value = context.run(work)
        except StopIteration as raised:  # which no future takes
            error = RuntimeError(repr(raised))
        except Exception as raised:
            error = raised
        except BaseException as raised:  # an exit or an interrupt would end more than the tool
            error = RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="tool", daemon=True).start()
    return await done


def _content(value: object) -> tuple[ContentBlock, ...]:
    """Turn what a function gave into blocks: text as it is, pictures as they are, all else as JSON."""
    if value is None:
        return (TextBlock(text=NO_RESULT),)
    if isinstance(value, str):
        return (TextBlock(text=_text(value) or NO_RESULT),)
    if isinstance(value, TextBlock | ImageBlock):
        value = (value,)
    if isinstance(value, Sequence) and value and all(isinstance(part, TextBlock | ImageBlock) for part in value):
        msgspec.json.encode(value)  # what could not be kept is an error of the tool, not of the turn
        return tuple(value)
    return (TextBlock(text=msgspec.json.encode(value, enc_hook=str).decode()),)


def _text(words: str) -> str:
    """Give text as it can be kept: names of files, among others, may hold bytes that are none."""
    return words.encode("utf-8", "backslashreplace").decode()
