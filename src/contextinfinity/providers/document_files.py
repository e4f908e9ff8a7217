"""Files of clients, such as PDFs, for a model of another vendor.

Plain text can be sent to every model, as text. A PDF can be sent to models that read files. Everything else is replaced
by a note, and ``unread`` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contextinfinity.domain.message import (
    PDF,
    ContentBlock,
    Document,
    Json,
    Message,
    TextBlock,
    ToolResultBlock,
    UnknownBlock,
    document_of,
)
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.sent_form import CHAT
from contextinfinity.providers.wire_values import dict_of, is_base64, text_of

NO_FILES = Abilities(files=False)


def readable_file(block: UnknownBlock, abilities: Abilities, *, urls: bool = True) -> Document | None:
    """Return a file that the model can be sent, or None. ``urls``: whether the API accepts URLs of files."""
    document = document_of(block.raw)
    if document is None or document.text is not None:
        return document
    is_there = is_base64(document.data) or (urls and document.url.startswith(("https://", "http://")))
    return document if abilities.files and document.media_type == PDF and is_there else None


def file_text(document: Document) -> str | None:
    """Return the text of a plain text file, after its name, or None for any other file."""
    text = document.text
    return text if text is None or not document.name else f"{document.name}\n\n{text}"


def named_file(document: Document) -> dict[str, Json]:
    """Return the bytes of a PDF and its name, as both of OpenAI's APIs accept them."""
    name = document.name if document.name.lower().endswith(".pdf") else f"{document.name or 'document'}.pdf"
    return {"filename": name, "file_data": f"data:{document.media_type};base64,{document.data}"}


def unread(messages: Iterable[Message], provider: str, form: str, abilities: Abilities) -> tuple[str, ...]:
    """Return the types of the user's parts that a model cannot be sent, each once. ``form``: that of the provider."""
    found: dict[str, None] = {}
    for message in messages:
        if message.role == "assistant" or (len(message.blocks) == 1 and type(message.blocks[0]) is TextBlock):
            continue  # the usual message: a request may resend thousands
        for block, in_result in _others(message.blocks):
            able = NO_FILES if in_result and form == CHAT else abilities
            if block.provider != provider and readable_file(block, able, urls=form != CHAT) is None:
                found[text_of(dict_of(block.raw).get("type")) or "unknown"] = None
    return tuple(found)


def _others(blocks: Iterable[ContentBlock], in_result: bool = False) -> Iterator[tuple[UnknownBlock, bool]]:
    """Yield the blocks of unknown type, and whether each is part of a tool result."""
    for block in blocks:
        if isinstance(block, UnknownBlock):
            yield block, in_result
        elif isinstance(block, ToolResultBlock):
            yield from _others(block.content, in_result=True)
