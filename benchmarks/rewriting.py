"""Follow-up questions, offline: the form shown to a model, the words given to the search, and asking back.

CANARD and CAsT are read from ``$CONTEXTINFINITY_BENCH_DATA`` (default: ``../shared/data`` beside the checkout). A
person rewrote each question; of the content words that a rewriter adds, those are right that the person added as well.
Every wrong word counts. The simple ways beside it: append the name that was said last; give the search the user's last
and first message. The weights saw every other conversation; the others are reported apart. The chats with an assistant
are ``tests/samples/follow_ups_assistant.jsonl``, written before the rules.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.asked import locomo
from benchmarks.harness import Bench, Row, Series
from benchmarks.words import text
from contextinfinity.rewriting import FollowUp, OfflineRewriter, Rewritten
from contextinfinity.text.cues import carries_content
from contextinfinity.text.entities import entities
from contextinfinity.threads import Turn

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CONTEXTINFINITY_BENCH_DATA", HERE.parent.parent / "shared" / "data"))
SAMPLES = HERE.parent / "tests" / "samples" / "follow_ups_assistant.jsonl"

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A follow-up of our own writing: one to ask back about, with its candidates, or a clear one with what it means."""

    asked: FollowUp
    is_ambiguous: bool
    meant: tuple[str, ...]
    """Names; none where the message is to stay as it is."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, what was said before it, and the explicit form a person gave it."""

    asked: FollowUp
    reference: str
    dialog: str


