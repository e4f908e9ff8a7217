"""What every provider can do.

A provider turns a neutral request into its own wire form and streams back plain events: pieces of text as they
come, and one ``Finished`` at the end. A stream that ends without it was cut. What a provider cannot do it says
with ``ProviderError``, in words for people.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from contextinfinity.domain.prompt import ProviderEvent, ProviderRequest


class Provider(Protocol):
    """One way to reach models."""

    name: str

    def context_limit(self, model_id: str) -> int:
        """Tell how many tokens a request to that model may hold, its answer included."""
        ...

    def stream(self, request: ProviderRequest) -> AsyncIterator[ProviderEvent]:
        """Ask, and give what comes back as it comes."""
        ...
