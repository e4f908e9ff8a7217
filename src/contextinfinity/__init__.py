"""ContextInfinity: an endless, durable conversation for applications that talk to a language model.

The names below are the public surface. They are loaded when first used, so importing the package
costs next to nothing, and no module of the package imports this one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import contextinfinity.threads as threads
    from contextinfinity.compaction.boundary import TopicBoundary as TopicBoundary
    from contextinfinity.compaction.boundary import find_topic_boundary as find_topic_boundary
    from contextinfinity.compat.context import ContextualMessagesResult as ContextualMessagesResult
    from contextinfinity.compat.context import build_contextual_messages as build_contextual_messages
    from contextinfinity.compat.conversation_memory import ConversationMemory as ConversationMemory
    from contextinfinity.engine.engine import Engine as Engine
    from contextinfinity.errors import ContextInfinityError as ContextInfinityError
    from contextinfinity.rewriting import rewrite_query as rewrite_query
    from contextinfinity.settings import Settings as Settings
    from contextinfinity.wiring import open_engine as open  # noqa: A004 - the public name
    from contextinfinity.workspace.context_manager import ContextManager as ContextManager
    from contextinfinity.workspace.files import FileContext as FileContext
    from contextinfinity.workspace.history_file import HistoryStore as HistoryStore

if sys.platform == "win32":
    raise ImportError("ContextInfinity runs on Linux and macOS. On Windows, install it inside WSL 2.")

__version__ = "1.0.0"

_HOME = {
    "ContextInfinityError": ("contextinfinity.errors", "ContextInfinityError"),
    "ContextManager": ("contextinfinity.workspace.context_manager", "ContextManager"),
    "ConversationMemory": ("contextinfinity.compat.conversation_memory", "ConversationMemory"),
    "ContextualMessagesResult": ("contextinfinity.compat.context", "ContextualMessagesResult"),
    "Engine": ("contextinfinity.engine.engine", "Engine"),
    "FileContext": ("contextinfinity.workspace.files", "FileContext"),
    "HistoryStore": ("contextinfinity.workspace.history_file", "HistoryStore"),
    "Settings": ("contextinfinity.settings", "Settings"),
    "TopicBoundary": ("contextinfinity.compaction.boundary", "TopicBoundary"),
    "build_contextual_messages": ("contextinfinity.compat.context", "build_contextual_messages"),
    "find_topic_boundary": ("contextinfinity.compaction.boundary", "find_topic_boundary"),
    "open": ("contextinfinity.wiring", "open_engine"),
    "rewrite_query": ("contextinfinity.rewriting", "rewrite_query"),
    "threads": ("contextinfinity.threads", ""),
}
"""Where each is: its module, and its name there (none: the module itself)."""

__all__ = [
    "ContextInfinityError",
    "ContextManager",
    "ContextualMessagesResult",
    "ConversationMemory",
    "Engine",
    "FileContext",
    "HistoryStore",
    "Settings",
    "TopicBoundary",
    "__version__",
    "build_contextual_messages",
    "find_topic_boundary",
    "open",
    "rewrite_query",
    "threads",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module 'contextinfinity' has no attribute {name!r}")
    module, attribute = _HOME[name]
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    """Show the public names."""
    return sorted(__all__)
