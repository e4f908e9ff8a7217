"""Open an export of conversations: a file, a zip archive, a folder, or a database of ``llm``.

Output: ``ImportRecord`` values in bounded memory: a message, a conversation, or the reason why a record is invalid,
with its file and line. The format is detected by the fields of a record; a format that the caller names is enforced.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange import chatgpt, claude, librechat, open_webui
from contextinfinity.exchange.archive import Archive, Folder, NoAssets, open_archive
from contextinfinity.exchange.cix_format import CixPart, CixReader, is_header
from contextinfinity.exchange.conversation_builder import Assets, ConversationBuilder, text
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, reply_of
from contextinfinity.exchange.import_progress import Format
from contextinfinity.exchange.llm_logs import LlmLogs
from contextinfinity.exchange.openai_messages import ParsedMessage, RejectedRecord, decoded, message_of_record
from contextinfinity.exchange.records import STDIN, Record, RecordFile, open_records, read_record_file

_ZIP, _SQLITE = b"PK\x03\x04", b"SQLite format 3\0"
_NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "openwebui": "Open WebUI", "librechat": "LibreChat"}
CONVERSATIONS = ("projects*.json", "projects/*.json", "memories.json", "memories/*.json", "conversations*.json")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"%b%b|(?P<half>%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)


ParsedRecord: TypeAlias = ParsedMessage | ExportedConversation | CixPart | RejectedRecord


class ImportRecord(Struct, frozen=True):
    """A parsed record: a message, a conversation, or the reason why it is invalid; ``size`` is in bytes."""

    line: int
    parsed: ParsedRecord
    size: int = 0
    file: str = ""


class ExportFile:
    """An open export: its records, and how many bytes were read."""

    def __init__(self, records: Iterator[ImportRecord], position: Callable[[], int]) -> None:
        self.records = records
        self._position = position

    @property
    def position(self) -> int:
        """The number of bytes read; compressed bytes if the file is compressed."""
        return self._position()


@contextmanager
def open_export(path: Path, form: Format = "auto") -> Iterator[ExportFile]:
    """Open an export; raise ``InvalidInput`` if its format is not supported or not the named one."""
    with ExitStack() as stack:
        begins = _beginning(path)
        if begins.startswith(_SQLITE):
            logs = stack.enter_context(closing(LlmLogs(path)))
            yield ExportFile((ImportRecord(number, one) for number, one in enumerate(logs.records(), 1)), int)
        elif form == "llm":
            raise InvalidInput(f"{path} is not a database of `llm`.", hint="`llm logs path` prints its path.")
        elif begins.startswith(_ZIP):
            archive = stack.enter_context(open_archive(path))
            reading = _ArchiveReading(archive, form)
            yield ExportFile(reading.records(), lambda: reading.position)
        elif path != STDIN and path.is_dir():
            yield ExportFile(_of_folder(path, form), int)
        else:
            source = stack.enter_context(open_records(path, form))
            assets = NoAssets() if path == STDIN else Folder(path.parent)
            yield ExportFile(_ExportReader(form, assets).records(source), lambda: source.position)


def _beginning(path: Path) -> bytes:
    """Return the first bytes of a regular file; nothing for a pipe, which can be read only once."""
    if path == STDIN or (path.exists() and not path.is_file()):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error


def _of_folder(path: Path, form: Format) -> Iterator[ImportRecord]:
    """Read the files of an unpacked export."""
    files = [file for pattern in CONVERSATIONS for file in sorted(path.glob(pattern)) if file.is_file()]
    if not files:
        raise InvalidInput(f"{path} is a folder without a conversations.json.", hint="Name the file itself.")
    reader = _ExportReader(form, Folder(path))
    for file in files:
        try:
            with open_records(file, form) as source:
                yield from reader.records(source, file.name)
        except InvalidInput as error:
            yield ImportRecord(0, RejectedRecord(error.message), file=file.name)


class _ArchiveReading:
    """Reads the members of an archive one after the other."""

    def __init__(self, archive: Archive, form: Format) -> None:
        self._archive = archive
        self._form = form
        self._done = 0
        self._member: tuple[RecordFile, int, int] | None = None

    @property
    def position(self) -> int:
        """Return the number of compressed bytes read."""
        if self._member is None:
            return self._done
        source, packed, size = self._member
        return self._done + packed * source.position // max(size, 1)

    def records(self) -> Iterator[ImportRecord]:
        """Read all members."""
        reader = _ExportReader(self._form, self._archive)
        for name in self._archive.members:
            packed, size = self._archive.size(name)
            try:
                with self._archive.opened(name) as stream:
                    source = read_record_file(stream, name, self._form)
                    if source.is_packed:
                        raise InvalidInput(f"{name} is a gzip file in an archive; unpack it and import the files.")
                    self._member = source, packed, size
                    yield from reader.records(source, name)
            except InvalidInput as error:
                yield ImportRecord(0, RejectedRecord(error.message), file=name)
            except (BadZipFile, EOFError, OSError, zlib.error) as error:
                yield ImportRecord(0, RejectedRecord(f"the archive is damaged from here on ({error})"), file=name)
            self._member = None
            self._done += packed


class _ExportReader:
    """Parses records by their type, and keeps the instructions of projects for the conversations that follow."""

    def __init__(self, form: Format, assets: Assets) -> None:
        self._form = form
        self._assets = assets
        self._instructions: dict[str, str] = {}
        self._cix: CixReader | None = None

    def records(self, source: RecordFile, file: str = "") -> Iterator[ImportRecord]:
        """Read the records of a file."""
        self._cix, line = None, 0
        for record in source.records:
            line = record.line
            read = self._read(record)
            if read is not None:
                yield ImportRecord(line, read, len(record.data), file)
        if self._cix is not None and (problem := self._cix.unfinished()):
            yield ImportRecord(line, RejectedRecord(problem), file=file)

    def _read(self, record: Record) -> ParsedRecord | None:
        if record.problem:
            return RejectedRecord(record.problem)
        try:
            value = _decoded(librechat.flattened(record.data))
            if self._cix is not None:
                return self._cix.read(value, len(record.data))
            if is_header(value):
                self._cix = CixReader(value)
                return None
            if self._form == "cix":
                raise RejectedRecord("it is not a line of the format cix, or precedes the first one")
            kind = _kind(value)
            if self._form in _NAMES and kind not in (self._form, "project", "memories"):
                raise RejectedRecord(f"it is not a conversation as {_NAMES[self._form]} exports them")
            return self._conversation(kind, value, record.data)
        except RejectedRecord as rejected:
            return rejected

    def _conversation(
        self, kind: str, value: dict[str, Any], data: bytes
    ) -> ParsedMessage | ExportedConversation | None:
        if kind == "message":
            return message_of_record(value)
        if kind == "project":
            self._instructions[text(value, "uuid")] = text(value, "prompt_template")
            return claude.read_project(value)
        made = {
            "chatgpt": lambda: chatgpt.read_conversation(value, self._assets),
            "claude": lambda: claude.read_conversation(value, self._instructions),
            "openwebui": lambda: open_webui.read_conversation(value),
            "librechat": lambda: librechat.read_conversation(value),
            "memories": lambda: claude.read_memories(value),
            "messages": lambda: _of_messages(value),
        }[kind]()
        if made.id:
            return made
        return msgspec.structs.replace(made, id=f"import-{hashlib.sha256(data).hexdigest()[:16]}")


def _decoded(data: bytes) -> dict[str, Json]:
    """Decode a record. A lone surrogate, which truncated texts contain, becomes U+FFFD; the conversation is kept."""
    try:
        return decoded(data)
    except RejectedRecord:
        repaired = _ESCAPE.sub(lambda found: b"\\ufffd" if found["half"] else found[0], data)
        if repaired == data or _kind(value := decoded(repaired)) == "message":
            raise
        return value


def _kind(record: dict[str, Json]) -> str:
    """Return the format of a record, detected by fields that only this format has."""
    if "role" in record:
        return "message"
    if isinstance(record.get("mapping"), dict):
        return "chatgpt"
    if isinstance(record.get("chat_messages"), list):
        return "claude"
    if isinstance(record.get("docs"), list) and ("prompt_template" in record or "is_private" in record):
        return "project"
    if "conversations_memory" in record or isinstance(record.get("project_memories"), dict):
        return "memories"
    chat = record.get("chat")
    if isinstance(chat, dict) and ("history" in chat or "messages" in chat):
        return "openwebui"
    messages = record.get("messages")
    if "conversationId" in record and isinstance(record.get("messagesTree", messages), list):
        return "librechat"
    return "messages" if isinstance(messages, list) else "message"


def _of_messages(record: dict[str, Any]) -> ExportedConversation:
    """Parse a list of messages as a conversation in which each message follows the previous one."""
    built, system = ConversationBuilder("openai"), ""
    for number, one in built.objects(enumerate(record["messages"], 1)):
        try:
            read = message_of_record(one)
        except RejectedRecord as rejected:
            built.reject(f"message {number}", rejected.reason)
            continue
        built.blobs |= read.blobs
        said = read.imported.message
        if said.role == "system" and built.last is None:
            system = f"{system}\n\n{said.rendered_text}".strip()
            continue
        built.add(
            ExportedMessage(
                id=read.imported.external_id or f"{number - 1}",
                parent=built.last,
                said=said if said.role in ("user", "system") else None,
                reply=reply_of(said) if said.role in ("assistant", "tool") else (),
                created_at=read.imported.created_at,
                model=read.imported.model,
                details=read.imported.details,
            )
        )
    return built.build(
        text(record, "conversation_id", "thread_id", "session_id", "id"),
        title=text(record, "title", "name"),
        system=system,
        current=built.last,
    )
