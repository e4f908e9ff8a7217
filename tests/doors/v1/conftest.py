"""What the tests of the drop-in door share: vendors, and one server before them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.v1.upstream import Aside, Desk, vendors_aside


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
