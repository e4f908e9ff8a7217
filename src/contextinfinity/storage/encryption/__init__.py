"""Encryption at rest: the one place that seals and opens what is written to disk.

A folder that contains ``cix-encryption.json`` is encrypted, with everything below it. ``protection_of(path)`` returns
how the bytes of a file are sealed and opened; every module that reads or writes something that was said asks it. A
module cannot forget to encrypt by a missing argument: the folder decides.

Two keys (envelope encryption). The data key is random, seals everything, and never changes while the folder stays
encrypted. The user's key, from a keyring, a file or the environment, only wraps the data key in the header file. So
changing the user's key rewrites one small file, atomically.
"""

from __future__ import annotations

from contextinfinity.storage.encryption.cipher import PLAIN, Cipher, Protection
from contextinfinity.storage.encryption.header import HEADER, Header, create_header, read_header, write_header
from contextinfinity.storage.encryption.key_sources import KeySource, new_key, read_key, store_key
from contextinfinity.storage.encryption.protection import forget, protection_of

__all__ = [
    "HEADER",
    "PLAIN",
    "Cipher",
    "Header",
    "KeySource",
    "Protection",
    "create_header",
    "forget",
    "new_key",
    "protection_of",
    "read_header",
    "read_key",
    "store_key",
    "write_header",
]
