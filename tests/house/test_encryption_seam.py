"""Files are written in known places only, so that nothing that was said reaches a disk without passing the cipher.

A module that writes a file of its own is added here after it was looked at: what it writes is sealed with
``protection_of(path)``, or contains no text of a conversation.
"""

from __future__ import annotations

import re

from tests.house import repository

PACKAGE = repository.SRC / "contextinfinity"
WRITES = re.compile(r"""os\.O_(?:WRONLY|RDWR)|\.write_(?:bytes|text)\(|open\([^)]*["'][wax]b?\+?["']""")
SEALED = {
    "cli/chat/input.py",
    "storage/encryption/header.py",
    "storage/encryption/key_sources.py",
    "storage/encryption/folder_swap.py",
    "storage/journal/folder.py",
    "storage/journal/journal_writer.py",
    "storage/sqlite/backup.py",
    "storage/sqlite/connection.py",
    "storage/sqlite/generations.py",
    "storage/standby/spool.py",
    "storage/typed_lines.py",
    "storage/workspace_registry.py",
    "upkeep/data_encryption.py",
    "upkeep/journals.py",
    "workspace/history_encryption.py",
    "workspace/history_file.py",
    "workspace/symbols.py",
}
"""What these write is sealed where the folder is encrypted, or is the key itself."""
HARMLESS = {
    "cli/bench_command.py",
    "cli/output.py",
    "cli/demo/demo_command.py",
    "cli/demo/demo_player.py",
    "cli/setup_command.py",
    "compat/shadow_threads.py",
    "engine/spending.py",
    "providers/local/weights_file.py",
    "server/app_state.py",
    "settings/config_file.py",
    "storage/copies.py",
    "storage/sqlite/identity.py",
    "storage/worker_locks.py",
}
"""What these write is no text of a conversation (figures, paths, ids, locks, our own example), or a terminal."""


EXPORTED = {"cli/exchange_commands.py"}
"""What these write is plain text because a person asked for it."""
FOREIGN = {"exchange/llm_logs.py"}
"""These open databases of other programs, to read them."""


def test_every_module_that_writes_files_is_known() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in repository.files("src/*.py")
        if WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert found == SEALED | HARMLESS | EXPORTED


def test_databases_are_opened_in_one_place() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in repository.files("src/*.py")
        if re.search(r"apsw\.Connection\((?!NAME|\":memory:\")", path.read_text(encoding="utf-8"))
    }
    assert found == {"storage/sqlite/connection.py"} | FOREIGN
