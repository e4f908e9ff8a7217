"""A BERT of a few numbers, drawn at random: its files, and what it makes of tokens, written out in numpy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from contextinfinity.embedders.minilm.graph import Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "sofa", "sleeps", "on", "the", "rates", "rose", "##s", "."]
SMALL = Shape(words=len(WORDS), positions=300, width=24, inner=40, heads=3, layers=2)


class SmallBert:
    """Files in a folder, and the reference."""

    def __init__(self, folder: Path) -> None:
        self.weights, self.tokenizer = folder / "small.safetensors", folder / "small.json"
        draw = np.random.default_rng(7)
        self.tensors = {name: draw.normal(0, 0.5, shape).astype("<f4") for name, shape in _shapes().items()}
        write(self.weights, self.tensors)
        self._write_tokenizer()

    def reference(self, ids: list[int]) -> Numbers:
        """Place one text, a formula at a time."""
        at = {name: tensor.astype(np.float64) for name, tensor in self.tensors.items()}
        x = at["embeddings.word_embeddings.weight"][ids] + at["embeddings.position_embeddings.weight"][: len(ids)]
        x = self._levelled("embeddings.LayerNorm", x + at["embeddings.token_type_embeddings.weight"][0])
        for layer in (f"encoder.layer.{number}" for number in range(SMALL.layers)):
            seen = self._linear(f"{layer}.attention.output.dense", self._attention(f"{layer}.attention.self", x))
            x = self._levelled(f"{layer}.attention.output.LayerNorm", x + seen)
            inner = _gelu(self._linear(f"{layer}.intermediate.dense", x))
            x = self._levelled(f"{layer}.output.LayerNorm", x + self._linear(f"{layer}.output.dense", inner))
        mean: Numbers = x.mean(axis=0)
        return mean / math.sqrt(mean @ mean)

    def _attention(self, name: str, x: Numbers) -> Numbers:
        query, key, value = (self._linear(f"{name}.{which}", x) for which in ("query", "key", "value"))
        size, heads = SMALL.width // SMALL.heads, []
        for head in range(SMALL.heads):
            part = slice(head * size, (head + 1) * size)
            scores = np.exp(query[:, part] @ key[:, part].T / math.sqrt(size))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, part])
        return np.concatenate(heads, axis=1)

    def _linear(self, name: str, x: Numbers) -> Numbers:
        whole: Numbers = x @ self.tensors[f"{name}.weight"].T.astype(np.float64) + self.tensors[f"{name}.bias"]
        return whole

    def _levelled(self, name: str, x: Numbers) -> Numbers:
        level = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
        whole: Numbers = level * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]
        return whole

    def _write_tokenizer(self) -> None:
        pieces = {word: place for place, word in enumerate(WORDS)}
        tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=WORDS[1]))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        tokenizer.enable_padding(length=128)
        tokenizer.enable_truncation(128)
        tokenizer.save(str(self.tokenizer))


def write(path: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    """Write a safetensors file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        kind = {"float32": "F32", "float16": "F16"}[tensor.dtype.name]
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(one.tobytes() for one in tensors.values()))


def _shapes() -> dict[str, tuple[int, ...]]:
    width, inner = SMALL.width, SMALL.inner
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (SMALL.words, width),
        "embeddings.position_embeddings.weight": (SMALL.positions, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        **_pair("embeddings.LayerNorm", width),
    }
    for layer in (f"encoder.layer.{number}" for number in range(SMALL.layers)):
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= _pair(f"{layer}.{name}", width, width)
        shapes |= _pair(f"{layer}.intermediate.dense", inner, width) | _pair(f"{layer}.output.dense", width, inner)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", width) | _pair(f"{layer}.output.LayerNorm", width)
    return shapes


def _pair(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _gelu(x: Numbers) -> Numbers:
    parts = [0.5 * one * (1.0 + math.erf(one / math.sqrt(2.0))) for one in x.ravel().tolist()]
    return np.array(parts).reshape(x.shape)