Way = Callable[[FollowUp], Awaitable[Rewritten]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """What a rewriter does to questions, in shares and counts."""

    shown: float
    """Of the questions, those that are shown in another form."""
    precision: float
    """Of the words shown, those that a person added as well."""
    left_alone: float
    """Of the questions that people left alone."""
    human_left_alone: float
    """Of people's own rewrites, given as questions."""
    put_in: float
    """Of the words that people added, those given to the search or shown."""
    words: float
    """Words given to the search or shown, a question."""

    @classmethod
    async def of(cls, questions: Sequence[Question], way: Way) -> Score:
        """Compare a way to rewrite with people's."""
        added = right = missing = put = given = 0
        changed, alone, human = [], [], []
        for index, one in enumerate(questions):
            message = one.asked.latest_user_message
            told = await way(one.asked)
            own, wanted = _content(message), _content(one.reference) - _content(message)
            shown = _content(told.query) - own
            searched = (_content(" ".join(told.terms)) | shown) - own
            added, right = added + len(shown), right + len(shown & wanted)
            missing, put, given = missing + len(wanted), put + len(searched & wanted), given + len(searched)
            changed.append(told.query != message)
            if _words(message) == _words(one.reference):
                alone.append(told.query == message)
            if index % 3 == 0:
                before = one.asked.recent_history
                again = await way(FollowUp(latest_user_message=one.reference, recent_history=before))
                human.append(again.query == one.reference)
        return cls(
            shown=statistics.mean(changed),
            precision=right / added if added else 1.0,
            left_alone=statistics.mean(alone) if alone else 1.0,
            human_left_alone=statistics.mean(human),
            put_in=put / max(1, missing),
            words=given / len(questions),
        )

    def __str__(self) -> str:
        return (
            f"shown {self.shown:.1%}, of the words shown right {self.precision:.1%}, standalone left alone "
            f"{self.left_alone:.1%}, human rewrites left alone {self.human_left_alone:.1%}; for the search: put in "
            f"{self.put_in:.1%} with {self.words:.1f} words a question"
        )


def _words(said: str) -> list[str]:
    return [word.lower().replace("’", "'").removesuffix("'s").rstrip("'") for word in _WORD.findall(said)]


def _content(said: str) -> set[str]:
    words = (word for word in _words(said) if carries_content(word))
    return {word[:-1] if word.endswith("s") and len(word) > 3 else word for word in words}


async def run(bench: Bench) -> list[Row]:
    """Measure on people's questions, in chats with an assistant, on cases of our own, and on a long history."""
    rows: list[Row] = []
    sets = {
        "CANARD": (canard(DATA / "canard" / "questions.json"), 0.6),
        "CAsT": (cast(DATA / "cast" / "2021.json"), 0.35),
    }
    for name, (questions, aim) in sets.items():
        rows += await _people(name, questions, aim)
    return [*rows, await _assistant(), *await _clarifying(), await _chatting(), await _long_history(bench)]


async def _people(name: str, questions: Sequence[Question], aim: float) -> list[Row]:
    what = f"follow-up questions ({name})"
    if not questions:
        return [Row(what=what, result=f"not measured: there is no data in {DATA}; set CONTEXTINFINITY_BENCH_DATA")]
    unseen = {*sorted({one.dialog for one in questions})[1::2]}
    held = [one for one in questions if one.dialog in unseen]
    seen = [one for one in questions if one.dialog not in unseen]
    ours = await Score.of(held, OfflineRewriter().rewrite)
    named, earlier = await Score.of(held, append_last_name), await Score.of(held, earlier_words)
    put_in = f"first and last message {earlier.put_in:.1%} with {earlier.words:.1f} words"
    return [
        _row(
            f"{what}: right words shown",
            "≥ 90 %",
            ours.precision,
            0.9,
            f"last name {named.precision:.1%}",
        ),
        _row(
            f"{what}: standalone unchanged",
            "≥ 99 %",
            ours.left_alone,
            0.99,
            f"last name {named.left_alone:.1%}",
        ),
        _row(f"{what}: human rewrites unchanged", "≥ 99 %", ours.human_left_alone, 0.99, ""),
        _row(f"{what}: missing words added to the search query", f"≥ {aim:.0%}", ours.put_in, aim, put_in),
        Row(what=f"{what}: the held half of the conversations", result=str(ours)),
        Row(
            what=f"{what}: the half that weights were fitted on",
            result=str(await Score.of(seen, OfflineRewriter().rewrite)),
        ),
    ]


def _row(what: str, figure: str, value: float, aim: float, floor: str) -> Row:
    return Row(
        what=what, target=figure, result=f"{value:.1%}", baseline=floor, met=value >= aim, values={"ours": value}
    )


async def _assistant() -> Row:
    """Count false forms in chats about code, support and travel."""
    shown = false = 0
    lines = SAMPLES.read_text(encoding="utf-8").splitlines()
    for case in map(json.loads, lines):
        turns = tuple(Turn(*turn.split(": ", 1)) for turn in case["turns"])
        told = await OfflineRewriter().rewrite(FollowUp(latest_user_message=case["question"], recent_history=turns))
        shown += told.query != case["question"]
        false += not {*_words(told.query)} <= {*_words(case["question"]), *_words(case["meant"])}
    return Row(
        what=f"follow-ups in {len(lines)} chats about code, support and travel: wrong rewrites shown",
        target="0",
        result=f"{false} of {shown} shown",
        met=false == 0,
        values={"false": false, "shown": shown},
    )


async def _clarifying() -> list[Row]:
    told = [(case, await OfflineRewriter().rewrite(case.asked)) for case in cases()]
    unclear = [_asks(case, rewritten) for case, rewritten in told if case.is_ambiguous]
    clear = [rewritten.is_ambiguous for case, rewritten in told if not case.is_ambiguous]
    asked, bothered = statistics.mean(unclear), statistics.mean(clear)
    what = "follow-ups of our own writing, seen while rules were written"
    return [
        Row(
            what=f"{what}: clarifying questions for {len(unclear)} messages with two candidates",
            target="≥ 90 %",
            result=f"{asked:.1%}",
            met=asked >= 0.9,
            values={"asked": asked},
        ),
        Row(
            what=f"{what}: clarifying questions for {len(clear)} unambiguous messages",
            target="≤ 2 %",
            result=f"{bothered:.1%}",
            met=bothered <= 0.02,
            values={"asked": bothered},
        ),
    ]


async def _chatting() -> Row:
    """Count how often ordinary chat, which never calls for it, is interrupted by a question back."""
    asked = total = 0
    for talk in locomo():
        turns = [Turn(said.side, said.text) for said in talk.said]
        for place in range(2, len(turns)):
            if turns[place].role == "user":
                before = tuple(turns[max(0, place - 20) : place])
                told = await OfflineRewriter().rewrite(
                    FollowUp(latest_user_message=turns[place].content, recent_history=before)
                )
                asked, total = asked + told.is_ambiguous, total + 1
    return Row(
        what="clarifying questions for messages of ordinary chat (LoCoMo)",
        target="≤ 2 %" if total else "",
        result=f"{asked} of {total}" if total else "not measured: there is no locomo; set CONTEXTINFINITY_BENCH_DATA",
        met=asked <= 0.02 * total if total else None,
        values={"asked": asked, "of": total},
    )


def _asks(case: Case, rewritten: Rewritten) -> bool:
    asked = str(rewritten.disambiguation_data)
    return rewritten.is_ambiguous and all(name in asked for name in case.meant)


async def _long_history(bench: Bench) -> Row:
    """Time a history of 20 turns, the answers as long as assistants give them."""
    draw = random.Random(1)
    people = [f"{first} {last}" for first in ("Anna", "Peter", "Julia") for last in ("Berg", "Stone", "Fields")]
    said: list[Turn] = []
    for _ in range(10):
        answer = " ".join(f"{draw.choice(people)} wrote {text(draw, 120)}" for _ in range(12))
        said += [Turn("user", f"What did {draw.choice(people)} say about it?"), Turn("assistant", answer)]
    asked = FollowUp(latest_user_message="Where did she say that?", recent_history=tuple(said))
    series = Series()
    for _ in range(10 * bench.scale.reads):
        with series.timed():
            await OfflineRewriter().rewrite(asked)
    length = statistics.mean(len(turn.content) for turn in said[1::2])
    return Row(
        what="time to rewrite a follow-up after 20 turns",
        target="p95 ≤ 5 ms",
        result=f"{series}, answers of {length:.0f} characters",
        met=series.p95 <= 5,
        values={"p50_ms": series.p50, "p95_ms": series.p95},
    )


def canard(path: Path) -> list[Question]:
    """Read the questions, none where there is no file; the user opens with a request that names title and section."""
    if not path.is_file():
        return []
    found = []
    for told in json.loads(path.read_text(encoding="utf-8")):
        title, section, *history = told["History"]
        said = [Turn("user", f"Please tell me about {title}, especially {section}."), Turn("assistant", "What of it?")]
        said += [Turn("assistant" if index % 2 else "user", line) for index, line in enumerate(history)]
        asked = FollowUp(latest_user_message=told["Question"], recent_history=tuple(said))
        found.append(Question(asked=asked, reference=told["Rewrite"], dialog=told["QuAC_dialog_id"]))
    return found


def cast(path: Path) -> list[Question]:
    """Read the questions with the answers that were shown, none where there is no file."""
    if not path.is_file():
        return []
    found = []
    for told in json.loads(path.read_text(encoding="utf-8")):
        said: list[Turn] = []
        for turn in told["turns"]:
            asked = FollowUp(latest_user_message=turn["user"], recent_history=tuple(said))
            found.append(Question(asked=asked, reference=turn["rewrite"], dialog=told["id"]))
            said += [Turn("user", turn["user"]), Turn("assistant", turn["assistant"])]
    return found


def cases() -> list[Case]:
    """Read the follow-ups of our own writing."""
    return [_case(told) for told in (HERE / "clarifying.txt").read_text(encoding="utf-8").strip().split("\n---\n")]


def _case(told: str) -> Case:
    first, *lines = told.split("\n")
    label, _, meant = first.partition(": ")
    turns: list[Turn] = []
    for line in lines[:-1]:
        role, colon, text = line.partition(": ")
        if colon and role in ("user", "assistant"):
            turns.append(Turn(role, text))
        else:
            turns[-1] = Turn(turns[-1].role, f"{turns[-1].content}\n{line}")
    return Case(
        asked=FollowUp(latest_user_message=lines[-1].removeprefix("> "), recent_history=tuple(turns)),
        is_ambiguous=label == "ambiguous",
        meant=() if meant == "-" else tuple(meant.split("; ")),
    )


async def append_last_name(asked: FollowUp) -> Rewritten:
    """Append the name that was said last."""
    for turn in reversed(asked.recent_history):
        names = [found.text for found in entities(turn.content) if found.kind == "name"]
        if names:
            return Rewritten(query=f"{asked.latest_user_message.rstrip('?. ')} {names[-1]}?")
    return Rewritten(query=asked.latest_user_message)


async def earlier_words(asked: FollowUp) -> Rewritten:
    """Search with the user's last and first message."""
    said = [turn.content for turn in asked.recent_history if turn.role == "user"]
    return Rewritten(query=asked.latest_user_message, terms=tuple(dict.fromkeys((*said[-1:], *said[:1]))))
