"""Requests that may come again, in every store: what names one, and when it is another."""

from __future__ import annotations

import re

from contextinfinity.domain.session import IdempotencyKey
from contextinfinity.errors import InvalidInput, KeyReused

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_hash(field: str, value: str) -> None:
    """Refuse what is no hash."""
    if not _SHA256.fullmatch(value):
        raise InvalidInput(f"{field} is no SHA-256 in hex.")


def check_once(once: IdempotencyKey | None) -> None:
    """Refuse a request whose names are no hashes; none at all is fine."""
    if once is not None:
        check_hash("once.key", once.key)
        check_hash("once.asked", once.asked)


def check_same_request(once: IdempotencyKey, asked: str) -> None:
    """Refuse a key that named a request for something else."""
    if once.asked != asked:
        raise KeyReused("This key named another request before.")
