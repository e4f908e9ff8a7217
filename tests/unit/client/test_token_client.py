"""Whether a server needs a token, while its ledger cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.client.local_resources import LocalTokens
from contextinfinity.domain.session import Owner
from contextinfinity.errors import LedgerError
from contextinfinity_testing.faults import CHANGING, FailingDisk
from tests.recovery.outages import engine_on


@pytest.mark.req("API-14")
async def test_a_ledger_that_cannot_be_read_opens_the_server_to_nobody(tmp_path: Path) -> None:
    with FailingDisk(counted=(*CHANGING, "read")) as disk:
        async with engine_on(tmp_path, vfs=disk.name) as engine:
            await LocalTokens(engine).create(Owner(user_id="ann"))
            tokens = LocalTokens(engine)
            disk.break_down("io")
            with pytest.raises(LedgerError):
                await tokens.needed()
            disk.repair()
            assert await tokens.needed()
            disk.break_down("io")
            assert await tokens.needed(), "what was true stays true"
            disk.repair()
