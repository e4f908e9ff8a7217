"""The context of one message as a plain list of messages, for applications that call their model themselves."""

from __future__ import annotations

from contextinfinity.context.builder import ContextBuilder, build_contextual_messages, use
from contextinfinity.context.memories import Memories
from contextinfinity.context.result import ContextualMessagesResult

__all__ = ["ContextBuilder", "ContextualMessagesResult", "Memories", "build_contextual_messages", "use"]
