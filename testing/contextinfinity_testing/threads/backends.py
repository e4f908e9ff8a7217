"""The backends there are, opened as an application opens them: by their setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from contextinfinity.domain.ids import new_id
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.threads import use

BACKENDS = ("in_process", "ledger")


@contextmanager
def using(backend: str, folder: Path) -> Iterator[Settings]:
    """Let ``contextinfinity.threads`` keep its turns there, with what it needs in that folder."""
    storage = msgspec.convert({"threads": backend}, Storage)
    settings = Settings(general=General(data_dir=str(folder)), storage=storage)
    use(settings)
    try:
        yield settings
    finally:
        use(None)


def unused() -> str:
    """Make up a thread id that nobody has used."""
    return f"thread-{new_id()}"
