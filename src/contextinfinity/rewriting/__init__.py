"""Follow-ups: who is certainly meant by "he", which words a search needs besides, and what to ask when two fit.

A message goes in with the turns before it and what is remembered. Out come a form that may be shown to a model (the
message itself unless its meaning is certain), words for the search, and a question to ask back. ``Offline`` uses rules,
``ModelRewriter`` asks a model. The original words come back on any failure, and nothing here changes a thread.
"""

from __future__ import annotations

from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten
from contextinfinity.rewriting.model import ModelRewriter
from contextinfinity.rewriting.offline import Offline
from contextinfinity.rewriting.standalone import Chosen, rewrite, rewrite_query

__all__ = ["Chosen", "FollowUp", "ModelRewriter", "Offline", "Rewriter", "Rewritten", "rewrite", "rewrite_query"]
