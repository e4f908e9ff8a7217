"""Turning encryption of a data_dir on and off, and changing its key.

All files are written once more in the new form, into a folder beside them, and take the place of the old ones in one
step (``folder_swap``). A crash before that step leaves the data_dir as it was, a crash after it leaves the new one.
Changing the user's key alone rewrites the header file only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.errors import LedgerFull, LedgerReadOnly, Refused, SettingsError
from contextinfinity.settings import Settings
from contextinfinity.storage import workspace_registry
from contextinfinity.storage.copies import ELSEWHERE, external_backups
from contextinfinity.storage.encryption import folder_swap
from contextinfinity.storage.encryption.cipher import PLAIN, Cipher, Protection, opened, sealed
from contextinfinity.storage.encryption.header import (
    HEADER,
    Header,
    create_header,
    fits,
    new_data_key,
    read_header,
    write_header,
)
from contextinfinity.storage.encryption.key_sources import KeySource, remove_key
from contextinfinity.storage.encryption.protection import Unlocked, forget, unlocked_header
from contextinfinity.storage.folders import make_private
from contextinfinity.storage.sqlite.backup import PARTIAL, PATTERN, copy_database
from contextinfinity.storage.standby import spool
from contextinfinity.upkeep.data_dir_checks import backups_folder, spool_folder, streams_folder, workers_folder

Kind: TypeAlias = Literal["database", "lines", "stream", "remains", "plain", "unknown"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the bytes done and the total."""

_NEVER_SECRET = frozenset({"config.toml", HEADER, "librarian.json", ELSEWHERE})
"""Files without conversation text."""


class Conversion(Struct, frozen=True, kw_only=True):
    """The result of a conversion: the files written; ``left`` are foreign files, ``notes`` say why."""

    files: int
    size: int
    left: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def encrypt(settings: Settings, source: KeySource, key: str, progress: Progress) -> Conversion:
    """Encrypt a data_dir with a new data key; it may be empty or missing. The key has been stored by the caller."""
    with exclusive_data_dir(settings):
        if unlocked_header(settings.data_dir / HEADER) is not None:
            raise Refused(f"{settings.data_dir} is encrypted already.", hint="`cix rekey` changes its key.")
        data_key = new_data_key()
        return _convert(settings, PLAIN, create_header(data_key, key, source), data_key, progress)


def decrypt(settings: Settings, progress: Progress) -> Conversion:
    """Decrypt everything; the key is not needed afterwards."""
    with exclusive_data_dir(settings):
        unlocked = _unlocked(settings)
        done = _convert(settings, unlocked.cipher, None, b"", progress)
    return _without_key(settings, unlocked.header, done)


def rekey(settings: Settings, source: KeySource, key: str) -> None:
    """Change the user's key: the data key stays, so this takes a moment, also while other processes run."""
    unlocked = _unlocked(settings)
    if fits(unlocked.header, key):
        raise Refused(
            f"{settings.data_dir} has that key already.", hint="Name a key file that does not exist, or another key."
        )
    header = create_header(unlocked.data_key, key, source, header_id=unlocked.header.id)
    write_header(settings.data_dir / HEADER, header)
    if unlocked.header.source != source:
        remove_key(unlocked.header.source)


def reencrypt(settings: Settings, source: KeySource, key: str, progress: Progress) -> Conversion:
    """Encrypt everything with a new data key: for a data key that may have leaked from a running process."""
    with exclusive_data_dir(settings):
        unlocked = _unlocked(settings)
        data_key = new_data_key()
        done = _convert(settings, unlocked.cipher, create_header(data_key, key, source), data_key, progress)
    return done if unlocked.header.source == source else _without_key(settings, unlocked.header, done)


def _without_key(settings: Settings, header: Header, done: Conversion) -> Conversion:
    """Remove the key of a header from the keyring, unless the history of a workspace is still encrypted with it."""
    folders = dict.fromkeys(one.folder for one in workspace_registry.registrations(settings.data_dir))
    kept = [folder for folder in folders if (known := read_header(folder / HEADER)) and known.id == header.id]
    if not kept:
        remove_key(header.source)
    notes = (f"The history in {folder} stays encrypted; its key is kept in {header.source}." for folder in kept)
    return replace(done, notes=(*done.notes, *notes))


def is_encrypted(settings: Settings) -> Header | None:
    """Return the header of a data_dir; None when it is not encrypted. Needs the key."""
    unlocked = unlocked_header(settings.data_dir / HEADER)
    return None if unlocked is None else unlocked.header


def _unlocked(settings: Settings) -> Unlocked:
    unlocked = unlocked_header(settings.data_dir / HEADER)
    if unlocked is None:
        raise Refused(f"{settings.data_dir} is not encrypted.", hint="`cix encrypt` encrypts it.")
    return unlocked


