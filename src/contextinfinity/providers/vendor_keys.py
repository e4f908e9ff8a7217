"""The key of a vendor: from the environment or the keyring of the operating system. It is written nowhere else."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from contextinfinity.errors import Refused

SERVICE = "contextinfinity vendor keys"
"""The name of the service in a keyring; the account is the name of the environment variable."""
HOW = "Set the environment variable {} instead."


def vendor_key(variable: str | None, *, in_keyring: bool = False) -> str:
    """Return the key that a variable holds, or else the keyring; empty if there is none."""
    if not variable:
        return ""
    return os.environ.get(variable, "").strip() or (_from_keyring(variable) if in_keyring else "")


def keep_vendor_key(variable: str, key: str) -> None:
    """Keep a key in the keyring. Raises ``Refused`` if there is no usable keyring."""
    keyring = _keyring()
    try:
        if keyring is None:
            raise RuntimeError("the package keyring is not installed")
        keyring.set_password(SERVICE, variable, key)
        if keyring.get_password(SERVICE, variable) != key:
            raise RuntimeError("it was not stored")
    except Exception as error:  # each backend has errors of its own
        raise Refused(f"The key cannot be stored in the keyring: {error}.", hint=HOW.format(variable)) from error
    _from_keyring.cache_clear()


@cache
def _from_keyring(variable: str) -> str:
    keyring = _keyring()
    try:
        return "" if keyring is None else (keyring.get_password(SERVICE, variable) or "").strip()
    except Exception:  # a locked or missing keyring: as without a key, and the request says so
        return ""


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        return None
    return keyring
