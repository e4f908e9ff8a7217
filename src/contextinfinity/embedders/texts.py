"""Texts as embedders take them."""

from __future__ import annotations


def valid_unicode(text: str) -> str:
    """Give a text as valid Unicode; a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()
