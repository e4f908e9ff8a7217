"""Sources of the user's key: a keyring of the operating system, a file or the environment.

The header file of an encrypted folder names the source, so that every process finds the key without settings. The
variable ``CIX_ENCRYPTION_KEY`` goes before it: for a folder on another machine, or a key file that has moved.

A key that was made here (``new_key``) has 256 random bits. Anything else is a passphrase; scrypt stretches it.
"""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from contextinfinity.errors import EncryptionKeyMissing, InvalidInput, Refused
from contextinfinity.storage.folders import sync_file, sync_folder

VARIABLE = "CIX_ENCRYPTION_KEY"
"""The environment variable that holds a key, and goes before every other source."""
SERVICE = "contextinfinity"
"""The name of the service in a keyring."""
RANDOM = "cixkey_"
"""How a key begins that was made here."""
LEAST_CHARACTERS = 12
"""The shortest passphrase that is taken."""
MOST_BYTES = 4096


class KeySource(Struct, frozen=True, kw_only=True):
    """``name`` is the account in the keyring, the path of the file, or the name of the variable."""

    kind: Literal["keyring", "file", "environment"]
    name: str

    def __str__(self) -> str:
        match self.kind:
            case "keyring":
                return f"the keyring of this user (service {SERVICE}, account {self.name})"
            case "file":
                return f"the file {self.name}"
            case "environment":
                return f"the environment variable {self.name}"


def new_key() -> str:
    """Make a random key."""
    return RANDOM + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


def is_random(key: str) -> bool:
    """Return whether a key is one that ``new_key`` made, and so needs no stretching."""
    return key.startswith(RANDOM) and len(key) == len(RANDOM) + 43


def source_in_force(source: KeySource) -> KeySource:
    """Return the source that is asked: the variable where it is set, else the one that is given."""
    return KeySource(kind="environment", name=VARIABLE) if os.environ.get(VARIABLE) else source


def read_key(source: KeySource) -> str:
    """Read a key; ``EncryptionKeyMissing`` when the source has none."""
    found = _READERS[source.kind](source.name)
    if found is None or not found.strip():
        raise EncryptionKeyMissing(
            f"The encryption key is not in {source}.",
            hint=f"Put it there, or set {VARIABLE} to the key. Without the key nothing can be read.",
        )
    return found.strip()


def store_key(source: KeySource, key: str) -> None:
    """Keep a new key durably, before anything is sealed with it; a key that is there is never replaced."""
    if len(key) < LEAST_CHARACTERS:
        raise InvalidInput(
            f"The key has {len(key)} characters.",
            hint=f"Use at least {LEAST_CHARACTERS}, or let ContextInfinity create a random one.",
        )
    match source.kind:
        case "file":
            _write_file(Path(source.name), key)
        case "keyring":
            _keyring().set_password(SERVICE, source.name, key)
            if _from_keyring(source.name) != key:
                raise EncryptionKeyMissing(f"The key could not be stored in {source}.", hint="Use a key file instead.")
        case "environment":
            raise InvalidInput(
                f"The environment variable {source.name} is not set.", hint="Set it to a key, and call this again."
            )


def remove_key(source: KeySource) -> None:
    """Remove a key that nothing is sealed with any more from the keyring; files and variables are the user's own."""
    if source.kind == "keyring":
        with suppress(Exception):
            _keyring().delete_password(SERVICE, source.name)


def _write_file(path: Path, key: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{key}\n".encode())
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(path.parent)
    except OSError as error:
        raise Refused(
            f"The key file {path} cannot be written ({error.strerror}).", hint="Choose another path for it."
        ) from error


def _from_file(name: str) -> str | None:
    try:
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EncryptionKeyMissing(
            f"The key file {name} cannot be read ({error.strerror}).",
            hint=f"Make it readable for this user, or set {VARIABLE} to the key.",
        ) from error


def _from_environment(name: str) -> str | None:
    return os.environ.get(name)


def _from_keyring(name: str) -> str | None:
    keyring = _keyring()
    try:
        found: str | None = keyring.get_password(SERVICE, name)
    except Exception as error:  # each backend has errors of its own
        raise EncryptionKeyMissing(
            f"The keyring cannot be read ({error}).", hint=f"Unlock it, or set {VARIABLE} to the key."
        ) from error
    return found


def _keyring() -> Any:
    try:
        import keyring
    except ImportError as error:
        raise EncryptionKeyMissing(
            "The key is in a keyring, and the package keyring is not installed.",
            hint=f"Install contextinfinity[encryption], or set {VARIABLE} to the key.",
        ) from error
    return keyring


_READERS = {"keyring": _from_keyring, "file": _from_file, "environment": _from_environment}