@contextmanager
def exclusive_data_dir(settings: Settings) -> Iterator[None]:
    """Take exclusive use of a data_dir. Raises ``LedgerBusy`` if another process uses it."""
    ledger = settings.ledger_path
    if ledger is not None and not ledger.is_relative_to(settings.data_dir):
        raise SettingsError(
            f"The ledger {ledger} is not inside {settings.data_dir}, and its files are replaced together.",
            hint="Move the ledger there, or name its folder as data_dir.",
        )
    make_private(settings.data_dir)
    folder_swap.finish_pending(str(settings.data_dir))
    with folder_swap.locked_alone(settings.data_dir):
        yield


def _convert(
    settings: Settings, old: Protection, header: Header | None, data_key: bytes, progress: Progress
) -> Conversion:
    root = settings.data_dir
    new = PLAIN if header is None else Cipher(data_key, header.database_cipher)
    kinds = {path: _kind(path, settings) for path in sorted(_files(root))}
    wanted = [path for path, kind in kinds.items() if kind in ("database", "lines", "stream")]
    sizes = {path: path.stat().st_size for path in wanted}
    check_room(root, sum(sizes.values()))
    try:
        swap = folder_swap.FolderSwap(root)
        done = 0
        for path in wanted:
            _write(path, swap.place(path), kinds[path], old, new)
            progress(done := done + sizes[path], sum(sizes.values()))
        if header is not None:
            write_header(swap.place(root / HEADER), header)
        remains = [path for path, kind in kinds.items() if kind == "remains"]
        swap.commit(remove=[*remains, *([root / HEADER] if header is None else [])])
    except OSError as error:
        raise LedgerReadOnly(f"{error.filename} cannot be written ({error.strerror}).") from error
    finally:
        folder_swap.discard(root)
        forget(root)
    left = tuple(path for path, kind in kinds.items() if kind == "unknown")
    return Conversion(files=len(wanted), size=sum(sizes.values()), left=left, notes=tuple(_notes(settings)))


def holds_conversations(settings: Settings) -> bool:
    """Return whether a data_dir has files with conversation text, or unknown files."""
    return any(_kind(path, settings) != "plain" for path in _files(settings.data_dir))


def _notes(settings: Settings) -> Iterator[str]:
    if settings.ledger_path is None:
        yield "The conversations are in PostgreSQL: use the encryption of that server; only files here were changed."
    for path in external_backups(backups_folder(settings)):
        yield f"The backup {path} is outside of the data_dir and is not changed."


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        if Path(folder) == root:
            folders[:] = [name for name in folders if name not in (folder_swap.PARTIAL, folder_swap.DONE)]
        yield from (path for name in names if not (path := Path(folder) / name).is_symlink())


def _kind(path: Path, settings: Settings) -> Kind:
    """Return how a file of a data_dir is encrypted. A new kind of file with conversation text is added here."""
    name, folder, ledger = path.name, path.parent, settings.ledger_path
    backups = backups_folder(settings)
    if path == ledger or (folder == backups and path.match(PATTERN)):
        return "database"
    if ledger is not None and path.with_name(name.removesuffix("-wal").removesuffix("-shm")) == ledger:
        return "remains"
    if folder in (streams_folder(settings), backups) and path.suffix == ".jsonl":
        return "lines"
    if folder == spool_folder(settings):
        return "lines" if path.suffix in (spool.SUFFIX, spool.REFUSED) else "remains"
    if folder == settings.data_dir and name in ("chat_history", workspace_registry.FILE):
        return "lines"
    if folder.name == "vectors" and path.suffix == ".usearch":
        return "stream"
    is_unfinished = (folder.name == "vectors" or folder == backups) and PARTIAL in name
    if is_unfinished or (folder == settings.data_dir and name.startswith(("chat_history.", ".cix-import-"))):
        return "remains"
    if name in _NEVER_SECRET or name.endswith(("-identity", ".lock")) or name.startswith("identity-"):
        return "plain"
    if folder == workers_folder(settings) or _models(settings) in path.parents:
        return "plain"
    return "unknown"


def _models(settings: Settings) -> Path:
    own = settings.local.models_dir
    return settings.data_dir / "models" if own is None else Path(own)


def _write(path: Path, new_path: Path, kind: Kind, old: Protection, new: Protection) -> None:
    if kind == "database":
        copy_database(path, new_path, new)
    elif kind == "lines":
        _copy_lines(path, new_path, old, new)
    else:
        new_path.write_bytes(sealed(new, opened(old, path.read_bytes())))


def _copy_lines(path: Path, new_path: Path, old: Protection, new: Protection) -> None:
    """Copy a file of lines; one that cannot be opened stays as it is, a line that a crash tore is left out."""
    with new_path.open("wb") as target:
        for line in spool.whole_lines(path, old):
            target.write((new.seal_line(line) if line else b"") + b"\n")


def check_room(root: Path, size: int) -> None:
    """Raise ``LedgerFull`` when a folder has not enough room for new files."""
    free = shutil.disk_usage(root).free
    if free < size:
        raise LedgerFull(f"The new files need {size:,} bytes, and only {free:,} are free in {root}.")
