"""What a gguf file says of its model, read without loading it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import Json, say
from contextinfinity.domain.prompt import Prompt, ProviderRequest
from contextinfinity.errors import ProviderError
from contextinfinity.providers.contract import written_again
from contextinfinity.providers.local import gguf
from contextinfinity.providers.local.gguf import ModelFile
from contextinfinity.providers.local.provider import Load, LocalProvider, LocalRunSettings, give_back, take

TOKENS = ["<|end|>", "a", "b", "c", "ab", "Ġ", "Ġab", "1", "2", "12"]
WORDS: dict[str, Json] = {
    "general.architecture": "llama",
    "llama.context_length": 4096,
    "general.tags": ["a", "b"],
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, *[1] * (len(TOKENS) - 1)],
    "tokenizer.ggml.merges": ["a b", "Ġ ab", "1 2"],
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_of(value: Json) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        inner, written = (8, b"".join(map(text, value))) if isinstance(value[0], str) else (5, b"")
        return struct.pack("<IIQ", 9, inner, len(value)) + (written or struct.pack(f"<{len(value)}i", *value))
    return struct.pack("<II", 4, value)


def made(folder: Path, said: Mapping[str, Json] = WORDS) -> Path:
    """Write a gguf file without tensors."""
    front = b"GGUF" + struct.pack("<IQQ", 3, 0, len(said))
    path = folder / "model.gguf"
    path.write_bytes(front + b"".join(text(name) + value_of(value) for name, value in said.items()))
    return path


def request(said: str) -> ProviderRequest:
    return ProviderRequest(model_id="m", prompt=Prompt(system=("Be kind.", "Anna"), messages=(say("user", said),)))


@pytest.mark.req("PROVIDER-1")
def test_the_facts_are_read_without_the_vocabulary(tmp_path: Path) -> None:
    facts = gguf.facts(made(tmp_path))
    assert gguf.window(facts) == 4096
    assert facts["general.tags"] == ["a", "b"]
    assert "tokenizer.ggml.tokens" not in facts
    assert gguf.all_values(made(tmp_path)) == WORDS


@pytest.mark.req("PROVIDER-1")
@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"not a model",
        b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("x") + struct.pack("<I", 77),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("x") + struct.pack("<IIQ", 9, 0, 2**62),
    ],
)
def test_a_file_that_is_no_model_is_named_with_what_is_wrong(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(written)
    with pytest.raises(ProviderError, match=r"model\.gguf cannot be read") as caught:
        LocalProvider(ModelFile(path)).abilities("m")
    assert caught.value.kind == "not_found"


@pytest.mark.req("PROVIDER-1", "BUDGET-4")
def test_texts_are_counted_with_the_tokenizer_in_the_file(tmp_path: Path) -> None:
    counter = LocalProvider(ModelFile(made(tmp_path))).counter("m")
    assert counter.exact
    assert [counter.count(said) for said in ("ab", "ab ab", "12", "abc", "")] == [1, 2, 2, 2, 0]


@pytest.mark.req("PROVIDER-1", "BUDGET-4")
def test_a_tokenizer_of_another_kind_is_estimated(tmp_path: Path) -> None:
    for other in ({"tokenizer.ggml.pre": "of-another-world"}, {"tokenizer.ggml.model": "llama"}):
        counter = LocalProvider(ModelFile(made(tmp_path, {**WORDS, **other}))).counter("m")
        assert not counter.exact
        assert counter.count("four words are here") > 2


@pytest.mark.req("PROVIDER-1")
def test_the_window_is_the_files_unless_the_settings_make_it_smaller(tmp_path: Path) -> None:
    file = ModelFile(made(tmp_path))
    assert LocalProvider(file).context_limit("m") == 4096
    for wanted, given in ((2048, 2048), (100_000, 4096)):
        able = LocalProvider(file, LocalRunSettings(overrides={"context_limit": wanted})).abilities("m")
        assert (able.context_limit, able.tools, able.one_system) == (given, False, True)
    large = ModelFile(made(tmp_path, {**WORDS, "llama.context_length": 131_072}))
    assert LocalProvider(large).context_limit("m") == 8192, "more has to be asked for: it takes memory"
    assert LocalProvider(large, LocalRunSettings(overrides={"context_limit": 32_768})).context_limit("m") == 32_768


@pytest.mark.req("PROVIDER-1")
async def test_a_missing_file_is_noticed_when_it_is_asked_and_not_before(tmp_path: Path) -> None:
    provider = LocalProvider(ModelFile(tmp_path / "gone.gguf"), LocalRunSettings(missing="Fetch it."))
    asked = provider.write(request("Hello"))
    assert provider.estimate_prompt_tokens(asked.request) > 5
    assert provider.context_limit("m") == 8192
    with pytest.raises(ProviderError, match=r"gone\.gguf is missing\. Fetch it\.") as caught:
        await anext(provider.stream(asked))
    assert caught.value.kind == "not_found"
    await provider.close()


@pytest.mark.req("PROVIDER-1")
async def test_a_file_that_llama_cpp_cannot_load_is_said_in_words(tmp_path: Path) -> None:
    provider = LocalProvider(ModelFile(made(tmp_path)))
    with pytest.raises(ProviderError, match=r"llama\.cpp cannot load .*model\.gguf"):
        await anext(provider.stream(provider.write(request("Hello"))))
    await provider.close()


@pytest.mark.req("PROVIDER-3", "CTX-10")
def test_a_request_can_be_written_again(tmp_path: Path) -> None:
    written = LocalProvider(ModelFile(made(tmp_path))).write(request("Hello"))
    assert b'{"role":"system","content":"Be kind.\\n\\nAnna"}' in written.body
    again = written_again(written.form, request("Hello"))
    assert (again.body, again.sha256) == (written.body, written.sha256)


@pytest.mark.req("PROVIDER-3")
def test_what_looks_like_a_control_token_is_only_text() -> None:
    steering = gguf.controls(WORDS)
    assert gguf.plain("so <|end|>it <|end|> ends", steering) == "so < |end|>it < |end|> ends"
    assert gguf.plain("<|end|>", gguf.controls({})) == "<|end|>"


@pytest.mark.req("PROVIDER-1")
async def test_all_who_load_the_same_share_it_until_the_last_one_leaves(tmp_path: Path) -> None:
    load = Load(path=tmp_path / "x", model_id="m", window=2048, threads=1, idle_seconds=60)
    first, second, other = take(load), take(load), take(replace(load, window=4096))
    assert first is second
    assert first is not other
    await give_back(first)
    assert take(load) is second, "it is still in use"
    for each in (second, second, other):
        await give_back(each)
    newer = take(load)
    assert newer is not first
    await give_back(newer)
