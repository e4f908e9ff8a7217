"""Sealing and opening bytes: what was sealed comes back, and nothing else does."""

from __future__ import annotations

import base64
import os
import shutil
import stat
from io import BytesIO
from pathlib import Path

import keyring
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.errors import EncryptionKeyMissing, EncryptionKeyWrong, InvalidInput, Refused
from contextinfinity.settings import General, Settings
from contextinfinity.storage.encryption import cipher
from contextinfinity.storage.encryption.cipher import Cipher, opened, sealed
from contextinfinity.storage.encryption.header import create_header, new_data_key, unwrap
from contextinfinity.storage.encryption.key_sources import KeySource, new_key, read_key, remove_key, store_key
from contextinfinity.storage.workspace_registry import Registration, register
from contextinfinity.upkeep.data_encryption import decrypt, encrypt
from contextinfinity.workspace.history_encryption import encrypt_workspace
from contextinfinity.workspace.prompting import history_folder

OURS, OTHER = Cipher(bytes(32), "chacha20"), Cipher(b"\x01" * 32, "chacha20")
FILE = KeySource(kind="file", name="key")


class MemoryKeyring(KeyringBackend):
    """A keyring without an operating system behind it."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.mark.req("SAFE-2")
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=100), st.integers(0, 1000))
def test_a_sealed_line_is_one_line_and_opens_only_as_it_was(line: bytes, place: int) -> None:
    sealed_line = OURS.seal_line(line)
    assert b"\n" not in sealed_line
    assert OURS.open_line(sealed_line) == line
    assert OURS.seal_line(line) != sealed_line
    raw = bytearray(base64.b64decode(sealed_line))
    place %= len(raw)
    raw[place] ^= 1
    for other in (base64.b64encode(raw), sealed_line[:place], line):
        with pytest.raises(ValueError, match=r"damaged|encrypted"):
            OURS.open_line(other)
    with pytest.raises(ValueError, match="another key"):
        OTHER.open_line(sealed_line)


@pytest.mark.req("SAFE-2")
@pytest.mark.parametrize("size", [0, 1, cipher.CHUNK, cipher.CHUNK + 1, 2 * cipher.CHUNK + 7])
def test_a_stream_cannot_be_cut_extended_or_reordered(size: int) -> None:
    content = os.urandom(size)
    data = sealed(OURS, content)
    assert opened(OURS, data) == content
    whole, front = cipher.CHUNK + cipher.TAG_BYTES, len(cipher.STREAM) + cipher.SALT_BYTES
    chunks = [data[start : start + whole] for start in range(front, len(data), whole)]
    for wrong in (chunks[:-1], [*chunks, chunks[0]], [*chunks[1:], chunks[0]] if len(chunks) > 1 else []):
        with pytest.raises(ValueError, match="damaged"):
            OURS.open_stream(BytesIO(data[:front] + b"".join(wrong)), BytesIO())


@pytest.mark.req("SAFE-2")
@pytest.mark.parametrize("key", [new_key(), "a passphrase of a person"], ids=["random", "passphrase"])
def test_only_its_key_unwraps_a_data_key(key: str, tmp_path: Path) -> None:
    data_key = new_data_key()
    header = create_header(data_key, key, FILE)
    assert unwrap(header, key, tmp_path / "h", FILE) == data_key
    with pytest.raises(EncryptionKeyWrong):
        unwrap(header, key + "x", tmp_path / "h", FILE)
    with pytest.raises(EncryptionKeyWrong):  # another cipher cannot be slipped in
        unwrap(replace(header, database_cipher="rc4"), key, tmp_path / "h", FILE)


@pytest.mark.req("SAFE-1")
def test_a_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    source = KeySource(kind="file", name=str(tmp_path / "keys" / "key"))
    store_key(source, key := new_key())
    assert read_key(source) == key
    assert stat.S_IMODE((tmp_path / "keys" / "key").stat().st_mode) == 0o600
    with pytest.raises(Refused, match="cannot be written"):
        store_key(source, new_key())
    with pytest.raises(InvalidInput, match="5 characters"):
        store_key(source, "short")


@pytest.mark.req("SAFE-1")
def test_a_key_in_the_keyring_of_the_user_is_found_and_removed() -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())
    try:
        source = KeySource(kind="keyring", name="/data")
        with pytest.raises(EncryptionKeyMissing, match="keyring"):
            read_key(source)
        store_key(source, key := new_key())
        assert read_key(source) == key
        remove_key(source)
        with pytest.raises(EncryptionKeyMissing):
            read_key(source)
    finally:
        keyring.set_keyring(before)


@pytest.mark.req("SAFE-2")
def test_decrypting_keeps_a_key_that_a_workspace_is_still_encrypted_with(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())
    machine = Settings(general=General(data_dir=str(tmp_path / "data")))
    source = KeySource(kind="keyring", name="/data")
    folder = history_folder(tmp_path / "repo")
    try:
        for is_registered in (False, True):
            store_key(source, key := new_key())
            encrypt(machine, source, key, lambda *_: None)
            encrypt_workspace(tmp_path / "repo", machine.data_dir)
            if is_registered:
                register(machine.data_dir, Registration(new_id(), folder, "sess_1"))
            done = decrypt(machine, lambda *_: None)
            assert [str(folder) in note for note in done.notes] == [True] * is_registered
            if is_registered:
                assert read_key(source) == key
            else:
                with pytest.raises(EncryptionKeyMissing):
                    read_key(source)
                shutil.rmtree(folder)
    finally:
        keyring.set_keyring(before)
