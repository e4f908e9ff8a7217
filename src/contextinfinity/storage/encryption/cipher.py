"""Sealing and opening bytes with the data key.

Two forms, both authenticated (AES-256-GCM):

- a line: one line of an append-only file, as base64, so that files are still read, cut and appended to
  by line;
- a stream: a whole file, in chunks that cannot be reordered, repeated or left off at the end.

Keys are derived from the data key with a random salt: one per thread of a process for lines, one per stream. So random
96-bit nonces stay far below the number at which a collision becomes likely.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Protocol

from contextinfinity.errors import SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
SALT_BYTES, NONCE_BYTES, TAG_BYTES = 16, 12, 16
CHUNK = 1 << 20
"""Bytes of a stream that are sealed at a time."""
STREAM = b"CIXSEAL1"
"""The first bytes of a sealed stream."""


class Protection(Protocol):
    """The protection of the files of a folder."""

    @property
    def is_on(self) -> bool:
        """Whether anything is encrypted."""
        ...

    @property
    def database_pragmas(self) -> tuple[str, ...]:
        """The statements that a connection to a database runs first."""
        ...

    @property
    def database_parameters(self) -> dict[str, str]:
        """The same as parameters of a URI, for a database that another connection writes."""
        ...

    def seal_line(self, line: bytes) -> bytes:
        """Return what is written for a line; both without the newline."""
        ...

    def open_line(self, line: bytes) -> bytes:
        """Return the line that was sealed; ``ValueError`` if it is damaged or not sealed with this key."""
        ...

    def seal_stream(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy a stream and seal it."""
        ...

    def open_stream(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy a sealed stream and open it; ``ValueError`` if it is damaged or not sealed with this key."""
        ...


def sealed(protection: Protection, data: bytes) -> bytes:
    """Seal a small file."""
    protection.seal_stream(BytesIO(data), target := BytesIO())
    return target.getvalue()


def opened(protection: Protection, data: bytes) -> bytes:
    """Open a small file; ``ValueError`` if it is damaged or not sealed with this key."""
    protection.open_stream(BytesIO(data), target := BytesIO())
    return target.getvalue()


class _Plain:
    """Files are kept as they are."""

    is_on = False
    database_pragmas: tuple[str, ...] = ()
    database_parameters: dict[str, str] = {"key": ""}  # noqa: RUF012 - never changed

    def seal_line(self, line: bytes) -> bytes:
        return line

    def open_line(self, line: bytes) -> bytes:
        return line

    def seal_stream(self, source: BinaryIO, target: BinaryIO) -> None:
        while chunk := source.read(CHUNK):
            target.write(chunk)

    open_stream = seal_stream


PLAIN: Protection = _Plain()


class Cipher:
    """Everything is sealed with a data key; ``database_cipher`` is the cipher that SQLite uses."""

    is_on = True

    def __init__(self, data_key: bytes, database_cipher: str) -> None:
        self._data_key = data_key
        self._own = threading.local()
        self._key_of = lru_cache(maxsize=256)(self._derived)
        database_key = derive(data_key, b"", b"database").hex()
        self.database_parameters = {"cipher": database_cipher, "key": f"raw:{database_key}"}
        self.database_pragmas = tuple(f"PRAGMA {name} = '{value}'" for name, value in self.database_parameters.items())

    def seal_line(self, line: bytes) -> bytes:
        """Return the line as base64 of salt, nonce and sealed bytes."""
        salt, key = self._own_key()
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(salt + nonce + key.encrypt(nonce, line, b"line"))

    def open_line(self, line: bytes) -> bytes:
        """Return the line that was sealed; ``ValueError`` if it is damaged or not sealed with this key."""
        try:
            data = base64.b64decode(line, validate=True)
        except binascii.Error as error:
            raise ValueError("The line is not encrypted.") from error
        if len(data) < SALT_BYTES + NONCE_BYTES + TAG_BYTES:
            raise ValueError("The line is not encrypted.")
        salt, nonce = data[:SALT_BYTES], data[SALT_BYTES : SALT_BYTES + NONCE_BYTES]
        return _decrypted(self._key_of(salt, b"line"), nonce, data[SALT_BYTES + NONCE_BYTES :], b"line")

    def seal_stream(self, source: BinaryIO, target: BinaryIO) -> None:
        """Write a mark, a salt and the sealed chunks; the nonce is the number of a chunk and whether it is the last."""
        salt = os.urandom(SALT_BYTES)
        key = self._derived(salt, b"stream")
        target.write(STREAM + salt)
        _each_chunk(source, CHUNK, lambda nonce, chunk: target.write(key.encrypt(nonce, chunk, None)))

    def open_stream(self, source: BinaryIO, target: BinaryIO) -> None:
        """Open all chunks; ``ValueError`` if one is damaged or missing."""
        front = source.read(len(STREAM) + SALT_BYTES)
        if len(front) < len(STREAM) + SALT_BYTES or not front.startswith(STREAM):
            raise ValueError("The file is not encrypted.")
        key = self._derived(front[len(STREAM) :], b"stream")
        size = CHUNK + TAG_BYTES
        _each_chunk(source, size, lambda nonce, chunk: target.write(_decrypted(key, nonce, chunk, None)))

    def _own_key(self) -> tuple[bytes, AESGCM]:
        """Return the salt and the key of this thread and process; a forked process takes another salt."""
        own: tuple[int, bytes, AESGCM] | None = getattr(self._own, "key", None)
        if own is None or own[0] != os.getpid():
            salt = os.urandom(SALT_BYTES)
            own = self._own.key = os.getpid(), salt, self._derived(salt, b"line")
        return own[1], own[2]

    def _derived(self, salt: bytes, purpose: bytes) -> AESGCM:
        return aead(derive(self._data_key, salt, purpose))


def derive(key: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Derive a key of 32 bytes (HKDF-SHA256, one block)."""
    extracted = hmac.digest(salt or bytes(KEY_BYTES), key, "sha256")
    return hmac.digest(extracted, b"contextinfinity " + purpose + b"\x01", "sha256")


def aead(key: bytes) -> AESGCM:
    """Return the cipher of a key; ``SettingsError`` where the library is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise SettingsError(
            "Encryption needs the package cryptography, which is not installed.",
            hint="Install contextinfinity[encryption].",
        ) from error
    return AESGCM(key)


def _decrypted(key: AESGCM, nonce: bytes, data: bytes, context: bytes | None) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return key.decrypt(nonce, data, context)
    except InvalidTag as error:
        raise ValueError("The data is damaged, or encrypted with another key.") from error


def _each_chunk(source: BinaryIO, size: int, work: Callable[[bytes, bytes], object]) -> None:
    """Call ``work`` with the nonce and the bytes of each chunk; there is always a last one, which may be empty."""
    number, chunk = 0, source.read(size)
    while True:
        following = source.read(size)
        work(number.to_bytes(NONCE_BYTES - 1, "big") + (b"\x00" if following else b"\x01"), chunk)
        if not following:
            return
        number, chunk = number + 1, following
