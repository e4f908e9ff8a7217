"""A ledger of an older release, to be migrated: its conversations count like messages of an imported file."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

from benchmarks.torture.observations import Importing, Reporter
from benchmarks.torture.script import import_lines
from contextinfinity.storage.sqlite.connection import connect, create_private
from contextinfinity.storage.sqlite.migrate import migrate, migrations

OLDEST = 9
"""The first release whose ledgers take turns as rows of the view ``conversation_turns``."""
ROW = "INSERT INTO conversation_turns (session_id, user_id, query_text, response_text) VALUES (?, 'local', ?, ?)"


def make(folder: Path, name: str, seed: str, descriptor: int) -> None:
    """Be a process of an older release that kept some turns and ended."""
    rng, path = random.Random(seed), folder / "ledger.db"
    create_private(path)
    connection = connect(str(path))
    migrate(connection, str(path), migrations()[: rng.randint(OLDEST, len(migrations()) - 1)])
    session, texts = str(UUID(int=rng.getrandbits(128))), [line["content"] for line in import_lines(name, 40)]
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        connection.execute(ROW, (session, question, answer))
    connection.close()
    Reporter(descriptor)(Importing(str(folder / "no file"), tuple(texts)))
