"""The built-in detectors find private data, leave other numbers alone, and run in linear time."""

from __future__ import annotations

import time

import pytest

from contextinfinity.prompt.redact import DETECTORS, hidden
from tests.cases import each

MIXED = "a1B2c3D4e5F6g7H8i9J0" * 5
KEYS = (  # joined here, so that no scanner takes this file for a leak
    "sk-" + "ant-api03-" + MIXED,
    "sk-" + "proj-" + MIXED[:48],
    "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + MIXED[:35],
    "ghp_" + MIXED[:36],
    "github_pat_" + MIXED[:60],
    "glpat-" + MIXED[:20],
    "xoxb-" + "1234567890-" + MIXED[:24],
    "sk_" + "live_" + MIXED[:24],
    "hf_" + MIXED[:34],
    "gsk_" + MIXED[:52],
    "SG." + MIXED[:22] + "." + MIXED[:43],
    "eyJ" + MIXED[:20] + ".eyJ" + MIXED[:40] + "." + MIXED[:43],
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE+abc/12=\n-----END RSA PRIVATE KEY-----",
)
CARDS = (
    "4111111111111111",
    "4111 1111 1111 1111",
    "4111\xa01111\xa01111\xa01111",
    "5555-5555-5555-4444",
    "3782 822463 10005",
    "6011000990139424",
)
EMAILS = ("ann@example.com", "ann.b+tag@mail.example.co.uk", "jürgen@müller.example")
PHONES = ("+49 151 23456789", "+44 (0)20 7946 0958", "+14155552671", "(415) 555-2671", "415-555-2671", "415.555.2671")
INNOCENT = (
    "version 3.11.4, 1.2.3-rc.4 and 10.0.19045.3803",
    "commit 9b62701f5e1a4c0d8b7e6f5a4b3c2d1e0f9a8b7c",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id 0192f0c1-2345-7abc-8def-000000000000, 41111111-1111-4111-1111-111111111111",
    "on 2024-01-15 at 10:30:00+02:00, 15.01.2024, 20240115T103000Z",
    "+2024-01-15 10:30 in a diff, +1.23456789 in a table, x +12345678",
    "timestamps 1700000000000 and 1700000000000000000",
    "4111111111111112 has a wrong check digit, 0.4111111111111111 is a fraction",
    "pip install numpy@1.26.4; @decorator.name; git@github.com:org/project.git; a @ b",
    "192.168.100.200:8080, order 123-4567, pages 100-200, ISBN 978-3-16-148410-0",
    "sk-learn-is-a-name-of-many-parts, the task-list, AKIA, hf_hub_download, sk_live_",
    "0x7fffdeadbeef, 3.141592653589793, 1,234,567.89, +1 and +12",
)


def cases(name: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, text) for text in texts]


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *cases("api_keys", KEYS),
        *cases("payment_cards", CARDS),
        *cases("emails", EMAILS),
        *cases("phone_numbers", PHONES),
    ],
    ids=str.strip,
)
def test_a_detector_hides_exactly_what_it_names(name: str, secret: str) -> None:
    for frame in ("{}", "It is {}.", 'key="{}"', "2024 {}, 17", "({})", "key='{}'"):
        assert hidden(frame.format(secret), DETECTORS[name]) == frame.format("[redacted]")


@pytest.mark.req("SAFE-1")
@each("text", INNOCENT)
def test_versions_hashes_ids_and_dates_stay(text: str) -> None:
    for detector in DETECTORS.values():
        assert hidden(text, detector) == text


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_takes_linear_time(name: str) -> None:
    for unit in (
        "a",
        "1",
        "1 ",
        "4111 ",
        "a@",
        "a@b.",
        "@a-",
        "+1",
        "+1 ",
        "sk-",
        "sk-a",
        "eyJ",
        "eyJaaaaaaaaaa.",
        "-----BEGIN ",
    ):
        text = unit * (60_000 // len(unit))
        began = time.process_time()
        list(DETECTORS[name](text))
        assert time.process_time() - began < 1, unit
