"""``cix setup``: connects a vendor. It asks for the key, tests it with one request, and writes config.toml.

The key itself is never written to a file: it stays in the environment, or in the keyring of the operating system.

``cix config`` shows the values in force, and where each came from.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import (
    CommonOptions,
    Config,
    DataDir,
    Json,
    NoServer,
    command_without_owner,
    errors_on_stderr,
    settings_for,
)
from contextinfinity.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from rich.table import Table

    from contextinfinity.domain.events import FinishedTurn
    from contextinfinity.settings import LoadedSettings, Settings

SUGGESTED = {
    "anthropic": "claude-sonnet-5",
    "openai": "gpt-5.4",
    "gemini": "gemini-2.5-flash",
    "perplexity": "sonar",
}
"""The model that is suggested for each vendor."""
QUESTION = "Reply with the single word OK."

VendorOption = Annotated[
    str | None, typer.Option("--vendor", metavar="NAME", help=f"The vendor: {', '.join(SUGGESTED)} or openai_chat.")
]
ModelId = Annotated[str | None, typer.Option("--model-id", metavar="ID", help="The vendor's id of the model.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The name in config.toml; default: the vendor's.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The base URL, if it is not the vendor's own.")
]
KeyStdin = Annotated[bool, typer.Option("--key-stdin", help="Read the key from standard input.")]
Keyring = Annotated[bool, typer.Option("--keyring", help="Store the key in the keyring of this user.")]
NoTest = Annotated[bool, typer.Option("--no-test", help="Write the settings without a test request.")]


@dataclass(frozen=True, kw_only=True)
class SetupKey:
    """The source of the key, and whether it is tested."""

    key_stdin: KeyStdin = False
    keyring: Keyring = False
    no_test: NoTest = False


FROM_ENVIRONMENT = SetupKey()


@command_without_owner
def setup(
    options: CommonOptions,
    vendor: VendorOption = None,
    model_id: ModelId = None,
    name: Name = None,
    base_url: BaseUrl = None,
    given: SetupKey = FROM_ENVIRONMENT,
) -> None:
    """Connect a vendor. Asks for its key, tests it, and writes config.toml."""
    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.providers.transport import keep_vendor_key
    from contextinfinity.settings.config_file import read_text, with_model, write_private

    known = _vendor(vendor or _prompt("Vendor", "anthropic", "--vendor", ", ".join(SUGGESTED)))
    wanted = model_id or _prompt("Model", SUGGESTED.get(known, ""), "--model-id")
    called = name or known
    variable, is_new = _key(known, base_url, given)
    fields = {
        "provider": known,
        "model_id": wanted,
        "base_url": base_url,
        "api_key_env": variable if base_url else None,
    }
    table = {field: value for field, value in fields.items() if value}
    file = _config_file(options)
    text = with_model(
        read_text(file), called, table | ({"api_key_keyring": True} if given.keyring else {}), default=True
    )
    default = _check(text, called, tries=not given.no_test)
    if given.keyring and is_new:
        keep_vendor_key(variable, os.environ[variable])
    write_private(file, text)
    is_default = default == called
    if options.as_json:
        print_json({"file": str(file), "model": called, "tested": not given.no_test, "default": is_default})
        return
    print_notice(f"{called} ({wanted}) {'is set up' if given.no_test else 'answers'}; wrote {file}.")
    if not is_default:
        print_notice(f"{default} stays the default; --model {called} chooses this one.")
    if is_new and not given.keyring:
        print_notice(f"The key is not stored. Set it in your shell's profile: export {variable}=…")


def _vendor(name: str) -> str:
    from contextinfinity.vendors import VENDORS

    if name not in VENDORS:
        raise InvalidInput(f"There is no vendor {name!r}.", hint=f"There are {', '.join(VENDORS)}.")
    return name


def _prompt(what: str, default: str, option: str, choices: str = "") -> str:
    """Ask at the terminal; without one, say which option is missing."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"{what} is not given, and there is no terminal to ask at.", hint=f"Give {option}.")
    label = f"{what} ({choices})" if choices else what
    return str(typer.prompt(label, default=default or None)).strip()


