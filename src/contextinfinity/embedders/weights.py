"""Locate and map the files of the built-in embedder.

They are part of the package ``wordllama``, whose code is not imported: it would load its network parts and look for the
tokenizer in another folder. The weights are one safetensors file, which is mapped into memory.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from contextinfinity.embedders.safetensors import tensors
from contextinfinity.errors import ProviderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"
SHAPE = [32_000, 256]


def installed() -> Path:
    """Return the folder with the files; raise ``ProviderError`` if they are not installed."""
    found = find_spec("wordllama")
    folders = found.submodule_search_locations if found else None
    for folder in map(Path, folders or ()):
        if all((folder / name).is_file() for name in (WEIGHTS, TOKENIZER)):
            return folder
    raise ProviderError(
        "The files of the built-in embedder are not installed.",
        kind="missing",
        hint="Install them with `pip install 'wordllama>=0.4,<0.5'`.",
    )


def mapped(path: Path) -> NDArray[np.float16]:
    """Map the weights: one row per token."""
    import numpy as np

    start = _start_of_numbers(path)
    return np.asarray(np.memmap(path, dtype="<f2", mode="r", offset=start, shape=(SHAPE[0], SHAPE[1])))


def _start_of_numbers(path: Path) -> int:
    """Return the offset of the weights; raise ``ProviderError`` if they are not the expected ones."""
    try:
        found = tensors(path).get(TENSOR)
    except ValueError:
        found = None
    if found is None or found.dtype != "F16" or list(found.shape) != SHAPE:
        raise ProviderError(
            f"{path} does not hold the weights of the built-in embedder.",
            kind="missing",
            hint="Reinstall them with `pip install --force-reinstall --no-deps 'wordllama>=0.4,<0.5'`.",
        )
    return found.start
