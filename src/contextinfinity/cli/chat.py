"""``cix chat``: talk with a model. The model is still to come."""

from __future__ import annotations

from contextinfinity.cli.options import Config, DataDir, Json
from contextinfinity.errors import Refused


def chat(config: Config = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Talk with a model."""
    raise Refused("The chat model is not part of this version yet.", hint="`cix --help` shows what is.")
