"""The health of the engine, and its background jobs."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from contextinfinity.client.results import Health
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import clock
from contextinfinity.tui.panels.panel import TextPanel

EVERY_SECONDS = 2.0
STYLES = {"ready": "bold green", "degraded": "bold yellow", "unready": "bold red"}


class HealthPanel(TextPanel):
    """Health and the backlog of jobs, read again every two seconds."""

    NAME = "health"
    TITLE = "Jobs and health"
    KEYS = "Read again every two seconds"

    def on_mount(self) -> None:
        """Keep reading while the panel is open."""
        self.set_interval(EVERY_SECONDS, self._read_again)
        super().on_mount()

    def _read_again(self) -> None:
        """Read again, unless the last read still waits for an answer."""
        if self.loading_now is None or self.loading_now.is_finished:
            self.reload()

    async def load(self) -> None:
        """Read and show the health."""
        self.show(health_view(await self.conversation.call(self.conversation.client.health())))


def health_view(health: Health) -> Group:
    """Draw how an engine is."""
    backlog = health.backlog
    parts: list[RenderableType] = [Text(f"The engine is {health.status}.", style=STYLES[health.status])]
    parts.extend(Text(f"  {printable(reason)}") for reason in health.reasons)
    parts += [
        Text("\nJobs", style="bold"),
        Text(f"  {backlog.queued} queued, {backlog.running} running, {backlog.failed} failed"),
    ]
    parts.extend(Text(f"  {kind}: {count}") for kind, count in sorted(backlog.by_type.items()))
    if backlog.oldest is not None:
        parts.append(Text(f"  the oldest waits since {clock(backlog.oldest)}"))
    if health.spool_depth:
        parts.append(Text(f"\n{health.spool_depth} turns are spooled until the ledger is back.", style="bold yellow"))
    return Group(*parts)
