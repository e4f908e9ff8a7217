"""Encrypting the folder of a workspace along with the data_dir whose conversations it repeats.

The folder gets a copy of the header file, so it can be read on another machine with the same key.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from contextinfinity.errors import LedgerReadOnly
from contextinfinity.storage.encryption.cipher import Protection, sealed
from contextinfinity.storage.encryption.folder_swap import PARTIAL, FolderSwap
from contextinfinity.storage.encryption.header import HEADER, read_header, write_header
from contextinfinity.storage.encryption.protection import Unlocked, unlocked_header
from contextinfinity.workspace.history_file import FILE, IMAGES, LOCK, locked
from contextinfinity.workspace.prompting import SYMBOL_CACHE, history_folder


def encrypt_workspace(repo_root: str | Path | None, data_dir: Path) -> None:
    """Encrypt the folder of a workspace if the data_dir is encrypted. One that is encrypted already keeps its data key.

    ``LedgerReadOnly`` when that is not possible: then nothing must be written to the folder.
    """
    unlocked = unlocked_header(data_dir / HEADER)
    if unlocked is None or repo_root is None:
        return
    folder = history_folder(Path(repo_root).expanduser().resolve())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK):
            known = read_header(folder / HEADER)
            if known is None:
                _seal(folder, unlocked)
            elif known.id == unlocked.header.id and known != unlocked.header:  # the user's key was changed
                write_header(folder / HEADER, unlocked.header)
    except OSError as error:
        raise LedgerReadOnly(
            f"The history in {folder} cannot be encrypted as {data_dir} is ({error.strerror}).",
            hint="Make the folder writable for this user.",
        ) from error


def _seal(folder: Path, unlocked: Unlocked) -> None:
    """Seal the history files and images in a folder and below it; symbolic links are not followed."""
    swap, cipher = FolderSwap(folder), unlocked.cipher
    with ExitStack() as locks:
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not (Path(place) / name).is_symlink() and name != PARTIAL]
            files = [path for name in names if not (path := Path(place) / name).is_symlink()]
            if place != str(folder) and Path(place) / FILE in files:
                locks.enter_context(locked(Path(place) / LOCK))
            for path in files:
                if path.name == FILE:
                    swap.place(path).write_bytes(_sealed_lines(path, cipher))
                elif path.parent.name == IMAGES:
                    swap.place(path).write_bytes(sealed(cipher, path.read_bytes()))
        write_header(swap.place(folder / HEADER), unlocked.header)
        swap.commit(remove=[folder / SYMBOL_CACHE])


def _sealed_lines(path: Path, cipher: Protection) -> bytes:
    return b"".join(cipher.seal_line(line) + b"\n" for line in path.read_bytes().split(b"\n") if line.strip())
