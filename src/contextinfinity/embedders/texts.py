"""Prepare texts for embedders."""

from __future__ import annotations


def valid_unicode(text: str) -> str:
    """Return a text as valid Unicode; lone surrogates become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()
