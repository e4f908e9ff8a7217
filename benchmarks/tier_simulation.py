"""Editing turns in a repository, paid for by the rules of a prompt cache with markers.

    python -m benchmarks.tier_simulation [--turns 300] [--seed N] [--repository DIR] [--plot FILE.svg]

With ``--repository`` the history of a git repository is replayed: a turn makes one change of a commit (a hunk), or
asks; a file is opened when it is changed and closed when the commits turn to others; commits of more than 20 files
arrive without turns, as from a pull. The seed chooses where the history begins and how often is asked. Without it a
repository of 400 modules is invented, and the seed decides which files are opened, changed and closed. Every request is
put together four ways, from the same files and the same history:

    tiers               the tiered order of a workspace, with its markers
    flat                the same content in the flat order, which has no markers
    flat, marked        the flat order with markers after the system message and on the last messages
    all in system       map, tree and files in the system message, with the same markers

A marker is looked up to 20 blocks back; an entry lives for five minutes after its last use, a turn takes one. Reading
costs 0.1, writing 1.25, all else 1. The repeated prefix is counted without markers, as providers count that cache by
themselves.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from contextinfinity.errors import FileRefused
from contextinfinity.workspace.assembly import (
    MATCHES,
    ChatMessage,
    PromptParts,
    assemble_flat,
    assemble_tiered,
    context_pairs,
    with_marker,
)
from contextinfinity.workspace.repository import Workspace

READ, WRITE, LIFE, LOOK_BACK = 0.1, 1.25, 5, 20
FILES, TARGET = 400, 1126
SWITCHES, EDITS, CLOSED = 0.1, 0.5, 0.5
"""How often another file is opened, the current one is edited (else a question is asked), and the last one closed."""
LARGEST_COMMIT, ASKED = 20, 2
TRIGGER, WINDOW, SUMMARY = 24_000, 4_000, 500
SYSTEM = "You help a developer with a repository. " * 20


def tokens(text: str) -> int:
    """Estimate tokens: four characters each."""
    return (len(text) + 3) // 4


@dataclass
class Bill:
    """What one way of writing prompts cost, turn by turn, in tokens."""

    name: str
    read: int = 0
    written: int = 0
    plain: int = 0
    repeated: int = 0
    first: int = 0
    turns: list[float] = field(default_factory=list)
    _entries: dict[str, int] = field(default_factory=dict)
    _last: list[tuple[str, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.read + self.written + self.plain

    @property
    def share(self) -> float:
        """The share of the input that repeats the request before; the first request cannot."""
        return self.repeated / (self.total - self.first)

    @property
    def cost(self) -> float:
        return READ * self.read + WRITE * self.written + self.plain

    def pay(self, messages: Sequence[ChatMessage], turn: int) -> None:
        """Add one request."""
        blocks = [block for message in messages for block in _blocks(message)]
        sizes = [0, *accumulate(tokens(text) for text, _ in blocks)]
        hashes = list(_prefixes(text for text, _ in blocks))
        marked = [place for place, (_, is_marked) in enumerate(blocks) if is_marked]
        alive = {key for key, used in self._entries.items() if turn - used <= LIFE}
        tried = {place for mark in marked for place in range(max(0, mark - LOOK_BACK + 1), mark + 1)}
        hit = max((place + 1 for place in tried if hashes[place] in alive), default=0)
        end = max(hit, marked[-1] + 1 if marked else 0)
        before = self.cost
        self.read += sizes[hit]
        self.written += sizes[end] - sizes[hit]
        self.plain += sizes[-1] - sizes[end]
        self.turns.append(self.cost - before)
        for place in {*marked, *([hit - 1] if hit else [])}:
            self._entries[hashes[place]] = turn
        self.first = self.first or sizes[-1]
        self._count_repeated(blocks)

    def _count_repeated(self, blocks: Sequence[tuple[str, bool]]) -> None:
        for (now, _), (before, _) in zip(blocks, self._last, strict=False):
            if now != before:
                same = next((n for n, (a, b) in enumerate(zip(now, before, strict=False)) if a != b), 0)
                self.repeated += same // 4
                break
            self.repeated += tokens(now)
        self._last = list(blocks)


def _blocks(message: ChatMessage) -> list[tuple[str, bool]]:
    content: Any = message["content"]
    if isinstance(content, str):
        return [(content, False)]
    return [(part["text"], "cache_control" in part) for part in content]


def _prefixes(texts: Iterable[str]) -> Iterable[str]:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text).to_bytes(8) + text.encode())
        yield digest.hexdigest()


class Work(Protocol):
    """What is done in the repository between the requests."""

    actions: Counter[str]

    def act(self, turn: int) -> None:
        """Do what comes before the question of this turn."""
        ...


class InventedWork:
    """A developer who opens a file, edits it or asks, and often closes it before the next one."""

    def __init__(self, root: Path, workspace: Workspace, seed: int) -> None:
        make_repository(root, seed)
        self.actions: Counter[str] = Counter()
        self._random, self._root, self._files = random.Random(seed), root, workspace.files
        self._current = ""

    def act(self, turn: int) -> None:
        """Open another file, edit the current one, or only ask."""
        if not self._current or self._random.random() < SWITCHES:
            if self._current and self._random.random() < CLOSED:
                self.actions["close"] += self._files.remove_file(self._current)
            number = self._random.randrange(FILES)
            self._current = f"src/part_{number % 8}/module_{number}.py"
            self.actions["open"] += not self._files.has_file(self._current)
            self._files.add_file(self._current)
        elif self._random.random() < EDITS:
            path = self._root / self._current
            path.write_text(path.read_text() + f"\n\ndef added_in_turn_{turn}(value: int) -> int:\n    return value\n")
            self.actions["edit"] += 1
        else:
            self.actions["ask"] += 1


class ReplayedWork:
    """The commits of a git repository, change by change, from a place in its history on."""

    def __init__(self, root: Path, workspace: Workspace, seed: int, repository: Path) -> None:
        self.actions: Counter[str] = Counter()
        self._random, self._root, self._files = random.Random(seed), root, workspace.files
        self._repository = repository
        commits = self._git("rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
        start = self._random.randrange(len(commits) // 10, len(commits) * 9 // 10)
        self._commits = iter(commits[start + 1 :])
        subprocess.run(["tar", "x", "-C", root], input=self._git("archive", commits[start]), check=True)
        self._changes: list[tuple[str, bytes | None]] = []
        self._questions = 0

    def act(self, turn: int) -> None:
        """Make the next change, or only ask."""
        if self._questions:
            self._questions -= 1
            self.actions["ask"] += 1
            return
        while not self._changes:
            self._begin_commit(next(self._commits))
        path, content = self._changes.pop(0)
        self._write(path, content)
        self.actions["edit"] += 1
        if content is not None and not self._files.has_file(path):
            with suppress(FileRefused):  # binary, or too large
                self.actions["open"] += self._files.add_file(path)
        self._questions = self._random.randint(0, ASKED)

    def _begin_commit(self, commit: str) -> None:
        rows = self._git("diff-tree", "-r", "--no-commit-id", "--no-renames", "--name-status", commit).decode()
        paths = [line.split("\t")[1] for line in rows.splitlines()]
        after = {path: self._content(commit, path) for path in paths}
        if len(paths) > LARGEST_COMMIT:
            for path, content in after.items():
                self._write(path, content)
            self.actions["pull"] += 1
            return
        for path in self._files.get_files():
            self.actions["close"] += path not in after and self._files.remove_file(path)
        for path, content in after.items():
            before = self._root / path
            self._changes += [(path, one) for one in steps(before.read_bytes() if before.exists() else b"", content)]

    def _write(self, path: str, content: bytes | None) -> None:
        target = self._root / path
        if content is None:
            return target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return None

    def _content(self, commit: str, path: str) -> bytes | None:
        try:
            return self._git("show", f"{commit}:{path}")
        except subprocess.CalledProcessError:
            return None

    def _git(self, *words: str) -> bytes:
        return subprocess.run(["git", "-C", self._repository, *words], capture_output=True, check=True).stdout


def steps(before: bytes, after: bytes | None) -> list[bytes | None]:
    """Return the contents of a file after each hunk of a change."""
    if after is None:
        return [None]
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    hunks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes()
    return [b"".join([*new[: hunk[-1][4]], *old[hunk[-1][2] :]]) for hunk in hunks]


def make_repository(root: Path, seed: int) -> None:
    """Write modules that use each other."""
    chance = random.Random(seed)
    for number in range(FILES):
        path = root / f"src/part_{number % 8}/module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        used = sorted({chance.randrange(FILES) for _ in range(3)} - {number})
        lines = [f"from src.part_{other % 8}.module_{other} import Service{other}" for other in used]
        lines.append(f"\n\nclass Service{number}:")
        for method in range(chance.randint(3, 14)):
            lines.append(f"    def method_{number}_{method}(self, value: int, limit: int = {method}) -> int:")
            lines.append(f'        """Return the value of step {method}."""\n        return value + {method}\n')
        path.write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Simulation:
    """What came of it: the bills, and every change of a tier with its reasons."""

    bills: dict[str, Bill]
    actions: Counter[str]
    unexplained: int
    """Turns in which a tier's text differed from the one before and no move was logged for it."""


