"""The command ``cix tui``: the terminal workbench."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Model, Terminated, command
from contextinfinity.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client
    from contextinfinity.tui.workbench_app import WorkbenchApp

Where = Annotated[str, typer.Option("--session", metavar="ID|last|new", help="The conversation to open.")]
Plain = Annotated[bool, typer.Option("--plain", help="Use words instead of drawings, for screen readers.")]
Colours = Annotated[
    Literal["auto", "light", "dark"], typer.Option("--theme", help="The theme; auto reads the terminal's environment.")
]

SWITCH_SECONDS = 0.001
"""How long the engine's thread may keep the interpreter while a key waits; Python's 5 ms add up over a redraw."""


@command
def tui(
    options: CommonOptions,
    session: Where = "last",
    branch: Branch = None,
    model: Model = None,
    plain: Plain = False,
    theme: Colours = "auto",
) -> None:
    """Open the terminal workbench. It shows a chat, and everything behind it in panels; F1 shows its keys."""
    if find_spec("textual") is None:
        raise Refused(
            "The terminal workbench needs Textual, which is not installed.",
            hint="Install it with: pip install 'contextinfinity[tui]'",
        )
    if options.as_json:
        raise InvalidInput("The workbench has no JSON output.", hint="Leave --json out, or use another command.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("The workbench needs a terminal.", hint="Use `cix ask` or `cix chat` in a pipe.")
    from contextinfinity.cli.engine_thread import opening
    from contextinfinity.cli.weights_download import prepare
    from contextinfinity.tui.workbench_app import Start, WorkbenchApp

    sys.setswitchinterval(SWITCH_SECONDS)
    prepare(options, model, creates=True)
    with opening(options) as (open_client, begin):
        start = Start(
            session=session,
            branch=branch,
            model=model,
            owner=options.owner,
            user_id=options.named_user,
            plain=plain,
            light=theme == "light" or (theme == "auto" and _is_light()),
        )
        app = WorkbenchApp(lambda: _frozen(open_client()), begin, start)
        with leaving_on_signals(app):
            app.run()
    if app.failure is not None:
        raise app.failure


@contextmanager
def leaving_on_signals(app: WorkbenchApp) -> Iterator[None]:
    """Leave the workbench on a terminating signal: raised while its loop runs a task, it would end only that task."""
    from contextinfinity.cli.engine_thread import ending_calls

    terminated = False

    def leave(number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        if not app.is_running:
            raise Terminated
        asyncio.get_running_loop().call_soon_threadsafe(app.exit)

    with ending_calls(leave):
        yield
    if terminated:
        raise Terminated


def _frozen(opening: Future[Client]) -> Future[Client]:
    """Leave what is loaded once the engine is open out of garbage collections: each would stop the screen for long."""
    opening.add_done_callback(lambda _: gc.freeze())
    return opening


def _is_light() -> bool:
    """Return whether the terminal says that its background is light (``COLORFGBG`` ends with its colour)."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background in ("7", "15")
