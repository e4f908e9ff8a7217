"""The files that a conversation is about: read from the repository, kept fresh, written into the prompt.

A file is named by its path relative to the root, with forward slashes. Only regular text files inside the root are
read: a path with a ``..`` component, a symbolic link that leads outside, a file in a folder that is never listed
(``.git``, ``.contextinfinity`` with the history of all users, …), a binary file or one over the size limit raises
``FileRefused``. A file that does not exist is no error: ``add_file`` returns False.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from contextinfinity.errors import FileRefused, InvalidInput
from contextinfinity.workspace.listing import NEVER, UNPRINTABLE

MAX_BYTES = 1_000_000
"""The largest file that is read, unless the caller says otherwise."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: it begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_LATIN = 0x24F
_FENCES = re.compile("`{3,}")
_SURROGATES = re.compile("[\ud800-\udfff]")

Signature = tuple[int, int, int]


class TokenCounter(Protocol):
    """Counts the tokens of a text. A plain function from text to a number serves as well."""

    def count(self, value: str, /) -> int:
        """Return the number of tokens."""
        ...


@dataclass(frozen=True, slots=True)
class _OpenFile:
    content: str
    signature: Signature | None
    """Modification time, size and inode of the file that was read; None: the content was given by the caller."""


def normalize_path(path: str | Path) -> str:
    """Return the path as the key of a file: forward slashes, none at either end; ``..`` is refused."""
    name = "/".join(part for part in str(path).replace("\\", "/").split("/") if part not in ("", "."))
    if not name:
        raise FileRefused("The path is empty.", hint="Name a file inside the repository.")
    if ".." in name.split("/"):
        raise FileRefused(f"The path {name!r} contains '..'.", hint="Name a file inside the repository.")
    if UNPRINTABLE.search(name):
        raise FileRefused(f"The path {name!r} contains a character that is not printable.", hint="Rename the file.")
    return name


def resolve_inside(root: Path, name: str) -> Path:
    """Return the real path of a file; refused outside the root and in folders that are never listed.

    ``root`` must be resolved.
    """
    real = (root / name).resolve()
    if not real.is_relative_to(root):
        raise FileRefused(f"{name} leads outside the repository.", hint="Only files inside the root are read.")
    closed = [part for part in (*name.split("/"), *real.relative_to(root).parts) if part.lower() in NEVER]
    if closed:
        raise FileRefused(f"{name} is in {closed[0]}, which is not opened.", hint="Name a file of the repository.")
    return real


def read_bytes(root: Path, name: str, max_bytes: int) -> tuple[bytes, Signature]:
    """Read a regular file inside the root; ``FileNotFoundError`` if there is none."""
    try:
        descriptor = os.open(resolve_inside(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(name) from None
    except FileRefused:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise FileRefused(f"{name} cannot be read: {error}.", hint="Check its permissions.") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise FileRefused(f"{name} is not a regular file.", hint="Name a text file.")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(max_bytes + 1) if found.st_size <= max_bytes else b""
    if found.st_size > max_bytes or len(data) > max_bytes:
        raise FileRefused(f"{name} is larger than {max_bytes} bytes.", hint="Name a smaller file.")
    return data, (found.st_mtime_ns, found.st_size, found.st_ino)


def decode(data: bytes, name: str = "The file") -> str:
    """Return the text of a file: by its byte order mark, as UTF-8, or in the detected encoding; binary is refused."""
    encoding = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), "utf-8")
    if encoding in ("utf-8", "utf-8-sig") and _BINARY.search(data):
        raise FileRefused(f"{name} is a binary file.", hint="Only text files can be added.")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return _decode_legacy(data, name)


def _decode_legacy(data: bytes, name: str) -> str:
    """Decode a text that is not Unicode: Windows-1252, unless the optional detector finds another script."""
    for encoding in (_detected(data), "cp1252"):
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    raise FileRefused(f"{name} is not text in a known encoding.", hint="Save it as UTF-8.")


def _detected(data: bytes) -> str:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(data[:50_000]).best()
    is_foreign = best is not None and any(ord(one) > _LATIN and one.isalpha() for one in str(best))
    return best.encoding if best is not None and is_foreign else "cp1252"


