"""Retry failed provider requests.

The result is the stream of one attempt, with a ``Retry`` event before each wait. There is no retry once text has been
yielded, because the reader has seen it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from contextinfinity.domain.prompt import Finished, ProviderEvent, Retry, TextDelta
from contextinfinity.errors import ProviderError
from contextinfinity.providers.failures import SOMEBODY, cut_off


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The retry policy: waits double from ``first_wait`` (exponential back-off) up to ``longest_wait``."""

    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 60.0


async def retrying(
    attempt: Callable[[], AsyncIterator[ProviderEvent]],
    policy: RetryPolicy,
    *,
    vendor: str = SOMEBODY,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = random.random,
) -> AsyncIterator[ProviderEvent]:
    """Repeat attempts until an answer starts, at most ``policy.attempts`` times.

    An attempt that ends without text and without ``Finished`` was cut off and has failed. One that is cut off
    after text ends the stream. ``vendor`` is used in error messages. Raises ``ProviderError`` after the last attempt.
    """
    tried = 0
    while True:
        tried += 1
        shown = False
        stream = attempt()
        try:
            async for event in stream:
                shown = shown or (isinstance(event, TextDelta) and event.text != "")
                yield event
                if isinstance(event, Finished):
                    return
            if shown:
                return
            failed = cut_off(vendor)
        except ProviderError as error:
            if shown or not error.retryable:
                raise
            failed = error
        finally:
            await _close(stream)
        wait = wait_after(failed, policy, tried, random)
        yield Retry(attempt=tried, reason=failed.message, wait_seconds=wait)
        await sleep(wait)


def wait_after(
    failed: ProviderError, policy: RetryPolicy, tried: int, random: Callable[[], float] = random.random
) -> float:
    """Return the wait before the next attempt: random up to the doubled time (jitter), to spread retries.

    Raises the failure, with the reason why there is no retry, after the last attempt or if the requested wait is too
    long.
    """
    if tried >= policy.attempts:
        raise _final(failed, f"It was tried {tried} times." if tried > 1 else "") from failed
    requested = failed.retry_after or 0.0
    if requested > policy.longest_wait:
        raise _final(
            failed, f"It asked to wait {requested:.0f} seconds; we wait {policy.longest_wait:g} at most."
        ) from failed
    doubled = policy.first_wait * 2.0 ** min(tried - 1, 30)
    return max(requested, random() * min(policy.longest_wait, doubled))


def _final(failed: ProviderError, why: str) -> ProviderError:
    final = ProviderError(
        f"{failed.message} {why}".rstrip(),
        kind=failed.kind,
        hint=failed.hint,
        retryable=True,
        retry_after=failed.retry_after,
    )
    final.upstream = failed.upstream
    return final


async def _close(stream: AsyncIterator[ProviderEvent]) -> None:
    """Close the connection now, not at garbage collection."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
