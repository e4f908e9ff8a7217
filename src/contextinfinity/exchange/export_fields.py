"""Fields of foreign JSON.

An export may hold anything in any place: ``text``, ``mapping`` and ``items`` return the value where it has that type
and an empty one elsewhere, so that a reader states only what it looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from contextinfinity.domain.message import Json


class Assets(Protocol):
    """Files that an export brings beside its conversations."""

    def find(self, name: str) -> bytes | None:
        """Return the file whose name begins with that id; None: there is none, or it is too large."""
        ...


def text(record: Mapping[str, Json], *names: str) -> str:
    """Return the first of these fields that is a non-empty text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def mapping(record: Mapping[str, Json], name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Json], name: str) -> list[Any]:
    """Return a field that is a list."""
    value = record.get(name)
    return value if isinstance(value, list) else []


def without(record: Mapping[str, Json], *names: str) -> Json:
    """Return the fields of a record that are not named and hold something; None: there are none."""
    return {
        name: value for name, value in record.items() if name not in names and value not in (None, "", [], {})
    } or None
