"""Where topics change, found offline: on people's chats (TIAGE) and on work with an assistant.

TIAGE's dev part is read from ``$CONTEXTINFINITY_BENCH_DATA`` (default: ``../shared/data`` beside the checkout). The
floors are random shifts as frequent as in its training part, no shifts at all, and TextTiling. The conversations with
an assistant are our own, and weights were set by hand with them in view: that row notices a change for the worse, it
does not say how well strangers' conversations are read.
"""

from __future__ import annotations

import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Bench, Row
from contextinfinity.embedders.static import built_in
from contextinfinity.text.cues import content, words
from contextinfinity.text.topics import shift_scores

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CONTEXTINFINITY_BENCH_DATA", HERE.parent.parent / "shared" / "data"))
SEEDS = 20

Shifts = list[bool]
"""For each message but the first, whether it opens a topic."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A conversation, and where its topics change."""

    texts: list[str]
    shifts: Shifts
    roles: list[str] | None = None


class Score(NamedTuple):
    """How well shifts were found. Pk and WindowDiff are shares of windows in which ours and the truth disagree."""

    precision: float
    recall: float
    f1: float
    pk: float
    window_diff: float

    @classmethod
    def of(cls, chats: Sequence[Chat], found: Sequence[Shifts]) -> Score:
        """Compare what was found with what is so; a window is half as long as a topic is on average."""
        pairs = [
            (so, ours)
            for chat, shifts in zip(chats, found, strict=True)
            for so, ours in zip(chat.shifts, shifts, strict=True)
        ]
        right, told, true = sum(so and ours for so, ours in pairs), sum(o for _, o in pairs), sum(so for so, _ in pairs)
        window = max(2, round((len(pairs) + len(chats)) / (true + len(chats)) / 2))
        inside = [counts for chat, ours in zip(chats, found, strict=True) for counts in _windows(chat, ours, window)]
        return cls(
            precision=right / max(told, 1),
            recall=right / max(true, 1),
            f1=2 * right / max(told + true, 1),
            pk=statistics.mean((so == 0) != (ours == 0) for so, ours in inside),
            window_diff=statistics.mean(so != ours for so, ours in inside),
        )

    def by_name(self, name: str) -> float:
        """Give one of the three that are judged."""
        return {"F1": self.f1, "Pk": self.pk, "WindowDiff": self.window_diff}[name]


def _windows(chat: Chat, found: Shifts, size: int) -> list[tuple[int, int]]:
    """Count the true and the found shifts in each window."""
    last = max(1, len(found) - size + 1)
    return [(sum(chat.shifts[at : at + size]), sum(found[at : at + size])) for at in range(last)]


async def run(bench: Bench) -> list[Row]:
    """Measure both kinds of conversation."""
    return [*_people(DATA / "tiage"), _assistants()]


def _people(folder: Path) -> list[Row]:
    if not all((folder / name).is_file() for name in ("dev.json", "train.json")):
        missing = f"not measured: there is no dev.json or no train.json in {folder}; set CONTEXTINFINITY_BENCH_DATA"
        return [Row(what="topic shifts in people's chats (TIAGE dev)", result=missing)]
    chats, rate = _tiage(folder / "dev.json"), _rate(_tiage(folder / "train.json"))
    found = Score.of(chats, [_ours(chat) for chat in chats])
    floors = {
        "random": _random(chats, rate),
        "always no": Score.of(chats, [[False] * len(chat.shifts) for chat in chats]),
        "TextTiling": Score.of(chats, [text_tiling(chat.texts) for chat in chats]),
    }
    return [
        _row("F1", "≥ 0.45, above every baseline", found, floors, lambda ours, floor: ours >= 0.45 and ours > floor),
        _row("Pk", "below every baseline", found, floors, lambda ours, floor: ours < floor),
        _row("WindowDiff", "below every baseline", found, floors, lambda ours, floor: ours < floor),
    ]


