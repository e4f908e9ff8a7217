"""The built-in embedder: its files, its speed, and that it stays on this machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tokenizers import Tokenizer

from contextinfinity.embedders.static import (
    LONGEST,
    SHAPE,
    TOKENIZER,
    WEIGHTS,
    StaticEmbedder,
    built_in,
    installed,
    mapped,
)
from contextinfinity.errors import ProviderError

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors


def test_a_row_is_the_mean_of_the_tokens() -> None:
    embedder = built_in()
    (red,), (apple,) = embedder.encode(["red"]), embedder.encode(["apple"])
    (both,) = embedder.encode(["red apple"])
    inside = both @ np.linalg.pinv(np.stack([red, apple])) @ np.stack([red, apple])
    assert np.allclose(inside, both, atol=1e-3)


def test_the_numbers_are_those_that_were_stored_under_this_name() -> None:
    # If this changes, NAME has to: vectors already stored could no longer be compared.
    assert built_in().name == "wordllama-l2_supercat-256/1"
    (row,) = built_in().encode(["The cat sleeps on the sofa."])
    assert row[:4] == pytest.approx([0.04901, -0.08248, 0.09534, 0.02041], abs=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "a b", "  two  spaces\n\n next ", "\n x", "\r\n\ttab\u00a0", "日本語 の テスト", "a<s> b</s> <unk>",
        "a\u2581b c",
        "\ud800 é ﬁ 👩‍👩‍👧 'quoted'", "x" * 100 + " y" * 3, " " * 40 + "x",
    ],
)  # fmt: skip
def test_words_have_the_tokens_that_they_have_in_the_text(text: str) -> None:
    tokenizer = Tokenizer.from_file(str(installed() / TOKENIZER))
    ids = tokenizer.encode(text.encode(errors="replace").decode(), add_special_tokens=False).ids
    row = mapped(installed() / WEIGHTS).take(ids, axis=0).sum(axis=0, dtype=np.float32)[None]
    for _ in range(2):  # computed, then cached
        assert np.array_equal(built_in().encode([text]), row / np.linalg.norm(row, axis=1, keepdims=True))


def test_what_is_past_its_reach_is_not_read() -> None:
    front = "word " * LONGEST
    short, long = built_in().encode([front, front + "quite another thing " * 1_000])
    assert np.array_equal(short, long)


def test_a_text_within_its_reach_is_read_to_the_end() -> None:
    front = "word " * (LONGEST // 2)
    short, long = built_in().encode([front, front + "quite another thing " * 100])
    assert short @ long < 0.999


async def test_much_text_does_not_hold_up_the_event_loop() -> None:
    seen: list[int] = []

    class Watched(StaticEmbedder):
        def encode(self, texts: Sequence[str]) -> Vectors:
            seen.append(threading.get_ident())
            return super().encode(texts)

    embedder = Watched()
    await embedder.embed(["short"])
    await embedder.embed(["long " * 2_000])
    assert seen[0] == threading.get_ident()
    assert seen[1] != threading.get_ident()


def test_any_number_of_threads_may_use_one_instance() -> None:
    texts = [f"text number {number} about {('cats', 'dogs')[number % 2]}" for number in range(200)]
    alone = built_in().encode(texts)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: built_in().encode(texts), range(8)))
    assert all(np.array_equal(rows, alone) for rows in together)


def test_it_reaches_for_no_network_code_and_does_not_mind_a_fork() -> None:
    script = """
import os, sys
from contextinfinity.embedders.static import built_in
built_in().encode([f"text {n}" for n in range(500)])
if os.fork() == 0:
    os._exit(int(built_in().encode(["after the fork"]).shape != (1, 256)))
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print([name for name in ("wordllama", "requests", "huggingface_hub", "safetensors") if name in sys.modules])
"""
    environment = {"PATH": "", "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def _folder(place: Path, header: bytes, numbers: int) -> Path:
    (place / WEIGHTS).parent.mkdir()
    (place / TOKENIZER).parent.mkdir()
    (place / TOKENIZER).write_bytes((installed() / TOKENIZER).read_bytes())
    (place / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(numbers))
    return place


WHOLE = 2 * SHAPE[0] * SHAPE[1]
HEADER = b'{"embedding.weight": {"dtype": "F16", "shape": [32000, 256], "data_offsets": [0, 16384000]}}'


@pytest.mark.parametrize(
    ("header", "numbers"),
    [
        (HEADER.replace(b"F16", b"F32"), WHOLE),
        (HEADER.replace(b"32000", b"16000"), WHOLE),
        (HEADER.replace(b"16384000", b"16384002"), WHOLE),
        (HEADER, WHOLE - 2),
        (b"", 0),
        (b"[]", WHOLE),
        (b"\xff\xfe", WHOLE),
        (b'{"embedding.weight": 5}', WHOLE),
    ],
)
def test_other_weights_are_refused_in_words(tmp_path: Path, header: bytes, numbers: int) -> None:
    with pytest.raises(ProviderError, match=r"does not hold the weights.*pip install") as caught:
        StaticEmbedder(_folder(tmp_path, header, numbers))
    assert caught.value.kind == "missing"


def test_weights_of_the_right_form_are_taken(tmp_path: Path) -> None:
    embedder = StaticEmbedder(_folder(tmp_path, HEADER, WHOLE))
    assert not embedder.encode(["all weights are zero here"]).any()


def test_missing_files_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    with pytest.raises(ProviderError, match="pip install 'wordllama"):
        installed()


async def test_a_cancelled_batch_leaves_the_embedder_as_it_was() -> None:
    task = asyncio.create_task(built_in().embed(["long " * 5_000] * 20))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await built_in().embed(["still here"])).any()
