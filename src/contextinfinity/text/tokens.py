"""How long a text is for a model: about four characters a token, where nothing better is known."""

from __future__ import annotations

from contextinfinity.domain.message import Message, ToolResultBlock, ToolUseBlock

CHARACTERS_A_TOKEN = 4
MESSAGE_TOKENS = 4
"""What a message costs beside its words: its role and its borders."""


def estimate(text: str) -> int:
    """Estimate the tokens of a text; never 0 for a text that is there."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message, its tool calls and results included."""
    inner = sum(
        estimate(str(block.input)) + estimate(block.name)
        if isinstance(block, ToolUseBlock)
        else sum(estimate(part.text) for part in block.content if hasattr(part, "text"))
        for block in message.blocks
        if isinstance(block, ToolUseBlock | ToolResultBlock)
    )
    return MESSAGE_TOKENS + estimate(message.rendered_text) + inner
