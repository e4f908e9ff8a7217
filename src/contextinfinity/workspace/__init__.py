"""A conversation about a repository, for applications that call their model themselves."""

from __future__ import annotations

from contextinfinity.workspace.context_manager import ContextManager

__all__ = ["ContextManager"]
