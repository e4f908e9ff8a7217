"""``cix ask``: one question, one answer."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Annotated

import typer

from contextinfinity.cli.attachments import (
    Files,
    Folder,
    Images,
    PersonaName,
    System,
    content_of,
    instructions_of,
    question_target,
    read_file,
    read_image,
)
from contextinfinity.cli.command_options import Branch, CommonOptions, Model, Session, command
from contextinfinity.cli.output import print_notice
from contextinfinity.errors import InvalidInput

STANDARD_INPUT = "-"
HOW_TO_ASK = 'Write it in quotes, cix ask "…", or pipe it in.'

QUESTION_HELP = "The question; piped input is added to it. Use - or nothing to send the piped input only."
Question = Annotated[str | None, typer.Argument(metavar="[QUESTION|-]", help=QUESTION_HELP, show_default=False)]
NOTICE_SECONDS = 3.0
"""Seconds without data on standard input before a notice is printed."""

Attach = Annotated[
    list[str] | None,
    typer.Option("--attach", metavar="CHUNK", help="Show the model this chunk; `cix search` prints chunk ids."),
]


@dataclass(frozen=True, kw_only=True)
class AskInput:
    """Files and images that are sent with a question, and the instructions of a new conversation."""

    attach: Attach = None
    file: Files = None
    image: Images = None
    system: System = None
    persona: PersonaName = None
    workspace: Folder = None


NO_MATERIAL = AskInput()


@command
def ask(
    options: CommonOptions,
    question: Question = None,
    session: Session = "new",
    branch: Branch = None,
    model: Model = None,
    material: AskInput = NO_MATERIAL,
) -> None:
    """Ask one question and print the answer."""
    from contextinfinity.cli.answer_output import NEW, Answer, PlainAnswer, has_failed, print_outcome
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, say
    from contextinfinity.cli.weights_download import prepare

    files = [*map(read_file, material.file or ()), *map(read_image, material.image or ())]
    content = content_of(_with_standard_input(question), files)
    new = instructions_of(options, session, material.system, material.persona, model)
    model = new.model
    creates = session == NEW or material.workspace is not None  # its last session may be in its history file alone
    prepare(options, model, creates=creates)
    with working(options, creates=creates) as work:
        thread, fields = question_target(work, options, material.workspace, session, branch, model)
        thread = new.begin(work, options, thread)
        fields["attach"] = tuple(material.attach or ())
        turn = Answer(work, thread, content, fields).wait(None if options.as_json else PlainAnswer().on_event)
        if options.as_json:
            print_json(turn)
        elif turn.text:
            say("" if turn.text.endswith("\n") else "\n")
        if not options.as_json:
            print_outcome(work, turn)
            if session == NEW:
                print_notice(f"conversation {turn.thread_id}; continue with --session last")
    if has_failed(turn) or turn.outcome == "cancelled":
        raise typer.Exit(1)


def _with_standard_input(question: str | None) -> str:
    """Return the question followed by standard input; without a question, or for ``-``, standard input alone.

    Input that is added to a question is marked as material, like a file, so that it is not taken for the user's words.
    """
    alone = question in (None, STANDARD_INPUT)
    if not alone and not (question or "").strip():
        raise InvalidInput("The question is empty.", hint=HOW_TO_ASK)
    is_keyboard = sys.stdin is None or sys.stdin.isatty()
    piped = "" if is_keyboard and question != STANDARD_INPUT else _standard_input()
    text = piped if alone else f"{question}\n\nstdin:\n{piped}" if piped.strip() else question or ""
    if not text.strip():
        raise InvalidInput("There is no question.", hint=HOW_TO_ASK)
    return text


def _standard_input() -> str:
    """Read standard input to its end; print a notice if that takes long."""
    if sys.stdin is None:  # it is closed
        return ""
    waiting = "Reading standard input until it ends; press Ctrl-D to end it, or use `< /dev/null` for no input."
    notice = threading.Timer(NOTICE_SECONDS, print_notice, [waiting])
    notice.daemon = True
    notice.start()
    try:
        return sys.stdin.buffer.read().decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"Standard input is not UTF-8 text (byte {error.start}).", hint="Convert it, for example with iconv."
        ) from error
    finally:
        notice.cancel()
