"""One request and its response: failures are retried and reported, and keys are not leaked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from contextinfinity.errors import ProviderError
from contextinfinity.providers.transport import Address, ModelConnection, RetryPolicy, VendorConnection
from contextinfinity_testing.vendors import FakeVendors, Trouble

KEY = "sk-open-0123456789"
BODY = b'{"model":"text-embedding-3-small","input":["what somebody said"],"encoding_format":"float"}'


@pytest.fixture
async def vendors(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeVendors]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with FakeVendors(key=KEY) as there:
        yield there


class Waits:
    """Time that passes at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def line(vendors: FakeVendors, waits: Waits, attempts: int = 4) -> ModelConnection:
    where = Address(vendor="openai", base_url=vendors.openai_url, key_env="OPENAI_API_KEY")
    return ModelConnection(
        VendorConnection(where), "text-embedding-3-small", policy=RetryPolicy(attempts=attempts), sleep=waits
    )


@pytest.mark.req("SAFE-1")
async def test_trouble_that_passes_is_asked_again_and_seen_in_the_log(
    vendors: FakeVendors, caplog: pytest.LogCaptureFixture
) -> None:
    vendors.embedding_troubles.extend([Trouble.status(429, retry_after=7), Trouble.drop(), Trouble.page()])
    waits = Waits()
    asking = line(vendors, waits)
    with caplog.at_level(logging.INFO, logger="contextinfinity"):
        assert b'"embedding"' in await asking.post("/embeddings", BODY)
    await asking.close()
    assert len(vendors.requests) == 4
    assert waits.seconds[0] == 7
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert "attempt 1 failed, the next one follows in 7.0 s: openai text-embedding-3-small: it limits" in said[0]
    assert not any(KEY in line or "somebody" in line for line in said)
    assert vendors.requests[0].headers["accept"] == "application/json"


async def test_trouble_that_stays_is_given_up(vendors: FakeVendors) -> None:
    vendors.embedding_troubles.extend([Trouble.overloaded()] * 5)
    asking = line(vendors, Waits(), attempts=3)
    with pytest.raises(ProviderError, match="It was tried 3 times") as caught:
        await asking.post("/embeddings", BODY)
    await asking.close()
    assert caught.value.kind == "overloaded"
    assert len(vendors.requests) == 3


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (Trouble.bad_key(echo_key=True), "authentication"),
        (Trouble.insufficient_quota(), "quota"),
        (Trouble.size(), "size"),
        (Trouble.status(404), "not_found"),
    ],
)
async def test_what_would_fail_again_is_asked_once(vendors: FakeVendors, trouble: Trouble, kind: str) -> None:
    vendors.embedding_troubles.append(trouble)
    asking = line(vendors, Waits())
    with pytest.raises(ProviderError) as caught:
        await asking.post("/embeddings", BODY)
    await asking.close()
    assert caught.value.kind == kind
    assert KEY not in str(caught.value)
    assert len(vendors.requests) == 1
