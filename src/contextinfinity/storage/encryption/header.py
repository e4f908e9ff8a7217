"""The header file of an encrypted folder: the data key, wrapped by the user's key, and where that key is.

It is replaced as a whole, so a crash leaves the old one or the new one. It has to be kept: without it, what is sealed
cannot be opened, even with the user's key.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from contextinfinity.errors import EncryptionKeyWrong, LedgerCorrupt, LedgerReadOnly, LedgerTooNew
from contextinfinity.storage.encryption.cipher import KEY_BYTES, NONCE_BYTES, SALT_BYTES, aead, derive
from contextinfinity.storage.encryption.key_sources import KeySource, is_random
from contextinfinity.storage.folders import sync_file, sync_folder

HEADER = "cix-encryption.json"
FORMAT = "contextinfinity encryption"
VERSION = 1
DATABASE_CIPHER = "chacha20"
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 1
"""Stretching a passphrase takes 32 MB and about 0.1 s."""


class Header(Struct, frozen=True, kw_only=True):
    """``id`` names the data key; it stays when the user's key is changed."""

    format: str
    version: int
    id: str
    database_cipher: str
    source: KeySource
    kdf: Literal["hkdf", "scrypt"]
    salt: str
    wrapped_key: str


def create_header(data_key: bytes, key: str, source: KeySource, *, header_id: str | None = None) -> Header:
    """Wrap a data key with a user's key; ``header_id`` is that of the header whose user key is changed."""
    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    header_id, kdf = header_id or secrets.token_hex(8), "hkdf" if is_random(key) else "scrypt"
    wrapping = aead(_wrapping_key(key, kdf, salt))
    wrapped = nonce + wrapping.encrypt(nonce, data_key, _bound(header_id, DATABASE_CIPHER))
    return Header(
        format=FORMAT,
        version=VERSION,
        id=header_id,
        database_cipher=DATABASE_CIPHER,
        source=source,
        kdf="hkdf" if is_random(key) else "scrypt",
        salt=base64.b64encode(salt).decode(),
        wrapped_key=base64.b64encode(wrapped).decode(),
    )


def new_data_key() -> bytes:
    """Make a data key."""
    return secrets.token_bytes(KEY_BYTES)


def unwrap(header: Header, key: str, path: Path, source: KeySource) -> bytes:
    """Return the data key; ``EncryptionKeyWrong`` when the user's key, which came from ``source``, does not fit."""
    from cryptography.exceptions import InvalidTag

    try:
        salt, wrapped = base64.b64decode(header.salt), base64.b64decode(header.wrapped_key)
        wrapping = aead(_wrapping_key(key, header.kdf, salt))
        bound = _bound(header.id, header.database_cipher)
        return wrapping.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], bound)
    except InvalidTag as error:
        raise EncryptionKeyWrong(f"The key in {source} does not decrypt {path.parent}.") from error
    except ValueError as error:
        raise LedgerCorrupt(
            f"The file {path} is damaged ({error}).", hint="Put a copy of it back; backups have one beside them."
        ) from error


def fits(header: Header, key: str) -> bool:
    """Return whether a user's key opens a header."""
    try:
        unwrap(header, key, Path(HEADER), header.source)
    except EncryptionKeyWrong:
        return False
    return True


def read_header(path: Path) -> Header | None:
    """Read a header file; None when there is none."""
    try:
        header = msgspec.json.decode(path.read_bytes(), type=Header)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerReadOnly(f"The file {path} cannot be read ({error.strerror}).") from error
    except msgspec.MsgspecError as error:
        raise LedgerCorrupt(
            f"The file {path} is damaged ({error}).", hint="Put a copy of it back; backups have one beside them."
        ) from error
    if header.format != FORMAT or header.version > VERSION:
        raise LedgerTooNew(f"The file {path} was written by a newer release.")
    return header


def write_header(path: Path, header: Header) -> None:
    """Replace a header file, atomically and durably."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, msgspec.json.format(msgspec.json.encode(header)) + b"\n")
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerReadOnly(f"The file {path} cannot be written ({error.strerror}).") from error
    finally:
        partial.unlink(missing_ok=True)


def _wrapping_key(key: str, kdf: str, salt: bytes) -> bytes:
    if kdf == "hkdf":
        return derive(key.encode(), salt, b"wrapping")
    most = 2 * 128 * SCRYPT_N * SCRYPT_R
    return hashlib.scrypt(key.encode(), salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=most, dklen=KEY_BYTES)


def _bound(header_id: str, database_cipher: str) -> bytes:
    """Return what a wrapped key is bound to: a header that names another cipher does not open."""
    return f"{FORMAT} {VERSION} {header_id} {database_cipher}".encode()
