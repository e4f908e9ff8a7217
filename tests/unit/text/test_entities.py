"""What a text names: found with its kind and its place, in time that grows with the text only."""

from __future__ import annotations

import time
from itertools import pairwise

from contextinfinity.text.entities import entities
from tests.cases import each


def found(text: str) -> list[str]:
    return [f"{each.kind}: {each.text}" for each in entities(text)]


@each(
    ("text", "expected"),
    [
        (
            "see src/app/main.py and ~/notes, C:\\Temp\\x.txt",
            ["path: src/app/main.py", "path: ~/notes", "path: C:\\Temp\\x.txt"],
        ),
        ("config.toml, .env.local? Dockerfile.dev", ["path: config.toml", "symbol: Dockerfile.dev"]),
        ("and/or 24/7 km/h he/she", []),
        ("(https://example.com/a?b=c).", ["url: https://example.com/a?b=c"]),
        ("ask ada@example.org or @grace", ["email: ada@example.org", "id: @grace"]),
        ("ticket INV-2231, issue #42, commit 9ad097b", ["id: INV-2231", "id: #42", "id: 9ad097b"]),
        (
            "018f2b3c-1111-7222-8333-123456789abc on 10.0.0.1:8080",
            ["id: 018f2b3c-1111-7222-8333-123456789abc", "id: 10.0.0.1:8080"],
        ),
        (
            "call build_index() with --dry-run in engine.fold, foldBranch",
            ["symbol: build_index()", "symbol: --dry-run", "symbol: engine.fold", "symbol: foldBranch"],
        ),
        ("it costs 4,200 € or $12.50, that is 3.5 %", ["number: 4,200 €", "number: $12.50", "number: 3.5 %"]),
        ("within 200 ms, 5 GB, 128k", ["number: 200 ms", "number: 5 GB", "number: 128k"]),
        (
            "on 3 May 2026, May 3rd, 2026-05-03, Friday at 14:30",
            ["date: 3 May 2026", "date: May 3rd", "date: 2026-05-03", "date: Friday", "date: 14:30"],
        ),
        ("am 3. Mai, le 3 mai, el 3 agosto", ["date: 3. Mai", "date: 3 mai", "date: 3 agosto"]),
        ("截止2026年5月3日，文件src/main.py。", ["date: 2026年5月3日", "path: src/main.py"]),
        ("The talk by Ada Lovelace about PostgreSQL", ["name: Ada Lovelace", "name: PostgreSQL"]),
        ("Hello there. This is fine.", []),
        ("", []),
    ],
)
def test_what_is_named_is_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_every_entity_says_where_it_stands() -> None:
    text = 'We pay "4,200 €" by 3 May (see docs/plan.md), says Ada Lovelace; 5月3日 too.'
    spans = [(each.start, each.end) for each in entities(text)]
    assert [text[start:end] for start, end in spans] == [each.text for each in entities(text)]
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert len(spans) == 5


@each("piece", ["a.", "a/", "-", "1,", "A ", "年", "1年", "@a", "_", "a-1-", "://", "a\\", "(", "1 € ", "May 3 ", "#"])
def test_no_text_takes_long(piece: str) -> None:
    began = time.process_time()
    entities(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5
