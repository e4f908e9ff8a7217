"""The size of a picture from its first bytes."""

from __future__ import annotations

import struct

import pytest

from contextinfinity.text.image_size import size_of

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"\x08\x06\x00\x00\x00"
GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + b"\x00\x00\x00"
FRAME = b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 1080, 1920) + b"\x03"
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" + FRAME
LOSSY = b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 550, 368)
LOSSLESS = b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + (399 | 300 << 14).to_bytes(4, "little")
EXTENDED = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + (1199).to_bytes(3, "little") + (629).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(PNG, (640, 480), id="png"),
        pytest.param(GIF, (320, 200), id="gif"),
        pytest.param(JPEG, (1920, 1080), id="jpeg"),
        pytest.param(b"\xff\xd8\xff\xff\xff\xe1\xff\xff" + bytes(65533) + FRAME, (1920, 1080), id="jpeg with metadata"),
        pytest.param(LOSSY, (550, 368), id="webp lossy"),
        pytest.param(LOSSLESS, (400, 301), id="webp lossless"),
        pytest.param(EXTENDED, (1200, 630), id="webp extended"),
    ],
)
def test_the_size_is_read_from_the_first_bytes(data: bytes, size: tuple[int, int]) -> None:
    assert size_of(data) == size


@pytest.mark.parametrize("whole", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_a_picture_cut_short_has_its_size_or_none(whole: bytes) -> None:
    sizes = {size_of(whole[:length]) for length in range(len(whole) + 1)}
    assert sizes == {None, size_of(whole)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        PNG.replace(struct.pack(">II", 640, 480), struct.pack(">II", 0, 480)),
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 1000,
        b"\xff\xd8\x00\x00\x00\x00",
        b"RIFF\x00\x00\x00\x00WEBPVP9 " + bytes(40),
    ],
)
def test_bytes_that_are_no_picture_have_no_size(data: bytes) -> None:
    assert size_of(data) is None
