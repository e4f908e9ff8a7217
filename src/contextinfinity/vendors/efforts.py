"""The reasoning efforts of a model."""

from __future__ import annotations

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every level, the least first."""
THREE = ("low", "medium", "high")
FOUR = (*THREE, "xhigh")
FROM_LOW_TO_MAX = (*FOUR, "max")
