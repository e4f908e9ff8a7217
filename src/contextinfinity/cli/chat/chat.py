"""The command ``cix chat``: question after question, from a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.attachments import (
    Files,
    Folder,
    Images,
    PersonaName,
    System,
    instructions_of,
    question_target,
    read_file,
    read_image,
)
from contextinfinity.cli.command_options import Branch, CommonOptions, Model, Session, command

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields

Plain = Annotated[bool, typer.Option("--plain", help="Print plain lines without drawing, for screen readers.")]


@dataclass(frozen=True, kw_only=True)
class ChatInput:
    """The start options of a chat: instructions, files for the first question, a workspace."""

    file: Files = None
    image: Images = None
    system: System = None
    persona: PersonaName = None
    workspace: Folder = None


NOTHING = ChatInput()


@command
def chat(
    options: CommonOptions,
    session: Session = "new",
    branch: Branch = None,
    model: Model = None,
    plain: Plain = False,
    begins: ChatInput = NOTHING,
) -> None:
    """Chat with a model. On a terminal, /help lists the commands; from a pipe, every line is one question."""
    from contextinfinity.cli.answer_output import NEW

    files = [*map(read_file, begins.file or ()), *map(read_image, begins.image or ())]
    new = instructions_of(options, session, begins.system, begins.persona, model)
    model = new.model
    creates = session == NEW or begins.workspace is not None  # its last session may be in its history file alone

    def entered(work: EngineThread) -> tuple[str, SendFields]:
        thread, how = question_target(work, options, begins.workspace, session, branch, model)
        return new.begin(work, options, thread), how

    if sys.stdin.isatty() and sys.stdout.isatty() and not options.as_json:
        from contextinfinity.cli.chat.keyboard import keyboard_held

        with keyboard_held() as release, _opened(options, model, creates=creates) as work:
            from contextinfinity.cli.chat.chat_session import ChatSession

            try:
                talk = ChatSession(work, options, *entered(work), plain=plain)
                talk.files += files
                talk.run()
            finally:
                release()  # before the engine closes: a Ctrl-C then ends the process at once
        return
    from contextinfinity.cli.chat.piped_chat import PipedChat

    with _opened(options, model, creates=creates) as work:
        lines = PipedChat(work, *entered(work), as_json=options.as_json, files=files)
        lines.run()
    if lines.failures:
        raise typer.Exit(1)


@contextmanager
def _opened(options: CommonOptions, model: str | None, *, creates: bool) -> Iterator[EngineThread]:
    """Load the built-in model if it is the one that answers, and start the engine."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.weights_download import prepare

    prepare(options, model, greet=not options.as_json, creates=creates)
    with working(options, creates=creates) as work:
        yield work
