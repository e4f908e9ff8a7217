"""A request that comes again: whichever engine receives it, only one answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.domain.session import Owner
from contextinfinity.engine.engine import for_session, request_key
from contextinfinity.errors import InvalidInput
from contextinfinity.wiring import open_engine
from contextinfinity_testing.clients import suite_settings
from contextinfinity_testing.clients.models import HANGS


@pytest.mark.req("API-15")
async def test_another_process_does_not_ask_the_model_for_a_request_it_did_not_take(tmp_path: Path) -> None:
    settings = suite_settings(tmp_path)
    async with open_engine(settings) as one, open_engine(settings) as two:
        first, _ = await one.accept("new", "Hello", model=HANGS, key="k")
        for engine in (two, one):
            again, _ = await engine.accept("new", "Hello", model=HANGS, key="k")
            assert again.id == first.id
        assert (len(one.tasks), len(two.tasks)) == (1, 0)
        await two.cancel(first.id)


def test_a_key_is_of_its_caller_and_a_request_of_its_key() -> None:
    ann, bob = Owner(user_id="ann"), Owner(user_id="bob")
    assert request_key(ann, "k", {"a": 1, "b": 2}) == request_key(ann, "k", {"b": 2, "a": 1})
    assert request_key(ann, "k", {}).key != request_key(bob, "k", {}).key
    assert request_key(ann, "k", {"a": 1}).asked != request_key(ann, "k", {"a": 2}).asked
    assert for_session(request_key(ann, "k", {})).key != request_key(ann, "k", {}).key


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\x7f"])
def test_a_key_that_cannot_be_shown_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        request_key(Owner(), key, {})
