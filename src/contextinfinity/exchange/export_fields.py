"""Read fields of untrusted JSON.

Any field of an export may have any type: ``text``, ``mapping`` and ``items`` return the value if it has the expected
type, else an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from contextinfinity.domain.message import Json


class Assets(Protocol):
    """The files of an export besides its conversations."""

    def find(self, name: str) -> bytes | None:
        """Return the file whose name begins with that id; None if it is missing or too large."""
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


def other_fields(record: Mapping[str, Json], *names: str) -> Json:
    """Return the non-empty fields of a record that are not listed in ``names``; None if there are none."""
    return {
        name: value for name, value in record.items() if name not in names and value not in (None, "", [], {})
    } or None