def _key(vendor: str, base_url: str | None, given: SetupKey) -> tuple[str, bool]:
    """Return the variable of the key, which this process has from here on, and whether the key was given now."""
    from contextinfinity.vendors import VENDORS

    variable = VENDORS[vendor].auth.key_env
    if given.key_stdin:
        key = sys.stdin.readline().strip()
    elif os.environ.get(variable):
        return variable, given.keyring
    elif not sys.stdin.isatty():
        raise InvalidInput(
            f"There is no key of {vendor}: {variable} is not set, and there is no terminal to ask at.",
            hint=f"Set {variable}, or pipe the key in with --key-stdin.",
        )
    else:
        key = str(typer.prompt(f"Key of {vendor} (not shown)", hide_input=True)).strip()
    if not key or not key.isascii() or not key.isprintable():
        raise InvalidInput("This is not a valid key: it is empty or contains invalid characters.", hint="Try again.")
    os.environ[variable] = key
    return variable, True


def _config_file(options: CommonOptions) -> Path:
    from contextinfinity.settings.loading import CONFIG_NAME, CONFIG_VARIABLE

    named = options.config or os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from contextinfinity.cli.command_options import settings_for

    return settings_for(None, options.data_dir).settings.data_dir / CONFIG_NAME


def _check(text: str, model: str, *, tries: bool) -> str:
    """Read the new settings before they are written, and ask the model one thing; return the default model.

    This happens in a folder of its own, so that nothing is left where conversations are.
    """
    import tempfile

    from contextinfinity.settings import load_settings

    with tempfile.TemporaryDirectory(prefix="cix-setup-") as folder:
        (file := Path(folder) / "config.toml").write_text(text, encoding="utf-8")
        settings = load_settings(config=file, data_dir=Path(folder) / "data").settings
        turn = _ask(settings, model) if tries else None
    if turn is not None and turn.error is not None:
        raise Refused(
            f"{model} did not answer: {turn.error.message} Nothing was written.",
            hint=turn.error.hint or "Check the key and the model, or use --no-test.",
        )
    return settings.general.default_model


def _ask(settings: Settings, model: str) -> FinishedTurn:
    import asyncio

    from contextinfinity.wiring import open_client

    async def ask() -> FinishedTurn:
        async with open_client(settings, in_memory=True) as client:
            return await client.conversations.ask("new", QUESTION, model=model, use_memory=False)

    return asyncio.run(ask())


def config(config: Config = None, data_dir: DataDir = None, as_json: Json = False, server: NoServer = None) -> None:
    """Show every setting, its value and where it came from."""
    with errors_on_stderr():
        loaded = settings_for(config, data_dir, creates=False)
    if as_json:
        typer.echo(json.dumps(_for_programs(loaded), indent=2))
    else:
        _print_for_people(loaded)


def _for_programs(loaded: LoadedSettings) -> dict[str, object]:
    import msgspec

    from contextinfinity.settings.keys import masked

    return {
        "data_dir": str(loaded.settings.data_dir),
        "file": str(loaded.file) if loaded.file else None,
        "values": {
            key: {"value": masked(value) if isinstance(value, str) else msgspec.to_builtins(value), "source": source}
            for key, value, source in loaded.effective()
        },
    }


def _print_for_people(loaded: LoadedSettings) -> None:
    from rich.console import Console

    from contextinfinity.settings.keys import shown

    # A pipe has no width that lines would have to be folded to.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000)
    console.print(f"file: {shown(str(loaded.file)) if loaded.file else 'none'}", soft_wrap=True)
    console.print(_table(loaded.effective()))


def _table(rows: Iterable[tuple[str, object, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from contextinfinity.settings.keys import shown

    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    section = ""
    for key, value, source in rows:
        owner, _, name = key.rpartition(".")
        if owner != section:
            section = owner
            table.add_row()
            table.add_row(Text(f"[{owner}]", style="bold"))
        style = "dim" if source == "default" else ""
        table.add_row(Text(f"  {name}"), Text(shown(value)), Text(source), style=style)
    return table
