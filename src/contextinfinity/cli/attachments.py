"""Files that go along with a question: a text file as text under its name, an image as an image."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
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
