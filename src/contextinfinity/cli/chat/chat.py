"""The command ``cix chat``: question after question, from a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Model, Session, command
from contextinfinity.cli.workspace_option import Folder, way_in

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread

Plain = Annotated[bool, typer.Option("--plain", help="Draw nothing: plain lines, for screen readers.")]


@command
def chat(
    means: CommonOptions,
    session: Session = "new",
    branch: Branch = None,
    model: Model = None,
    plain: Plain = False,
    workspace: Folder = None,
) -> None:
    """Chat with a model. On a terminal, /help lists the commands; from a pipe, every line is one question."""
    from contextinfinity.cli.answer_output import NEW

    if sys.stdin.isatty() and sys.stdout.isatty() and not means.as_json:
        from contextinfinity.cli.chat.keyboard import keyboard_held

        with keyboard_held() as release, _opened(means, model, creates=session == NEW) as work:
            from contextinfinity.cli.chat.chat_session import ChatSession

            try:
                ChatSession(work, means, *way_in(work, means, workspace, session, branch, model), plain=plain).go_on()
            finally:
                release()  # before the engine closes: a Ctrl-C then ends the process at once
        return
    from contextinfinity.cli.chat.piped_chat import PipedChat

    with _opened(means, model, creates=session == NEW) as work:
        thread, how = way_in(work, means, workspace, session, branch, model)
        lines = PipedChat(work, thread, how, as_json=means.as_json)
        lines.go_on()
    if lines.failures:
        raise typer.Exit(1)


@contextmanager
def _opened(means: CommonOptions, model: str | None, *, creates: bool) -> Iterator[EngineThread]:
    """Load the built-in model if it answers, and have an engine at work."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.weights_download import prepare

    prepare(means, model, greet=not means.as_json, creates=creates)
    with working(means, creates=creates) as work:
        yield work
