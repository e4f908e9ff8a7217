"""Query rewriting: resolve references in a follow-up, find search words it omits, and ask when it is ambiguous.

The input is a message with the turns before it and the memories. The output is a form that may be shown to a model (the
message itself unless its meaning is certain), words for the search, and a clarification to ask. ``OfflineRewriter``
uses rules, ``ModelRewriter`` calls a model. On any failure the original message is returned, and nothing here changes a
thread.
"""

from __future__ import annotations

from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten
from contextinfinity.rewriting.model_rewriter import ModelRewriter
from contextinfinity.rewriting.offline_rewriter import OfflineRewriter
from contextinfinity.rewriting.standalone import ChosenAntecedent, rewrite, rewrite_query

__all__ = [
    "ChosenAntecedent",
    "FollowUp",
    "ModelRewriter",
    "OfflineRewriter",
    "Rewriter",
    "Rewritten",
    "rewrite",
    "rewrite_query",
]