def simulate(root: Path, turns: int = 300, seed: int = 7, repository: Path | None = None) -> Simulation:
    """Work for some turns in an empty folder, which is made if it is missing."""
    root.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(root, tokens, window=200_000, target=TARGET)
    work: Work = (
        InventedWork(root, workspace, seed) if repository is None else ReplayedWork(root, workspace, seed, repository)
    )
    ways: dict[str, Callable[[PromptParts, PromptParts], list[ChatMessage]]] = {
        "tiers": lambda tiered, _: assemble_tiered(tiered, count=tokens, min_cache_tokens=1024),
        "flat": lambda _, flat: assemble_flat(flat),
        "flat, marked": lambda _, flat: _marked(assemble_flat(flat)),
        "all in system": lambda _, flat: _marked(_in_system(flat)),
    }
    bills = {name: Bill(name) for name in ways}
    history: list[ChatMessage] = []
    texts: dict[str, Any] = {}
    unexplained = 0
    for turn in range(turns):
        work.act(turn)
        moves = workspace.prepare(history)
        question = f"Question {turn}: " + "what happens here and why? " * 9
        tiered = workspace.parts(SYSTEM, question, history)
        flat = workspace.flat_parts(SYSTEM, question, history)
        moved = {tier for move in moves for tier in (move.source, move.target)}
        unexplained += sum(
            turn > 0 and texts.get(name) != tier and name not in moved for name, tier in tiered.tiers.items()
        )
        texts = dict(tiered.tiers)
        for name, way in ways.items():
            bills[name].pay(way(tiered, flat), turn)
        answer = f"Answer {turn}: " + "the service adds the step to the value. " * 34
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        workspace.answered()
        if sum(tokens(message["content"]) for message in history) > TRIGGER:
            history = _compacted(history, turn)
            workspace.forget_history()
    return Simulation(bills, work.actions, unexplained)


