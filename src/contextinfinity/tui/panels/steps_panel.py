"""The requests that a turn took: model, outcome, bytes, tools and how long the stages took."""

from __future__ import annotations

import json

from rich.console import Group, RenderableType
from rich.text import Text

from contextinfinity.client.results import ShownStep, TurnAccount
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import tokens
from contextinfinity.tui.panels.panel import STEP_KEYS, TextPanel

LONGEST = 600


class StepsPanel(TextPanel):
    """The steps and tool calls of the selected turn."""

    NAME = "steps"
    TITLE = "Steps and tool calls"
    KEYS = "j and k: the next or the previous turn"
    BINDINGS = STEP_KEYS

    async def load(self) -> None:
        """Read and show the steps."""
        turn = await self.conversation.turn()
        if turn is None:
            return self.show_nothing("This conversation has no answered turns yet.")
        account = await self.conversation.call(self.conversation.client.conversations.turn(turn.turn_id))
        return self.show(account_view(account))


def account_view(account: TurnAccount) -> Group:
    """Draw the account of a turn."""
    degraded = ", not in semantic search yet" if account.degraded else ""
    parts: list[RenderableType] = [
        Text(f"Turn {account.turn_seq}: {account.phase.value}, {account.outcome or 'running'}{degraded}"),
    ]
    if account.error is not None:
        parts.append(Text(printable(f"{account.error.message} {account.error.hint}"), style="bold red"))
    for step in account.steps:
        parts.extend(_step(step))
    if not account.steps:
        parts.append(Text("\nNo model was asked in this turn.", style="dim"))
    if account.latency_ms:
        parts.append(Text("\nStages", style="bold"))
        parts.extend(
            Text(f"  {name:<14}{milliseconds:>10,.1f} ms") for name, milliseconds in sorted(account.latency_ms.items())
        )
    return Group(*parts)


def _step(step: ShownStep) -> list[RenderableType]:
    outcome = "running" if step.outcome is None else type(step.outcome).__name__
    reason = getattr(step.outcome, "reason", "") or getattr(step.outcome, "message", "")
    took = "" if step.ended_at is None else f", {(step.ended_at - step.started_at).total_seconds():.2f} s"
    lines: list[RenderableType] = [
        Text(f"\nStep {step.step_index + 1}: {step.provider} {step.model}", style="bold"),
        Text(f"  {outcome}{f' ({printable(reason)})' if reason else ''}{took}"),
        Text(f"  durable/displayed {step.durable_bytes:,}/{step.displayed_bytes:,} bytes"),
    ]
    if used := tokens(step.usage):
        lines.append(Text(f"  {used}"))
    for call in step.calls:
        lines.append(Text(printable(f"  calls {call.name} {_json(call.arguments)}"), style="cyan"))
        if call.output is not None:
            lines.append(
                Text(printable(f"    {'failed' if call.is_error else 'gave'} {_short(call.output)}"), style="dim")
            )
    return lines


def _json(value: object) -> str:
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
