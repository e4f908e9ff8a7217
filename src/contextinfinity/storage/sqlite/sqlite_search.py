"""``database.Search`` on SQLite: words in FTS5, vectors in packs."""

from contextinfinity.storage.ledger.keyword_index import (
    clear_samples,
    forget_session,
    forget_words,
    index_again,
    index_messages,
    index_missing,
    index_sides,
)
from contextinfinity.storage.ledger.keyword_search import find_words
from contextinfinity.storage.sqlite.vector_writes import drop_vectors, put_embeddings

__all__ = [
    "clear_samples",
    "drop_vectors",
    "find_words",
    "forget_session",
    "forget_words",
    "index_again",
    "index_messages",
    "index_missing",
    "index_sides",
    "put_embeddings",
]
