"""``cix encrypt``, ``cix decrypt`` and ``cix rekey``: encryption at rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for
from contextinfinity.cli.output import bar
from contextinfinity.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from contextinfinity.settings import Settings
    from contextinfinity.storage.encryption.key_sources import KeySource
    from contextinfinity.upkeep.data_encryption import Conversion

KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="A file with the key; created if it does not exist."),
]
KeyVariable = Annotated[
    str | None, typer.Option("--key-env", metavar="NAME", help="The environment variable that holds the key.")
]
Keyring = Annotated[bool, typer.Option("--keyring", help="Store a new key in the keyring of this user.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm; without this option nothing is changed.")]


@command_for_all_users
def encrypt(
    options: CommonOptions, key_file: KeyFile = None, key_env: KeyVariable = None, keyring: Keyring = False
) -> None:
    """Encrypt everything in data_dir. That includes conversations, journals, index, history and backups."""
    from contextinfinity.upkeep.data_encryption import encrypt as encrypt_data_dir

    settings = settings_for(options.config, options.data_dir).settings
    source = _source(settings, key_file, key_env, keyring)
    with bar("Encrypting") as progress:
        done = encrypt_data_dir(settings, source, _key_for(source), progress)
    _report(options, "Encrypted", done)
    _print_key_location(source)


@command_for_all_users
def decrypt(options: CommonOptions, yes: Yes = False) -> None:
    """Decrypt everything in data_dir."""
    from contextinfinity.upkeep.data_encryption import decrypt as decrypt_data_dir

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    if not yes:
        raise InvalidInput(f"Everything in {settings.data_dir} would be readable without a key.", hint="Add --yes.")
    with bar("Decrypting") as progress:
        done = decrypt_data_dir(settings, progress)
    _report(options, "Decrypted", done)


@command_for_all_users
def rekey(
    options: CommonOptions,
    key_file: KeyFile = None,
    key_env: KeyVariable = None,
    keyring: Keyring = False,
    reencrypt: Annotated[
        bool, typer.Option("--reencrypt", help="Also encrypt all files again with a new data key.")
    ] = False,
) -> None:
    """Change the key of an encrypted data_dir. It takes a moment; servers may keep running."""
    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.upkeep import data_encryption

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    known = data_encryption.is_encrypted(settings)  # first of all: nothing is made with a wrong key
    if known is None:
        raise Refused(f"{settings.data_dir} is not encrypted.", hint="`cix encrypt` encrypts it.")
    source = _source(settings, key_file, key_env, keyring, again=True)
    if reencrypt:
        with bar("Encrypting") as progress:
            done = data_encryption.reencrypt(settings, source, _key_for(source), progress)
        _report(options, "Encrypted", done)
    else:
        data_encryption.rekey(settings, source, _key_for(source))
        if options.as_json:
            print_json({"source": str(source)})
        else:
            print_notice(f"The key of {settings.data_dir} was changed. Backups outside of it keep the key they had.")
    _print_key_location(source)


def _source(
    settings: Settings, key_file: Path | None, key_env: str | None, keyring: bool, *, again: bool = False
) -> KeySource:
    from contextinfinity.domain.ids import new_id
    from contextinfinity.storage.encryption.key_sources import VARIABLE, KeySource

    named = [
        name for name, value in (("--key-file", key_file), ("--key-env", key_env), ("--keyring", keyring)) if value
    ]
    if len(named) > 1:
        raise InvalidInput(f"{' and '.join(named)} cannot be used together.", hint="Use one of them.")
    if key_file is not None:
        path = key_file.expanduser().absolute()
        if path.is_relative_to(settings.data_dir):
            raise InvalidInput(f"{path} is inside the folder that it encrypts.", hint="Keep the key elsewhere.")
        return KeySource(kind="file", name=str(path))
    if key_env is not None:
        return KeySource(kind="environment", name=key_env)
    if not keyring and not again and os.environ.get(VARIABLE):
        return KeySource(kind="environment", name=VARIABLE)
    return KeySource(kind="keyring", name=f"{settings.data_dir}{f' {new_id()[-6:]}' if again else ''}")


def _key_for(source: KeySource) -> str:
    """Return the key of a source; if there is none, create one and store it there first."""
    from contextinfinity.errors import EncryptionKeyMissing
    from contextinfinity.storage.encryption.key_sources import new_key, read_key, store_key

    try:
        return read_key(source)
    except EncryptionKeyMissing:
        store_key(source, key := new_key())
        return key


def _report(options: CommonOptions, word: str, done: Conversion) -> None:
    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.text.plurals import counted

    if options.as_json:
        print_json(done)
        return
    print_notice(f"{word} {counted(done.files, 'file')} ({done.size / 2**20:,.1f} MiB).")
    for path in done.left:
        print_notice(f"Not changed, because ContextInfinity did not write it: {path}")
    for note in done.notes:
        print_notice(note)


def _print_key_location(source: KeySource) -> None:
    from contextinfinity.cli.output import print_notice
    from contextinfinity.storage.encryption.header import HEADER

    print_notice(
        f"The key is in {source}. Keep a copy of it and of {HEADER}: without both nothing can be read any more."
    )
