"""A provider that follows a script, for tests and demonstrations.

A script is a function from a request to a ``ScriptedReply``, a list of replies given in turn, or a file of them. The
stream is like that of any provider, with the delays, errors and cut-offs of the script. It is deterministic. Stop
sequences and the token limit of a request are respected.

A script file is JSON: a list of replies, or an object ``{"replies": [...], "loop": true}``. A reply is a text, or an
object with the fields of ``ScriptedReply``. A reply with a ``when`` pattern is given to the messages that match it; the
others are given in turn.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import AssistantItem, Json, ReasoningItem, TextBlock, ToolCallItem, TranscriptItem
from contextinfinity.domain.prompt import (
    Abilities,
    Finished,
    ProviderEvent,
    ProviderRequest,
    RequestOptions,
    TextDelta,
    cost,
)
from contextinfinity.domain.turn import Completed, Incomplete, Paused, Problem, StepOutcome, Usage
from contextinfinity.errors import ProviderError, SettingsError
from contextinfinity.providers.contract import EncodedRequest, written
from contextinfinity.providers.request_options import AppliedOptions, plain
from contextinfinity.providers.wire_values import dict_of, list_of, notes
from contextinfinity.text.tokens import Counter, counter_of

ABILITIES = Abilities(context_limit=128_000, max_output_tokens=128_000, images=True, known=True)

CHARACTERS = 4
"""Characters per token, as this provider counts."""

ECHO_NOTE = "(An echo: no model answers here.)"


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call of the reply."""

    name: str
    arguments: Json = None
    call_id: str = "call-1"


class ScriptedReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scripted answer and its timing.

    ``pieces`` are the text deltas (default: one word each); ``delay`` waits that many seconds before each; ``error``
    fails after the text; ``cut_after`` ends the stream after that many pieces without ``Finished``; ``hang`` never
    ends; ``thinking`` is a reasoning item before the text; ``tools`` are tool calls after it; ``metered`` reports the
    estimated tokens of the request as used.
    """

    text: str = ""
    pieces: tuple[str, ...] | None = None
    delay: float = 0.0
    error: Problem | None = None
    cut_after: int | None = None
    hang: bool = False
    thinking: str | None = None
    tools: tuple[ToolCall, ...] = ()
    outcome: StepOutcome | None = None
    usage: Usage | None = None
    metered: bool = False
    when: str | None = None


Script: TypeAlias = Callable[[ProviderRequest], ScriptedReply | str | Awaitable[ScriptedReply | str]]


class _ScriptFile(Struct, frozen=True, forbid_unknown_fields=True):
    replies: tuple[ScriptedReply | str, ...]
    loop: bool = False


class ScriptedProvider:
    """A ``Provider`` that follows a script."""

    name = "scripted"

    def __init__(self, script: Script | Sequence[ScriptedReply | str] | Path, abilities: Abilities = ABILITIES) -> None:
        self._abilities = abilities
        if isinstance(script, Path):
            read = _read(script)
            self._script: Script = in_turn(read.replies, loop=read.loop)
        else:
            self._script = script if callable(script) else in_turn(script)

    @property
    def missing(self) -> str:
        """Always empty."""
        return ""

    def abilities(self, model_id: str) -> Abilities:
        """Return the same capabilities for every model."""
        return self._abilities

    def context_limit(self, model_id: str) -> int:
        """Return the same context window for every model."""
        return self._abilities.context_limit

    def counter(self, model_id: str) -> Counter:
        """Return the counter of an unknown model, unless the capabilities name a tokenizer."""
        return counter_of(self.name, model_id, self._abilities.encoding)

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Estimate the number of tokens of a request."""
        return self.counter(request.model_id).prompt(request.prompt)

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Encode a request as it is: this provider has no wire."""
        form = {"provider": self.name, "abilities": msgspec.to_builtins(self._abilities)}
        return written(request, request, form)

    def options_for(self, request_options: RequestOptions, model_id: str) -> AppliedOptions:
        """Return the options unchanged: stop sequences and limits are followed, the rest is for the script."""
        return plain(request_options)

    async def close(self) -> None:
        """Do nothing."""

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Yield the reply of the script."""
        scripted = self._script(written.request)
        reply = await scripted if inspect.isawaitable(scripted) else scripted
        reply = ScriptedReply(text=reply) if isinstance(reply, str) else reply
        pieces, cut = _within(_pieces(reply), written.request)
        for piece in pieces[: reply.cut_after]:
            if reply.delay:
                await asyncio.sleep(reply.delay)
            yield TextDelta(text=piece)
        if reply.hang:
            await asyncio.Event().wait()
        if reply.error is not None:
            raise ProviderError(reply.error.message, hint=reply.error.hint, kind=reply.error.code)
        if reply.metered:
            read = self.estimate_prompt_tokens(written.request)
            used = _usage(read, "".join(pieces))
            reply = replace(reply, usage=replace(used, cost=cost(self._abilities.prices, used)))
        if reply.cut_after is None:
            yield _finished(reply, "".join(pieces), cut)


