"""Conversations with a time to live: document D's five verbs, for callers without an event loop or with one."""

from __future__ import annotations

from contextinfinity.conversation_memory.memory import ConversationMemory
from contextinfinity.conversation_memory.values import QueryContext, Turn

__all__ = ["ConversationMemory", "QueryContext", "Turn"]