def _compacted(history: list[ChatMessage], turn: int) -> list[ChatMessage]:
    kept = WINDOW // tokens(history[0]["content"] + history[1]["content"]) * 2
    summary = f"Summary after turn {turn}. " + "A decision. " * (SUMMARY // 3)
    return [{"role": "user", "content": summary}, {"role": "assistant", "content": "Noted."}, *history[-kept:]]


def _marked(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Mark the system message and the last messages that stay, as one would without tiers."""
    end = next((place for place, one in enumerate(messages) if one["content"].startswith(MATCHES)), len(messages) - 1)
    places = {0, end - 1, len(messages) - 1}
    return [with_marker(message) if place in places else message for place, message in enumerate(messages)]


def _in_system(parts: PromptParts) -> list[ChatMessage]:
    system, *rest = assemble_flat(parts)
    pairs = context_pairs(parts)
    texts = [system["content"], *(pair["content"] for pair in pairs[::2])]
    return [{"role": "system", "content": "\n\n".join(texts)}, *rest[len(pairs) :]]


def report(simulation: Simulation) -> str:
    """Write the bills as a table."""
    lines = [f"{'':16}{'input':>12}{'read':>12}{'written':>12}{'cost':>12}{'repeated':>10}"]
    for bill in simulation.bills.values():
        share = bill.share
        lines.append(f"{bill.name:16}{bill.total:12,}{bill.read:12,}{bill.written:12,}{bill.cost:12,.0f}{share:10.1%}")
    return "\n".join([*lines, f"actions {dict(simulation.actions)}, unexplained rebuilds {simulation.unexplained}"])


def plot(simulation: Simulation) -> str:
    """Draw the cost of each way, summed up over the turns, as an SVG picture."""
    width, height, left, top = 720, 360, 60, 20
    sums = {name: list(accumulate(bill.turns)) for name, bill in simulation.bills.items()}
    most = max(line[-1] for line in sums.values())
    colours = ("#0b7a4b", "#b03a2e", "#b9770e", "#2e5fa3")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + left + 150} {height + 60}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
    ]
    for step in range(5):
        y = top + height - height * step / 4
        parts.append(f'<path d="M{left} {y:.0f}H{left + width}" stroke="#ddd"/>')
        parts.append(f'<text x="4" y="{y + 4:.0f}">{most * step / 4 / 1e6:.1f} M</text>')
    for (name, line), colour in zip(sums.items(), colours, strict=True):
        points = " ".join(
            f"{left + width * turn / (len(line) - 1):.1f},{top + height * (1 - value / most):.1f}"
            for turn, value in enumerate(line)
        )
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        y = top + height * (1 - line[-1] / most) + 4
        parts.append(f'<text x="{left + width + 6}" y="{y:.0f}" fill="{colour}">{name}</text>')
    parts.append(
        f'<text x="{left}" y="{height + 45}">input cost in tokens, summed up over {len(line)} turns</text></svg>'
    )
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tier_simulation")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--repository", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulation = simulate(Path(folder), arguments.turns, arguments.seed, arguments.repository)
    print(report(simulation))
    if arguments.plot:
        arguments.plot.write_text(plot(simulation), encoding="utf-8")


if __name__ == "__main__":
    main()
