"""Loads named statements from `.sql` files. Each has a name and a line that states its purpose.

    -- name: insert_turn
    -- TX-0: a turn begins with nothing but its message.
    INSERT INTO turn ...

``load`` reads one such file into a mapping from name to statement. A name given twice, or a statement
without a name or a purpose, is an error when the file is loaded, not when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType


def load(package: str, filename: str) -> Mapping[str, str]:
    """Return the named statements of a file in a package."""
    return parse((files(package) / filename).read_text("utf-8"), filename)


def load_folder(package: str, folder: str) -> Mapping[str, str]:
    """Return the statements of all `.sql` files of a folder; names must be unique across the files."""
    statements: dict[str, str] = {}
    for file in sorted((files(package) / folder).iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            named = parse(file.read_text("utf-8"), file.name)
            if twice := statements.keys() & named.keys():
                raise ValueError(f"{file.name}: {', '.join(sorted(twice))} is in another file of {folder} already")
            statements |= named
    return statements


def load_dialect(package: str) -> dict[str, str]:
    """Return the ledger's statements by name, overridden by those in the backend's folder ``sql``."""
    return {**load_folder("contextinfinity.storage.ledger", "sql"), **load_folder(package, "sql")}


def parse(text: str, filename: str) -> Mapping[str, str]:
    """Split a file into its named statements."""
    head, *parts = text.split("-- name: ")
    if any(line and not line.startswith("--") for line in head.splitlines()):
        raise ValueError(f"{filename}: SQL in front of the first name")
    statements: dict[str, str] = {}
    for part in parts:
        name, _, body = part.partition("\n")
        name = name.strip()
        if name in statements:
            raise ValueError(f"{filename}: {name} is defined twice")
        if not body.startswith("-- "):
            raise ValueError(f"{filename}: {name} does not say what it is for")
        statements[name] = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
    return MappingProxyType(statements)
