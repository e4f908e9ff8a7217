"""What goes along with a question: files, and the options that begin a conversation.

A text file is sent as text under its name, an image as an image. A conversation begins with instructions, a persona, or
``--workspace DIR``, which makes it one about a repository.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import unquote

import typer

from contextinfinity.cli.command_options import settings_for
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields
    from contextinfinity.domain.message import ContentBlock

Attachment: TypeAlias = "str | ContentBlock"

LARGEST_IMAGE = 20 << 20
LARGEST_TEXT = 20 << 20
LONGEST_PATH = 4096
_DRAGGED = re.compile(r"""(?:file://|['"]?(?:~|/|[A-Za-z]:\\))""")


def read_file(path: Path) -> str:
    """Return a text file's name and text as they are added to a question."""
    data = _bytes(path, LARGEST_TEXT)
    try:
        return f"{path.name}:\n{data.decode('utf-8').rstrip()}"
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8 text (byte {error.start}).", hint="--file takes text files, --image images."
        ) from error


def read_image(path: Path) -> ContentBlock:
    """Return an image file as content of a message."""
    from contextinfinity.domain.message import ImageBlock
    from contextinfinity.text.image_size import media_type_of

    data = _bytes(path, LARGEST_IMAGE)
    kind = media_type_of(data)
    if kind is None:
        raise InvalidInput(
            f"{path} is not an image format that models accept.", hint="Use a PNG, JPEG, GIF or WebP file."
        )
    return ImageBlock(media_type=kind, source={"type": "base64", "data": base64.b64encode(data).decode()})


def read_attachment(path: Path) -> Attachment:
    """Return an image as an image, and anything else as text."""
    from contextinfinity.text.image_size import media_type_of

    if not path.is_file():
        raise InvalidInput(f"{path} cannot be read: there is no such file.", hint="Check the path.")
    return read_image(path) if media_type_of(_bytes(path, LARGEST_IMAGE)) else read_file(path)


def _bytes(path: Path, most: int) -> bytes:
    """Read a file or a pipe to its end; one that is too large is refused before all of it was read."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", hint="Check its name.") from error
    if len(data) > most:
        raise InvalidInput(f"{path} is larger than {most >> 20} MB.", hint="Send a part of it.")
    return data


def content_of(question: str, attachments: Sequence[Attachment]) -> str | tuple[ContentBlock, ...]:
    """Return a question with its attachments: texts are added to its text, images follow it."""
    from contextinfinity.domain.message import TextBlock

    text = "\n\n".join([question, *(one for one in attachments if isinstance(one, str))])
    images = tuple(one for one in attachments if not isinstance(one, str))
    return (TextBlock(text=text), *images) if images else text


def dragged_file(line: str) -> Path | None:
    """Return the file that a line names and nothing else, as terminals write a file that is dropped on them."""
    line = line.strip()
    if len(line) > LONGEST_PATH or "\n" in line or not _DRAGGED.match(line):
        return None
    if line.startswith("file://"):
        name = unquote(line.removeprefix("file://"))
    else:
        try:
            words = shlex.split(line)
        except ValueError:
            return None
        if len(words) != 1:
            return None
        name = words[0]
    try:
        path = Path(name).expanduser()
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


Files = Annotated[list[Path] | None, typer.Option("--file", metavar="F", help="Add this text file to the question.")]
Images = Annotated[list[Path] | None, typer.Option("--image", metavar="F", help="Add this image to the question.")]
System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model, for a new conversation.")
]
PersonaName = Annotated[
    str | None, typer.Option("--persona", metavar="NAME", help="The instructions of [general.personas.NAME].")
]


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The instructions of a new conversation, and the model that answers in it."""

    system: str | None = None
    model: str | None = None

    def begin(self, work: EngineThread, options: CommonOptions, thread: str) -> str:
        """Create the conversation if it has instructions; return where to send the first question."""
        if self.system is None:
            return thread
        from contextinfinity.domain.session import NewSession

        return work.do(work.client.threads.create(NewSession(owner=options.owner, system=self.system))).thread_id


def instructions_of(
    options: CommonOptions, session: str, system: str | None, persona: str | None, model: str | None
) -> Instructions:
    """Return the instructions that ``--system`` or ``--persona`` give a new conversation."""
    if system is None and persona is None:
        return Instructions(model=model)
    if session != "new":
        raise InvalidInput(
            "--system and --persona work for new conversations only.",
            hint="Omit --session, or use `cix pin` to instruct an existing conversation.",
        )
    if persona is None:
        return Instructions(system=system, model=model)
    if system is not None:
        raise InvalidInput("--system and --persona cannot be used together.", hint="Use one of them.")
    known = settings_for(options.config, options.data_dir).settings.general.personas
    if persona not in known:
        raise InvalidInput(
            f"There is no persona {persona!r}; there are: {', '.join(known) or 'none'}.",
            hint=f'Write [general.personas.{persona}] with system = "…" in config.toml.',
        )
    return Instructions(system=known[persona].system, model=model or known[persona].model)


Folder = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="Chat about this repository: its files, symbols and history."),
]


def question_target(
    work: EngineThread, options: CommonOptions, folder: Path | None, session: str, branch: str | None, model: str | None
) -> tuple[str, SendFields]:
    """Find out where a question goes and how; in a workspace ``last`` is its own last session."""
    from contextinfinity.cli.answer_output import check_model, conversation_and_options

    if folder is None:
        return conversation_and_options(work, options, session, branch, model)
    from contextinfinity.cli.output import print_notice
    from contextinfinity.client.local import LocalClient

    if not isinstance(work.client, LocalClient):
        raise InvalidInput(
            "A workspace is read by this process, not by a server.",
            hint="Leave --server out; a server with the same data folder may keep running.",
        )
    if model is not None:
        check_model(model, work.do(work.client.conversations.models()))
    workspace = work.client.open_workspace(folder, model=model)
    workspace.warn = print_notice
    if session == "last":
        return work.do(workspace.last_session()), {"user_id": options.named_user, "model": model}
    return conversation_and_options(work, options, session, branch, model)
