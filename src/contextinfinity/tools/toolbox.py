"""The registered tools, and how they are run.

Every outcome of a tool becomes its result: a value, or an error message for the model, so that it can try something
else. A tool that exceeds the timeout is abandoned. No tool failure ends the turn.

A Python function becomes a tool; its type hints and docstring describe it to the model.

    def weather(city: str, days: int = 1) -> str:
        '''Return the weather of a city.

        Args:
            city: Its name, in English.
            days: How many days ahead to look.
        '''

The first paragraph describes the tool, the lines under ``Args:`` its parameters. The model's arguments are validated
against the hints and converted before the function is called.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from textwrap import dedent
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from contextinfinity.domain.message import ContentBlock, ImageBlock, Json, TextBlock, ToolCallItem, ToolResultBlock
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.errors import AlreadyExists, InvalidInput

Function = Callable[..., Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The tool names that every vendor accepts."""

_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ONE = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(.*)")


class Tool:
    """A function with its description for models, and the conversion of their arguments."""

    def __init__(self, function: Function, *, name: str | None = None, description: str | None = None) -> None:
        self.function = function
        named = str(name or getattr(_inner(function), "__name__", ""))
        if not NAME.fullmatch(named):
            raise InvalidInput(
                f"{named!r} cannot be the name of a tool.",
                hint="Letters, digits, _ and - only, at most 64; give one with name=….",
            )
        self._arguments = _arguments_of(function, named)
        summary = _summary(_documentation(function))
        self.spec = ToolSpec(name=named, description=description or summary, parameters=_schema(self._arguments, named))

    def bind(self, arguments: Json) -> dict[str, Any]:
        """Convert a model's arguments to those of the function; raise ``InvalidInput`` if they do not fit."""
        try:
            values = msgspec.convert({} if arguments is None else arguments, self._arguments, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The arguments of {self.spec.name} do not fit: {error}.") from error
        return {
            field: value
            for field in self._arguments.__struct_fields__
            if (value := getattr(values, field)) is not msgspec.UNSET
        }


def _arguments_of(function: Function, name: str) -> type[msgspec.Struct]:
    """Build a type for a function's arguments, each with its hint, default and description."""
    parameters, hints = _parameters(function, name)
    about = _about(_documentation(function), parameters)
    fields: list[tuple[str, Any, Any]] = []
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidInput(
                f"No schema can be made for the parameter {parameter} of {name}.",
                hint="Give every parameter a name and a type.",
            )
        kind = hints.get(parameter.name, Any)
        if parameter.name in about:
            kind = Annotated[kind, Meta(description=about[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind, msgspec.NODEFAULT))
        else:  # if omitted, the function's own default applies
            fields.append((parameter.name, kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _parameters(function: Function, name: str) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """Return the parameters that a model can set, and their types; those that a partial sets by name are excluded."""
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(_code(function), include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
        raise InvalidInput(
            f"No schema can be made for the parameters of {name}: {error}.",
            hint="A tool is a Python function with type annotations that its module can resolve.",
        ) from error
    settled = function.keywords if isinstance(function, partial) else {}
    return {name: parameter for name, parameter in parameters.items() if name not in settled}, hints


def _schema(arguments: type[msgspec.Struct], name: str) -> Json:
    """Return the arguments as the JSON schema of an object."""
    try:
        (whole,), others = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        reason = str(error).splitlines()[-1]
        raise InvalidInput(f"No schema can be made for the parameters of {name}: {reason}.") from error
    own = others.pop(whole["$ref"].removeprefix("#/$defs/"))
    parameters = {key: value for key, value in own.items() if key != "title"}
    return {**parameters, "$defs": others} if others else parameters


def _inner(function: Function) -> Function:
    return function.func if isinstance(function, partial) else function


def _code(function: Function) -> Function:
    """Return the object with the hints and the docstring: inside a partial, or of a callable object."""
    inner: Any = _inner(function)
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else inner.__call__


def _documentation(function: Function) -> str:
    code = _code(function)
    return inspect.getdoc(code if code.__doc__ else _inner(function)) or ""


def _summary(text: str) -> str:
    """Return the first paragraph of a docstring."""
    section = _ARGUMENTS.search(text)
    before = text[: section.start()] if section else text
    return " ".join(before.split("\n\n", 1)[0].split())


def _about(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the description of each parameter in a docstring; lines without a name continue the one above."""
    section = _ARGUMENTS.search(text)
    said: dict[str, list[str]] = {}
    for line in dedent(section.group(1)).splitlines() if section else ():
        one = _ONE.match(line)
        if one and one.group(1) in names:
            said[one.group(1)] = [one.group(2)]
        elif said:
            said[next(reversed(said))].append(line)
    return {name: words for name, lines in said.items() if (words := " ".join(" ".join(lines).split()))}


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
