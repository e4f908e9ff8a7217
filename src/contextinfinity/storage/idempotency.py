"""Validation of idempotency keys."""

from __future__ import annotations

import re

from contextinfinity.domain.session import IdempotencyKey
from contextinfinity.errors import InvalidInput, KeyReused

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_hash(field: str, value: str) -> None:
    """Raise ``InvalidInput`` if a value is not a hash."""
    if not _SHA256.fullmatch(value):
        raise InvalidInput(f"{field} is not a hexadecimal SHA-256.")


def check_once(once: IdempotencyKey | None) -> None:
    """Raise ``InvalidInput`` if an idempotency key is malformed; None is valid."""
    if once is not None:
        check_hash("once.key", once.key)
        check_hash("once.asked", once.asked)


def check_same_request(once: IdempotencyKey, asked: str) -> None:
    """Raise ``KeyReused`` if an idempotency key was used for a different request."""
    if once.asked != asked:
        raise KeyReused("This idempotency key was used for another request.")
