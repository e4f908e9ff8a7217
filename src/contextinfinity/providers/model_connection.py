"""Requests with non-streaming replies: bytes out, bytes back, with retries.

Embedders use it. Each retry is logged; keys and request content never are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contextinfinity.errors import ProviderError
from contextinfinity.providers.retrying import RetryPolicy, wait_after
from contextinfinity.providers.transport import VendorConnection, read_whole

log = logging.getLogger(__name__)


class ModelConnection:
    """The connection to one model."""

    def __init__(
        self,
        connection: VendorConnection,
        model_id: str,
        *,
        policy: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._model_id = model_id
        self._policy = policy or RetryPolicy()
        self._sleep = sleep

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request with retries according to the policy; raise ``ProviderError`` if all attempts fail."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._once(path, body)
            except ProviderError as error:
                if not error.retryable:
                    raise
                wait, reason = wait_after(error, self._policy, tried), error.message
            log.warning("attempt %d failed, the next one follows in %.1f s: %s", tried, wait, reason)
            await self._sleep(wait)

    async def close(self) -> None:
        """Close connections."""
        await self._connection.close()

    async def _once(self, path: str, body: bytes) -> bytes:
        async with self._connection.post(path, body, self._model_id, accept="application/json") as arrived:
            return await read_whole(arrived, self._connection.address.vendor)
