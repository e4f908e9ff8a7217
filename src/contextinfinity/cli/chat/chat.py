"""The command ``cix chat``: question after question, from a terminal or a pipe."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from contextinfinity.cli.options import Branch, Means, Model, Session, command

Plain = Annotated[bool, typer.Option("--plain", help="Draw nothing: plain lines, for screen readers.")]


@command
def chat(
    means: Means, session: Session = "new", branch: Branch = None, model: Model = None, plain: Plain = False
) -> None:
    """Talk with a model; lines from a pipe work too, one answer each. On a terminal, /help lists its commands."""
    from contextinfinity.cli.answering import NEW, way
    from contextinfinity.cli.weights import prepare
    from contextinfinity.cli.working import working

    prepare(means, model, greet=not means.as_json, creates=session == NEW)
    if sys.stdin.isatty() and sys.stdout.isatty() and not means.as_json:
        from contextinfinity.cli.chat.keyboard import keyboard_held
        from contextinfinity.cli.chat.talk import Talk

        with keyboard_held() as release, working(means, creates=session == NEW) as work:
            try:
                Talk(work, means, *way(work, means, session, branch, model), plain=plain).go_on()
            finally:
                release()  # before the engine closes: a Ctrl-C then ends the process at once
        return
    from contextinfinity.cli.chat.pipe import Lines

    with working(means, creates=session == NEW) as work:
        thread, how = way(work, means, session, branch, model)
        lines = Lines(work, thread, how, as_json=means.as_json)
        lines.go_on()
    if lines.failures:
        raise typer.Exit(1)
