"""ContextInfinity: an endless, durable conversation for applications that talk to a language model.

The names below are the public surface. They are loaded when first used, so importing the package
costs next to nothing, and no module of the package imports this one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextinfinity.errors import ContextInfinityError as ContextInfinityError
    from contextinfinity.settings import Settings as Settings

__version__ = "0.1.0"

_HOME = {
    "ContextInfinityError": "contextinfinity.errors",
    "Settings": "contextinfinity.settings",
}

__all__ = ["ContextInfinityError", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module 'contextinfinity' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """Show the public names."""
    return sorted(__all__)
