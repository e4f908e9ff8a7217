"""Between two calls: the tools a model asked for.

Disabled, a call is an error. Parse only, calls are shown and the turn waits for whoever runs them. Enabled, they are
run here and the model is asked again. What is run stands in the journal before it runs, and on the disk: a tool may
do something that cannot be undone.
"""

from __future__ import annotations

import asyncio

import msgspec

from contextinfinity.domain.message import ToolCallItem, ToolOutputItem, ToolResultBlock
from contextinfinity.domain.turn import Paused, Problem
from contextinfinity.engine.parts import Parts
from contextinfinity.engine.running_turn import Running
from contextinfinity.engine.step import INTERRUPTED, Heard, until_done_or_cancelled
from contextinfinity.storage.journal import Journal
from contextinfinity.tools.toolbox import Toolbox

GOES_ON = "pause_turn"
"""The provider paused for reasons of its own, and goes on when it is asked again."""


async def run_tools(parts: Parts, running: Running, heard: Heard) -> bool:
    """Do what a call asks for by the tools' mode; tell whether the model is to be asked again."""
    outcome, journal = heard.finished and heard.finished.outcome, running.journal
    if heard.finished is None or journal is None or not isinstance(outcome, Paused):
        return False
    calls = tuple(item for item in heard.finished.items if isinstance(item, ToolCallItem))
    if calls and (running.asked.terms is not None or parts.setup.tools.mode != "enabled"):
        _leave(parts.setup.tools, heard, calls, journal, theirs=running.asked.terms is not None)
        return False
    if not calls and outcome.reason != GOES_ON:
        return False
    if running.rounds >= parts.setup.tools.max_rounds:
        heard.problem = _too_many(parts.setup.tools.max_rounds)
        return False
    running.rounds += 1
    if not calls:
        return True
    work = asyncio.create_task(_run(parts.setup.tools, heard, calls, journal))
    heard.interrupted = await until_done_or_cancelled(running, work)
    heard.stopped = running.cancelled.is_set()
    if heard.interrupted is not None:
        heard.problem = INTERRUPTED
    return not heard.stopped and heard.interrupted is None


def _leave(tools: Toolbox, heard: Heard, calls: tuple[ToolCallItem, ...], journal: Journal, *, theirs: bool) -> None:
    """Show calls that are not run here; ``theirs``: the caller brought the tools."""
    for call in calls:
        _show(journal, call, run=False)
    if tools.mode == "disabled" and not theirs:
        names = ", ".join(call.name for call in calls)
        heard.problem = Problem(
            code="tools_disabled",
            message=f"The model asked for tools ({names}), and tools are disabled.",
            hint='Set tools.mode to "parse_only" or "enabled".',
        )


async def _run(tools: Toolbox, heard: Heard, calls: tuple[ToolCallItem, ...], journal: Journal) -> None:
    """Run calls, at once or one after the other, and keep what each gave; outputs stand in the order of the calls."""
    if tools.allow_parallel:
        for call in calls:
            _show(journal, call, run=True)
        await asyncio.to_thread(journal.sync)
        running = [asyncio.create_task(tools.run(call)) for call in calls]
        try:
            for call, task in zip(calls, running, strict=True):
                _keep(heard, journal, call, await task)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return
    for call in calls:
        _show(journal, call, run=True)
        await asyncio.to_thread(journal.sync)
        _keep(heard, journal, call, await tools.run(call))


def _show(journal: Journal, call: ToolCallItem, *, run: bool) -> None:
    journal.append("call", {"call_id": call.call_id, "name": call.name, "arguments": call.arguments, "run": run})


def _keep(heard: Heard, journal: Journal, call: ToolCallItem, result: ToolResultBlock) -> None:
    content = msgspec.json.decode(msgspec.json.encode(result.content))
    output = ToolOutputItem(call_id=call.call_id, output=content, is_error=result.is_error)
    journal.append("output", {"name": call.name, **msgspec.to_builtins(output)})
    heard.outputs.append(output)


def _too_many(rounds: int) -> Problem:
    return Problem(
        code="tool_rounds",
        message=f"The model asked for tools more than {rounds} times in one turn.",
        hint="Ask for less at once, or raise tools.max_rounds.",
    )
