"""Making a follow-up explicit: what goes to a rewriter and what comes back.

For now a message is given back as it was said. The original words come back on any failure, too, and nothing here
changes a thread.
"""

from __future__ import annotations

from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten
from contextinfinity.rewriting.standalone import Unchanged, rewrite, rewrite_query

__all__ = ["FollowUp", "Rewriter", "Rewritten", "Unchanged", "rewrite", "rewrite_query"]
