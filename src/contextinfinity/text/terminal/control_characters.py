"""Replace characters that would control a terminal: a model's output is untrusted."""

from __future__ import annotations

# C0 and C1 control characters, and those that change the text direction or hide text. Line ends, tabs and the
# joiners of emoji are kept.
_CONTROLS = (*range(32), 127, *range(128, 160))
_DIRECTIONS = (0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_REPLACED = {code: "\N{REPLACEMENT CHARACTER}" for code in (*_CONTROLS, *_DIRECTIONS) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Replace every character that would control a terminal, one to one, so that offsets are preserved."""
    return text.translate(_REPLACED)
