"""What the tests of the drop-in door share: vendors, and one server before them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.doors.v1.upstream import Aside, Desk, somebody, vendors_aside


@pytest.fixture(scope="session")
def all_vendors() -> Iterator[Aside]:
    with vendors_aside() as there:
        yield there


@pytest.fixture(scope="session")
def shared_desk(all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("v1"), all_vendors)
    yield made
    made.server.stop()


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    """The server, without anything that an earlier test had scripted."""
    shared_desk.say()
    return shared_desk


@pytest.fixture
def openai(desk: Desk) -> Iterator[OpenAI]:
    """OpenAI's client, for an end user of its own. One that is not closed warns in whichever test collects it."""
    with OpenAI(base_url=desk.openai_url, api_key="x", default_query={"user_id": somebody()}) as client:
        yield client


@pytest.fixture
def anthropic(desk: Desk) -> Iterator[Anthropic]:
    """Anthropic's client, for an end user of its own."""
    with Anthropic(base_url=desk.anthropic_url, api_key="x", default_query={"user_id": somebody()}) as client:
        yield client
