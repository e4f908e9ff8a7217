"""Making a follow-up explicit: who is "he", which is "the second one", and what to ask when two could be meant.

A message goes in with the turns before it and what is remembered; out comes a question that can be understood alone.
``Offline`` tells it from the words, ``ModelRewriter`` asks a model. The original words come back on any failure, and
nothing here changes a thread.
"""

from __future__ import annotations

from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten
from contextinfinity.rewriting.model import ModelRewriter
from contextinfinity.rewriting.offline import Offline
from contextinfinity.rewriting.standalone import Chosen, rewrite, rewrite_query

__all__ = ["Chosen", "FollowUp", "ModelRewriter", "Offline", "Rewriter", "Rewritten", "rewrite", "rewrite_query"]
