"""A file as tests read it."""

from __future__ import annotations

import io


class Crumbs(io.BytesIO):
    """A file that gives a few bytes at a time, however many are asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size)