def _assistants() -> Row:
    chats = assistant_chats()
    found = Score.of(chats, [_ours(chat) for chat in chats])
    return Row(
        what=f"topic shifts in work with an assistant ({len(chats)} conversations of our own, seen while tuning), F1",
        target="≥ 0.8",
        result=f"{found.f1:.2f} (precision {found.precision:.2f}, recall {found.recall:.2f})",
        met=found.f1 >= 0.8,
        values={"f1": found.f1, "precision": found.precision, "recall": found.recall},
    )


def _ours(chat: Chat) -> Shifts:
    scores = shift_scores(chat.texts, built_in().encode(chat.texts), roles=chat.roles)
    return [bool(score >= 0.5) for score in scores[1:]]


def _row(name: str, figure: str, found: Score, floors: dict[str, Score], better: Callable[[float, float], bool]) -> Row:
    ours, beside = found.by_name(name), {floor: score.by_name(name) for floor, score in floors.items()}
    said = f"{ours:.3f}"
    if name == "F1":
        said += f" (precision {found.precision:.2f}, recall {found.recall:.2f})"
    nearest = (max if name == "F1" else min)(beside.values())
    return Row(
        what=f"topic shifts in people's chats (TIAGE dev), {name}",
        target=figure,
        result=said,
        baseline=", ".join(f"{floor} {value:.3f}" for floor, value in beside.items()),
        ratio=ours / nearest,
        met=all(better(ours, value) for value in beside.values()),
        values={"ours": ours, **beside},
    )


# --- Conversations ----------------------------------------------------------------------------------


def _tiage(path: Path) -> list[Chat]:
    told = json.loads(path.read_text(encoding="utf-8")).values()
    return [Chat(texts=[text for text, _ in chat], shifts=[label == "1" for _, label in chat[1:]]) for chat in told]


def assistant_chats() -> list[Chat]:
    """Read the conversations of our own; a line that begins with a star opens a topic."""
    told = (HERE / "assistant_chats.txt").read_text(encoding="utf-8")
    return [_assistant_chat(chat) for chat in told.strip().split("\n---\n")]


def _assistant_chat(told: str) -> Chat:
    roles, texts, shifts = [], [], []
    for line in told.split("\n"):
        role, _, text = line.removeprefix("*").partition(": ")
        if role in {"user", "assistant"}:
            roles.append(role)
            texts.append(text)
            shifts.append(line.startswith("*"))
        else:
            texts[-1] += f"\n{line}"
    return Chat(texts=texts, shifts=shifts[1:], roles=roles)


# --- Floors -----------------------------------------------------------------------------------------


def _rate(chats: Sequence[Chat]) -> float:
    return statistics.mean(shift for chat in chats for shift in chat.shifts)


def _random(chats: Sequence[Chat], rate: float) -> Score:
    """Guess at that rate, many times, and take the mean."""
    draws = (random.Random(seed) for seed in range(SEEDS))
    scores = [Score.of(chats, [[draw.random() < rate for _ in chat.shifts] for chat in chats]) for draw in draws]
    return Score(*(statistics.mean(values) for values in zip(*scores, strict=True)))


def text_tiling(texts: Sequence[str], *, block: int = 3) -> Shifts:
    """Find shifts as TextTiling does, on utterances: where the words of two blocks agree less than around it."""
    counts = [Counter(content(words(text))) for text in texts]
    gaps = [_agree(counts[max(0, gap - block) : gap], counts[gap : gap + block]) for gap in range(1, len(texts))]
    depths = [_peak(gaps[gap::-1]) + _peak(gaps[gap:]) - 2 * gaps[gap] for gap in range(len(gaps))]
    least = statistics.mean(depths) - statistics.pstdev(depths) / 2
    around = [0.0, *depths, 0.0]
    return [depth > max(least, 0.0) and depth >= max(around[gap], around[gap + 2]) for gap, depth in enumerate(depths)]


def _agree(left: Sequence[Counter[str]], right: Sequence[Counter[str]]) -> float:
    one, other = sum(left, Counter[str]()), sum(right, Counter[str]())
    lengths = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    return sum(n * other[word] for word, n in one.items()) / lengths**0.5 if lengths else 0.0


def _peak(gaps: Sequence[float]) -> float:
    """Climb from the first gap as long as it goes up."""
    top = gaps[0]
    for here, there in pairwise(gaps):
        if there < here:
            break
        top = there
    return top
