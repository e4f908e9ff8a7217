"""The portable history of a workspace: an append-only file of JSON lines, and the images that messages show.

    FOLDER/history.jsonl    one message a line
    FOLDER/images/          image files, named by the hash of their content
    FOLDER/session          a session that was begun or continued, and the size of the file by then

Several processes may append at once: each takes a lock, completes a torn last line of a process that died, writes its
line and syncs it to disk. A line that is not a message is skipped with a warning; nothing after it is lost.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from contextinfinity.errors import InvalidInput
from contextinfinity.storage.encryption.cipher import Protection, opened, sealed
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import sync_file, sync_folder

log = logging.getLogger(__name__)

FILE, IMAGES, LOCK, CURRENT = "history.jsonl", "images", "history.lock", "session"
PREVIEW = 100
ROLES = ("user", "assistant")
_EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_TYPES = {extension: kind for kind, extension in _EXTENSIONS.items()} | {"jpeg": "image/jpeg"}
_DATA_URI = re.compile(r"data:(image/[a-z]+);base64,([A-Za-z0-9+/=\s]+)\Z")
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_BETWEEN = "\x00"


class HistoryMessage(Struct, kw_only=True, omit_defaults=True):
    """One line of the file. ``images`` is the number of images in files of an old release."""

    id: str
    session_id: str
    timestamp: str
    role: str
    content: str
    image_refs: list[str] | UnsetType | None = UNSET
    images: int | list[Any] | UnsetType | None = UNSET
    files: list[str] | UnsetType | None = UNSET
    files_modified: list[str] | UnsetType | None = UNSET
    edit_results: list[Any] | UnsetType | None = UNSET


_decode = msgspec.json.Decoder(HistoryMessage).decode
Line: TypeAlias = tuple[bytes, HistoryMessage | None]
"""A line of the file, and its message if it is one."""


def new_message_id() -> str:
    """Return ``{epoch_ms}-{uuid8}``."""
    return f"{time.time_ns() // 1_000_000}-{secrets.token_hex(4)}"


def new_session_id() -> str:
    """Return ``sess_{epoch_ms}_{uuid6}``."""
    return f"sess_{time.time_ns() // 1_000_000}_{secrets.token_hex(3)}"


class _Index:
    """The part of the file that was read so far, and the text of all messages in one string, for searching."""

    def __init__(self, inode: int = 0) -> None:
        self.inode, self.end = inode, 0
        self.messages: list[HistoryMessage] = []
        self.sessions: dict[str, list[int]] = {}
        self._text = ""
        self._offsets: list[int] = []

    def add(self, message: HistoryMessage) -> None:
        """Add the next message of the file."""
        self.sessions.setdefault(message.session_id, []).append(len(self.messages))
        self.messages.append(message)

    def matches(self, needle: str) -> list[int]:
        """Return the places of the messages that contain a text, which is in the form of ``str.casefold``."""
        length, texts = len(self._text), [self._text]
        for message in self.messages[len(self._offsets) :]:
            self._offsets.append(length)
            texts.append(message.content.casefold().replace(_BETWEEN, " ") + _BETWEEN)
            length += len(texts[-1])
        self._text = "".join(texts) if len(texts) > 1 else self._text
        places, at = list[int](), self._text.find(needle)
        while at >= 0:
            places.append(bisect_right(self._offsets, at) - 1)
            following = places[-1] + 1
            at = self._text.find(needle, self._offsets[following]) if following < len(self._offsets) else -1
        return places


class HistoryStore:
    """The sessions in one folder, which is created with the first message. Safe to use from several threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self.session_id: str | None = None
        """The session that a message without one is added to."""
        self._path = self.folder / FILE
        self._lock = threading.RLock()
        self._index = _Index()

    # --- writing ---

    def new_session(self) -> str:
        """Begin a session and return its id; it is listed from its first message on."""
        return self.continue_session(new_session_id())

    def continue_session(self, session_id: str) -> str:
        """Make a session the current one, now and, if the folder can be written, after a restart."""
        with self._lock:
            self.session_id = session_id
            try:
                self._make_folder()
                part = self.folder / f"{CURRENT}.{secrets.token_hex(4)}"
                with open(part, "xb", opener=_no_follow) as file:
                    file.write(f"{session_id} {self._size()}".encode())
                part.replace(self.folder / CURRENT)
            except OSError as error:
                log.info("the session is not kept in %s: %s", self.folder, error)
        return session_id

    def restore_session(self) -> str | None:
        """Return the session to continue at a start: the newest one, or one that was begun or continued after it."""
        newest = self.list_sessions(limit=1)
        try:
            with open(self.folder / CURRENT, "rb", opener=_no_follow) as file:
                current, _, size = file.read(200).decode().partition(" ")
        except (OSError, UnicodeDecodeError):
            current = size = ""
        if current and size == str(self._size()):  # nothing was said since
            self.session_id = current
        elif newest:
            self.session_id = newest[0]["session_id"]
        return self.session_id

    def _size(self) -> int:
        try:
            return self._path.stat(follow_symlinks=False).st_size
        except OSError:
            return 0

    def append_message(
        self,
        session_id: str | None,
        role: str,
        content: str,
        *,
        images: Sequence[str] = (),
        files: Sequence[str] | None = None,
        **details: Any,
    ) -> dict[str, Any]:
        """Append a message and return it; it is on disk when this returns. ``images`` are data URIs.

        ``session_id`` None means the current session, or a new one. ``details`` may be ``files_modified`` and
        ``edit_results``.
        """
        if role not in ROLES or not isinstance(content, str):
            raise InvalidInput(f"A {role!r} message cannot be kept.", hint="The role is user or assistant.")
        if unknown := details.keys() - {"files_modified", "edit_results"}:
            raise InvalidInput(f"A message has no field {min(unknown)!r}.", hint="See HistoryMessage.")
        with self._lock:
            fields = {"files": UNSET if files is None else list(files), **details}
            moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
            message = self._message(session_id or self.session_id or self.new_session(), moment, role, content, images)
            message = msgspec.structs.replace(message, **fields)
            self._write(msgspec.json.encode(message))
            return self._shown(message)

    def insert_messages(self, before: str, messages: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        """Insert messages (role, content, images) that the file lost before the message with this id."""

        def inserted(lines: list[Line]) -> list[Line]:
            for place, (_, found) in enumerate(lines):
                if found is not None and found.id == before:
                    made = [self._message(found.session_id, found.timestamp, *message) for message in messages]
                    protection = protection_of(self._path)
                    new: list[Line] = [(protection.seal_line(msgspec.json.encode(one)), one) for one in made]
                    return [*lines[:place], *new, *lines[place:]]
            return lines

        with self._lock:
            _rewrite(self.folder, inserted)

    def _message(
        self, session_id: str, timestamp: str, role: str, content: str, images: Sequence[str]
    ) -> HistoryMessage:
        return HistoryMessage(
            id=new_message_id(),
            session_id=session_id,
            timestamp=timestamp,
            role=role,
            content=content.encode(errors="replace").decode(),
            image_refs=[self._keep_image(image) for image in images] or UNSET,
        )

    def _write(self, line: bytes) -> None:
        self._make_folder()
        with locked(self.folder / LOCK), open(self._path, "ab+", opener=_no_follow) as file:
            line = protection_of(self._path).seal_line(line) + b"\n"
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            sync_file(file.fileno())

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with open(self.folder / ".gitignore", "xb", opener=_no_follow) as file:
                file.write(b"*\n")
        except FileExistsError:
            pass

    def _keep_image(self, image: str) -> str:
        found = _DATA_URI.match(image)
        if found is None or found[1] not in _EXTENSIONS:
            raise InvalidInput("An image is not a data URI of a known type.", hint="Give PNG, JPEG, GIF or WebP.")
        try:
            data = base64.b64decode(found[2], validate=False)
        except ValueError as error:
            raise InvalidInput("An image is not valid base64.", hint="Give a complete data URI.") from error
        name = f"{hashlib.sha256(data).hexdigest()[:32]}.{_EXTENSIONS[found[1]]}"
        path = self.folder / IMAGES / name
        if not path.exists():
            self._make_folder()
            path.parent.mkdir(exist_ok=True)
            self._check_images()
            part = path.with_suffix(f".{secrets.token_hex(4)}.part")
            with open(part, "xb", opener=_no_follow) as file:
                file.write(sealed(protection_of(path), data))
                file.flush()
                sync_file(file.fileno())
            part.replace(path)
        return name

    def _check_images(self) -> None:
        """Refuse a folder of images that is a link: an untrusted repository could point it anywhere."""
        if (self.folder / IMAGES).is_symlink():
            raise InvalidInput(f"{self.folder / IMAGES} is a symbolic link.", hint="Replace it by a folder.")

    # --- reading ---

    def get_session_messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return the messages of a session with all their fields, ``images`` as data URIs; none if it is unknown."""
        return [self._shown(message) for message in self._session(session_id)]

    def get_session_messages_for_context(self, session_id: str) -> list[dict[str, Any]]:
        """Return role and content of the messages of a session, and ``_images`` (data URIs) where there are any."""
        return [
            {"role": message.role, "content": message.content, **({"_images": images} if images else {})}
            for message in self._session(session_id)
            for images in [self._images(message)]
        ]

    def list_sessions(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the sessions, that of the newest message first: id, time, number of messages, preview, first role."""
        with self._lock:
            self._read()
            newest = sorted(self._index.sessions.items(), key=lambda item: -item[1][-1])
            return [self._summary(session_id, places) for session_id, places in newest[:limit]]

    def search(self, query: str, role: str | None = None, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return the newest messages that contain the text in any case; an empty query finds nothing."""
        needle = query.casefold().replace(_BETWEEN, "")
        if not needle.strip():
            return []
        with self._lock:
            self._read()
            places = self._index.matches(needle)
            found = (self._index.messages[place] for place in reversed(places))
            chosen = [message for message in found if role is None or message.role == role]
            return [self._shown(message) for message in chosen[:limit]]

    def _session(self, session_id: str) -> list[HistoryMessage]:
        with self._lock:
            self._read()
            return [self._index.messages[place] for place in self._index.sessions.get(session_id, ())]

    def _summary(self, session_id: str, places: Sequence[int]) -> dict[str, Any]:
        first, last = self._index.messages[places[0]], self._index.messages[places[-1]]
        return {
            "session_id": session_id,
            "timestamp": last.timestamp,
            "message_count": len(places),
            "preview": first.content[:PREVIEW],
            "first_role": first.role,
        }

    def _shown(self, message: HistoryMessage) -> dict[str, Any]:
        fields = {**msgspec.to_builtins(message), "files": message.files or [], "images": self._images(message)}
        return fields | ({"image_count": message.images} if isinstance(message.images, int) else {})

    def _images(self, message: HistoryMessage) -> list[str]:
        """Rebuild the data URIs of a message; an image that is missing is left out with a warning."""
        images = []
        for name in message.image_refs or ():
            kind = _TYPES.get(name.rpartition(".")[2].lower())
            try:
                if kind is None or not _IMAGE_NAME.match(name):
                    raise ValueError(name)
                self._check_images()
                with open(path := self.folder / IMAGES / name, "rb", opener=_no_follow) as file:
                    data = opened(protection_of(path), file.read())
            except (OSError, ValueError, InvalidInput):
                log.warning("image %r of message %s is missing", name, message.id)
                continue
            images.append(f"data:{kind};base64,{base64.b64encode(data).decode()}")
        return images

    def _read(self) -> None:
        """Read what was appended since the last time, by any process; all of it if the file was replaced."""
        try:
            with open(self._path, "rb", opener=_no_follow) as file:
                self._take(file)
        except FileNotFoundError:
            self._index = _Index()
        except OSError as error:
            log.warning("the history file %s is not read: %s", self._path, error)
            self._index = _Index()

    def _take(self, file: BinaryIO) -> None:
        found = os.fstat(file.fileno())
        if found.st_ino != self._index.inode or found.st_size < self._index.end:
            self._index = _Index(found.st_ino)
        if found.st_size == self._index.end:
            return
        file.seek(self._index.end)
        data, protection = file.read(), protection_of(self._path)
        last = data.rpartition(b"\n")[2]
        if last and not isinstance(_parsed(last, protection), HistoryMessage):  # it is being written, or torn
            data = data[: -len(last)]
        self._index.end += len(data)
        for line in filter(bytes.strip, data.split(b"\n")):
            if (message := message_of(line, protection, self._path)) is not None:
                self._index.add(message)


def message_of(line: bytes, protection: Protection, file: Path) -> HistoryMessage | None:
    """Return the message of a line; None, with a warning: it is none."""
    message = _parsed(line, protection)
    if isinstance(message, HistoryMessage):
        return message
    log.warning("a line of %s is skipped: %s", file, message)
    return None


def _parsed(line: bytes, protection: Protection) -> HistoryMessage | Exception:
    """Return the message of a line, or why it is none."""
    try:
        message = _decode(protection.open_line(line))
        if message.role not in ROLES:
            raise ValueError(message.role)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return error
    return message


def said_at(timestamp: str) -> datetime:
    """Return when a message was written; one without a readable time counts as old."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def remove_messages(folder: Path, is_gone: Callable[[HistoryMessage], bool]) -> None:
    """Remove messages from the file of a folder, and images that no other message shows. Repeating it is harmless."""
    _rewrite(folder, lambda lines: [one for one in lines if one[1] is None or not is_gone(one[1])])


def _rewrite(folder: Path, change: Callable[[list[Line]], list[Line]]) -> None:
    """Replace the file of a folder by its changed lines, and remove the images that none of them shows."""
    path = folder / FILE
    with locked(folder / LOCK):
        for unfinished in folder.glob(f"{FILE}.*.part"):  # its writer was killed
            unfinished.unlink(missing_ok=True)
        try:
            with open(path, "rb", opener=_no_follow) as file:
                lines = [line for line in file.read().split(b"\n") if line.strip()]
        except FileNotFoundError:
            return
        protection = protection_of(path)
        read = [(line, message_of(line, protection, path)) for line in lines]
        kept = change(read)
        if len(kept) == len(read):
            return
        for name in _image_names(read) - _image_names(kept):
            if not (folder / IMAGES).is_symlink() and _IMAGE_NAME.match(name):
                (folder / IMAGES / name).unlink(missing_ok=True)
        part = path.with_name(f"{FILE}.{secrets.token_hex(4)}.part")
        with open(part, "xb", opener=_no_follow) as file:
            file.writelines(line + b"\n" for line, _ in kept)
            file.flush()
            sync_file(file.fileno())
        part.replace(path)
        sync_folder(folder)


def _image_names(lines: Sequence[Line]) -> set[str]:
    return {name for _, message in lines if message is not None for name in message.image_refs or ()}


def _no_follow(path: str, flags: int) -> int:
    """Open a file of our own; never through a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder against other processes and threads."""
    descriptor = _no_follow(str(path), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
