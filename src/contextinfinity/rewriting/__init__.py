"""Follow-ups: who is certainly meant by "he", which words a search needs besides, and what to ask when two fit.

A message goes in with the turns before it and what is remembered. Out come a form that may be shown to a model (the
message itself unless its meaning is certain), words for the search, and a question to ask back.
``OfflineRewriter`` uses rules, ``ModelRewriter`` asks a model. The original words come back on any failure, and nothing
here changes a thread.
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