def fenced(path: str, content: str) -> str:
    """Write a file as its path and a fenced block; the fence is longer than any run of backticks in the content."""
    longest = max((len(found) for found in _FENCES.findall(content)), default=2)
    fence = "`" * max(3, longest + 1)
    end = "" if content.endswith("\n") or not content else "\n"
    return f"{path}\n{fence}\n{content}{end}{fence}"


def format_files(files: Mapping[str, str]) -> str:
    """Write files one below the other, sorted by path."""
    return "\n\n".join(fenced(path, files[path]) for path in sorted(files))


class FileContext:
    """The files in the context of a conversation. Without a root only files with given content can be added."""

    def __init__(self, root: str | Path | None = None, *, max_bytes: int = MAX_BYTES) -> None:
        self.root = None if root is None else Path(root).expanduser().resolve()
        if self.root is not None and not self.root.is_dir():
            raise InvalidInput(f"The root {self.root} is not a folder.", hint="Give the folder of a repository.")
        self._max_bytes = max_bytes
        self._files: dict[str, _OpenFile] = {}

    def add_file(self, path: str | Path, content: str | None = None) -> bool:
        """Add a file, with this content or as it is on disk; False if there is no such file."""
        name = self.name_of(path)
        if content is not None:
            if "\x00" in content or _SURROGATES.search(content):
                raise FileRefused(f"The content of {name} is not text.", hint="Give text without NUL characters.")
            if len(content) > self._max_bytes:
                raise FileRefused(f"{name} is larger than {self._max_bytes} bytes.", hint="Give a shorter text.")
            self._files[name] = _OpenFile(content, None)
            return True
        try:
            self._files[name] = self._read(name)
        except FileNotFoundError:
            return False
        return True

    def remove_file(self, path: str | Path) -> bool:
        """Remove a file from the context; False if it was not there."""
        return self._files.pop(self.name_of(path), None) is not None

    def get_files(self) -> list[str]:
        """Return the paths in the context, sorted."""
        return sorted(self._files)

    def get_content(self, path: str | Path) -> str | None:
        """Return the content of a file in the context, None if it is not there."""
        file = self._files.get(self.name_of(path))
        return None if file is None else file.content

    def has_file(self, path: str | Path) -> bool:
        """Return whether a file is in the context."""
        try:
            return self.name_of(path) in self._files
        except FileRefused:
            return False

    def clear(self) -> None:
        """Remove all files from the context."""
        self._files.clear()

    def contents(self) -> dict[str, str]:
        """Return all files with their content, sorted by path."""
        return {path: self._files[path].content for path in sorted(self._files)}

    def format_for_prompt(self, paths: Iterable[str] | None = None) -> str:
        """Write these files (default: all) as fenced blocks, sorted by path."""
        chosen = self._files if paths is None else set(paths) & self._files.keys()
        return format_files({path: self._files[path].content for path in chosen})

    def count_tokens(self, counter: TokenCounter | Callable[[str], int]) -> int:
        """Count the tokens of all files."""
        return sum(self.get_tokens_by_file(counter).values())

    def get_tokens_by_file(self, counter: TokenCounter | Callable[[str], int]) -> dict[str, int]:
        """Count the tokens of each file, as it is written into the prompt."""
        count = counter if callable(counter) else counter.count
        return {path: count(fenced(path, content)) for path, content in self.contents().items()}

    def refresh(self) -> list[str]:
        """Read files again that changed on disk; those that are gone or refused now leave. Return what changed."""
        changed = []
        for name, file in sorted(self._files.items()):
            if file.signature is None or file.signature == self._signature(name):
                continue
            try:
                self._files[name] = self._read(name)
            except (FileNotFoundError, FileRefused):
                del self._files[name]
            if self._files.get(name, _OpenFile("", None)).content != file.content:
                changed.append(name)
        return changed

    def name_of(self, path: str | Path) -> str:
        """Return the key of a path; an absolute path inside the root is taken relative to it."""
        if self.root is not None and Path(path).is_relative_to(self.root):
            path = Path(path).relative_to(self.root)
        return normalize_path(path)

    def _read(self, name: str) -> _OpenFile:
        if self.root is None:
            raise FileNotFoundError(name)
        data, signature = read_bytes(self.root, name, self._max_bytes)
        return _OpenFile(decode(data, name), signature)

    def _signature(self, name: str) -> Signature | None:
        try:
            found = os.stat(self.root / name) if self.root else None  # noqa: PTH116
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