def echo(request: ProviderRequest) -> ScriptedReply:
    """Reply with the last message, and a note that no model is present."""
    text = request.prompt.messages[-1].rendered_text
    return ScriptedReply(text=f"You said: {text}\n\n{ECHO_NOTE}")


def in_turn(replies: Sequence[ScriptedReply | str], *, loop: bool = False) -> Script:
    """Return the first reply whose ``when`` matches, else the others in turn; then repeat all, or the last."""
    fitting = [reply for reply in replies if isinstance(reply, ScriptedReply) and reply.when is not None]
    others = [reply for reply in replies if isinstance(reply, str) or reply.when is None]
    given = 0

    def script(request: ProviderRequest) -> ScriptedReply | str:
        nonlocal given
        text = request.prompt.messages[-1].rendered_text
        for reply in fitting:
            if re.search(reply.when or "", text):
                return reply
        if not others:
            return ScriptedReply(error=Problem(code="script", message=f"The script has no reply to {text[:80]!r}."))
        place = given % len(others) if loop else min(given, len(others) - 1)
        given += 1
        return others[place]

    return script


def _read(path: Path) -> _ScriptFile:
    try:
        data = path.read_bytes()
        whole = msgspec.json.decode(data)
        return msgspec.convert(whole if isinstance(whole, dict) else {"replies": whole}, _ScriptFile)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"The script {path} cannot be used: {error}.", hint="It is a JSON list of replies."
        ) from error


def _pieces(reply: ScriptedReply) -> tuple[str, ...]:
    if reply.pieces is not None:
        return reply.pieces
    return tuple(re.findall(r"\s*\S+|\s+$", reply.text))


class _Cut(NamedTuple):
    """The position and the reason at which an answer is cut short."""

    at: int
    reason: str = ""
    stop: str = ""


def _within(pieces: tuple[str, ...], request: ProviderRequest) -> tuple[tuple[str, ...], _Cut]:
    """Cut the text at a stop sequence or the token limit, if the request sets one."""
    text, requested = "".join(pieces), dict_of(request.options)
    stops = [stop for stop in list_of(requested.get("stop")) if stop and stop in text]
    cuts = [_Cut(text.index(stop), "stop_sequence", stop) for stop in stops]
    room = requested.get("max_output_tokens", len(text)) * CHARACTERS
    cut = min([*cuts, _Cut(room, "max_tokens" if len(text) > room else "")])
    if not cut.reason:
        return pieces, cut
    out, left = list[str](), cut.at
    for piece in pieces:
        if left <= 0:
            break
        out.append(piece[:left])
        left -= len(out[-1])
    return tuple(out), cut


def _finished(reply: ScriptedReply, text: str, cut: _Cut) -> Finished:
    items: list[TranscriptItem] = []
    if reply.thinking is not None:
        items.append(ReasoningItem(raw={"thinking": reply.thinking}))
    if text:
        items.append(AssistantItem(blocks=(TextBlock(text=text),)))
    tools = () if cut.reason else reply.tools
    items.extend(ToolCallItem(call_id=t.call_id, name=t.name, arguments=t.arguments) for t in tools)
    items.extend(notes((("stop_reason", cut.reason), ("stop_sequence", cut.stop))))
    outcome = reply.outcome or (Paused(reason="tool_use") if tools else Completed())
    if cut.reason == "max_tokens":
        outcome = Incomplete(reason="length")
    usage = reply.usage or _usage(0, text)
    response = msgspec.json.encode({"text": text, "tools": tools}).decode()
    return Finished(outcome=outcome, items=tuple(items), usage=usage, response=response)


def _usage(read: int, text: str) -> Usage:
    return Usage(input_tokens=read, output_tokens=max(1, len(text) // CHARACTERS))
