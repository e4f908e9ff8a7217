"""Asking again when a provider could not answer.

In goes a way to ask once. Out comes the same stream of events, with a ``Retry`` before each wait. Nobody is asked
again once a word of the answer was given: the reader has seen it.
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
    """How often and how long to try. Waits double from ``first_wait``; none is longer than ``longest_wait``."""

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
    """Ask until an answer begins, at most ``policy.attempts`` times.

    An attempt that ends before its first word without ``Finished`` was cut, and counts as failed. One that is cut
    after it ends the stream, as a cut stream ends. ``vendor`` is who is asked, for what people are told.
    """
    tried = 0
    while True:
        tried += 1
        said = False
        stream = attempt()
        try:
            async for event in stream:
                said = said or (isinstance(event, TextDelta) and event.text != "")
                yield event
                if isinstance(event, Finished):
                    return
            if said:
                return
            failed = cut_off(vendor)
        except ProviderError as error:
            if said or not error.retryable:
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
    """Choose how long to wait: anything up to the doubled time, so that many callers do not come back at once.

    Raises what failed, with why nobody is asked again, after the last attempt and where the wait would be too long.
    """
    if tried >= policy.attempts:
        raise _final(failed, f"It was asked {tried} times." if tried > 1 else "") from failed
    asked = failed.retry_after or 0.0
    if asked > policy.longest_wait:
        raise _final(
            failed, f"It asks us to wait {asked:.0f} seconds; we wait {policy.longest_wait:g} at most."
        ) from failed
    doubled = policy.first_wait * 2.0 ** min(tried - 1, 30)
    return max(asked, random() * min(policy.longest_wait, doubled))


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
    """Let go of the connection now, not when the garbage is collected."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
