"""The registered tools, and how they are run.

Every outcome of a tool becomes its result: a value, or an error message for the model, so that it can try something
else. A tool that exceeds the timeout is abandoned. No tool failure ends the turn.
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
    """Tools by name, with their limits."""

    mode: Mode = "disabled"
    allow_parallel: bool = False
    timeout_seconds: float = 60.0
    max_rounds: int = 25
    max_result_chars: int = 200_000
    """A longer result is cut to its two ends."""
    _tools: dict[str, Tool] = field(default_factory=dict)
    _at_work: set[asyncio.Task[ToolResultBlock]] = field(default_factory=set)
    _warned_of: set[str] = field(default_factory=set)

    def add(self, function: Function, *, name: str | None = None, description: str | None = None) -> Function:
        """Register a function, async or not; return it, so that this works as a decorator. Raises ``AlreadyExists``."""
        tool = Tool(function, name=name, description=description)
        if tool.spec.name in self._tools:
            raise AlreadyExists(f"There is a tool {tool.spec.name} already.", hint="Give it another name=….")
        self._tools[tool.spec.name] = tool
        return function

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tool definitions for models, in registration order; empty if tools are disabled."""
        return () if self.mode == "disabled" else tuple(tool.spec for tool in self._tools.values())

    def warn_unable(self, model: str) -> None:
        """Log, once per model, that it does not support tools and answers without them."""
        if model not in self._warned_of:
            self._warned_of.add(model)
            names = ", ".join(spec.name for spec in self.specs)
            log.warning(
                "%s cannot call tools, so it answers without %s. Choose a model that can: `cix model list` "
                "shows which.",
                model,
                names,
            )

    async def run(self, call: ToolCallItem) -> ToolResultBlock:
        """Run one call; failures and timeouts become error results."""
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(call, f"There is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}.")
        running = asyncio.create_task(_outcome(call, tool, self.max_result_chars), name=f"tool-{call.name}")
        self._at_work.add(running)
        running.add_done_callback(self._at_work.discard)
        try:
            done, _ = await asyncio.wait({running}, timeout=self.timeout_seconds)
        finally:
            running.cancel()  # a tool that ignores it is abandoned
        if not done:
            return failed(call, f"{call.name} took longer than {self.timeout_seconds:g} s and was cancelled.")
        return running.result()


def failed(call: ToolCallItem, why: str) -> ToolResultBlock:
    """Return the result of a failed call."""
    return ToolResultBlock(tool_use_id=call.call_id, content=(TextBlock(text=_text(why)),), is_error=True)


async def _outcome(call: ToolCallItem, tool: Tool, longest: int) -> ToolResultBlock:
    """Call a function and convert its outcome to a result."""
    try:
        said = msgspec.json.decode(msgspec.json.encode(call.arguments))  # a copy, because a tool may modify it
        content = _content(await _called(tool, tool.bind(said)))
        return ToolResultBlock(tool_use_id=call.call_id, content=tuple(_cut(block, longest) for block in content))
    except InvalidInput as error:
        return failed(call, error.message[:longest])
    except BaseException as error:  # exits and interrupts end only the tool
        if isinstance(error, asyncio.CancelledError) and _is_stopped():
            raise
        log.warning("the tool %s failed", call.name, exc_info=True)
        return failed(call, f"{type(error).__name__}: {_words_of(error)}"[:longest])


def _is_stopped() -> bool:
    """Return whether this task was cancelled, rather than something that the tool awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its error message cannot be read)"


def _cut(block: ContentBlock, longest: int) -> ContentBlock:
    """Cut a text that is too long to its two ends."""
    if not isinstance(block, TextBlock) or len(block.text) <= longest:
        return block
    half = longest // 2
    left_out = len(block.text) - 2 * half
    text = f"{block.text[:half]}\n[… {left_out} characters left out …]\n{block.text[-half:]}"
    return msgspec.structs.replace(block, text=text)


async def _called(tool: Tool, arguments: dict[str, Any]) -> object:
    """Call a function; one that is not async runs in its own thread."""
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(**arguments)
    value = await _in_thread(lambda: tool.function(**arguments))
    return await value if inspect.isawaitable(value) else value


async def _in_thread(work: Callable[[], object]) -> object:
    """Run in a daemon thread, so that a tool that hangs does not block the exit of the process."""
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
        except StopIteration as raised:  # futures reject StopIteration
            error = RuntimeError(repr(raised))
        except Exception as raised:
            error = raised
        except BaseException as raised:  # an exit or interrupt would end more than the tool
            error = RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="tool", daemon=True).start()
    return await done


def _content(value: object) -> tuple[ContentBlock, ...]:
    """Convert a return value to blocks: texts and images unchanged, everything else as JSON."""
    if value is None:
        return (TextBlock(text=NO_RESULT),)
    if isinstance(value, str):
        return (TextBlock(text=_text(value) or NO_RESULT),)
    if isinstance(value, TextBlock | ImageBlock):
        value = (value,)
    if isinstance(value, Sequence) and value and all(isinstance(part, TextBlock | ImageBlock) for part in value):
        msgspec.json.encode(value)  # a value that cannot be stored is an error of the tool, not of the turn
        return tuple(value)
    return (TextBlock(text=msgspec.json.encode(value, enc_hook=str).decode()),)


def _text(words: str) -> str:
    """Escape what is not valid Unicode, such as some file names."""
    return words.encode("utf-8", "backslashreplace").decode()
