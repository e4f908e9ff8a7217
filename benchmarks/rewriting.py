"""Follow-up questions made explicit, offline: on people's questions (CANARD), and asking back on cases of our own.

CANARD is read from ``$CONTEXTINFINITY_BENCH_DATA`` (default: ``../shared/data`` beside the checkout). Its conversations
are about an article; title and section stand first and become an opening message of the user. The simple ways are to
leave every question as it is, and to append the name that was said last. Harm is a question changed that people left
alone, and a change that adds only words that people did not. Words added beside the right ones are no harm here; they
show in ROUGE-1 F.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.asked import locomo
from benchmarks.harness import Bench, Row, Series
from benchmarks.words import text
from contextinfinity.rewriting import FollowUp, Rewritten
from contextinfinity.rewriting.offline import LEAST, Offline
from contextinfinity.text.entities import entities
from contextinfinity.threads import Turn

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CONTEXTINFINITY_BENCH_DATA", HERE.parent.parent / "shared" / "data"))
THRESHOLDS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A follow-up of our own writing: one to ask back about, with its candidates, or a clear one with what it means."""

    asked: FollowUp
    is_ambiguous: bool
    meant: tuple[str, ...]
    """Names; none where the message is to stay as it is."""


Way = Callable[[FollowUp], Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, what was said before it, and the explicit form a person gave it."""

    asked: FollowUp
    reference: str
    dialog: str


@dataclass(frozen=True, kw_only=True)
class Score:
    """Shares of questions, except ``rouge`` (a mean) and ``put_in`` (of the words that people added)."""

    exact: float
    rouge: float
    put_in: float
    harm: float
    left_alone: float
    """Of the questions that people left alone."""

    @classmethod
    def of(cls, questions: Sequence[Question], said: Sequence[str]) -> Score:
        """Compare explicit forms with people's."""
        judged = [_Judged.of(one, ours) for one, ours in zip(questions, said, strict=True)]
        explicit = [one for one in judged if one.is_explicit]
        return cls(
            exact=statistics.mean(one.exact for one in judged),
            rouge=statistics.mean(one.rouge for one in judged),
            put_in=sum(one.put_in for one in judged) / max(1, sum(one.missing for one in judged)),
            harm=statistics.mean(one.harmed for one in judged),
            left_alone=statistics.mean(not one.changed for one in explicit) if explicit else 1.0,
        )


@dataclass(frozen=True, kw_only=True)
class _Judged:
    exact: bool
    rouge: float
    missing: int
    put_in: int
    is_explicit: bool
    changed: bool
    harmed: bool

    @classmethod
    def of(cls, question: Question, ours: str) -> _Judged:
        asked, wanted, said = (_words(text) for text in (question.asked.latest_user_message, question.reference, ours))
        a, w, s = Counter(asked), Counter(wanted), Counter(said)
        added, missing = s - a, w - a
        is_explicit, changed = asked == wanted, asked != said
        return cls(
            exact=said == wanted,
            rouge=2 * (s & w).total() / max(1, s.total() + w.total()),
            missing=missing.total(),
            put_in=(added & missing).total(),
            is_explicit=is_explicit,
            changed=changed,
            harmed=changed and (is_explicit or (added.total() > 0 and not added & w)),
        )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


async def run(bench: Bench) -> list[Row]:
    """Measure on people's questions, on cases of our own, and on a long history."""
    people = await _people(DATA / "canard" / "questions.json")
    return [*people, *await _clarifying(), await _chatting(), await _long_history(bench)]


async def _people(path: Path) -> list[Row]:
    what = "follow-up questions made explicit (CANARD)"
    questions = canard(path)
    if not questions:
        missing = f"not measured: there is no {path.name} in {path.parent}; set CONTEXTINFINITY_BENCH_DATA"
        return [Row(what=what, measured=missing)]
    series = Series()
    said = [await _timed(series, one) for one in questions]
    ours = Score.of(questions, said)
    copied = Score.of(questions, [one.asked.latest_user_message for one in questions])
    appended = Score.of(questions, [append_last_name(one.asked) for one in questions])
    rows = [
        _row(f"{what}: missing words put in", "≥ 65 %", ours, copied, appended, "put_in"),
        _row(f"{what}: harm", "≤ 3 %", ours, copied, appended, "harm"),
        _row(f"{what}: explicit ones left alone", "≥ 90 %", ours, copied, appended, "left_alone"),
        _row(f"{what}: ROUGE-1 F", "above both", ours, copied, appended, "rouge"),
        _row(f"{what}: exactly as a person", "above both", ours, copied, appended, "exact"),
    ]
    rows.append(_unseen(what, questions, said))
    for threshold in THRESHOLDS:
        rewriter = Offline(threshold)
        said = [(await rewriter.rewrite(one.asked)).query for one in questions]
        rows.append(_curve(what, threshold, Score.of(questions, said)))
    return [*rows, _time(what, series)]


async def _timed(series: Series, question: Question) -> str:
    with series.timed():
        return (await Offline().rewrite(question.asked)).query


_JUDGES: dict[str, Callable[[float, float], bool]] = {
    "put_in": lambda ours, floor: ours >= 0.65 and ours > floor,
    "harm": lambda ours, _: ours <= 0.03,
    "left_alone": lambda ours, _: ours >= 0.9,
}


async def _clarifying() -> list[Row]:
    told = [(case, await Offline().rewrite(case.asked)) for case in cases()]
    unclear = [_asks(case, rewritten) for case, rewritten in told if case.is_ambiguous]
    clear = [rewritten.is_ambiguous for case, rewritten in told if not case.is_ambiguous]
    right = [_is_right(case, rewritten) for case, rewritten in told if not case.is_ambiguous]
    asked, bothered = statistics.mean(unclear), statistics.mean(clear)
    what = "follow-ups of our own writing, seen while rules were written"
    return [
        Row(
            what=f"{what}: asked which one, of {len(unclear)} with two candidates",
            figure="≥ 90 %",
            measured=f"{asked:.1%}",
            reached=asked >= 0.9,
            values={"asked": asked},
        ),
        Row(
            what=f"{what}: asked all the same, of {len(clear)} clear ones",
            figure="≤ 2 %",
            measured=f"{bothered:.1%} ({statistics.mean(right):.1%} named right or left alone)",
            reached=bothered <= 0.02,
            values={"asked": bothered, "right": statistics.mean(right)},
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
                told = await Offline().rewrite(
                    FollowUp(latest_user_message=turns[place].content, recent_history=before)
                )
                asked, total = asked + told.is_ambiguous, total + 1
    return Row(
        what="messages of ordinary chat (LoCoMo) that are asked back about",
        figure="≤ 2 %" if total else "",
        measured=f"{asked} of {total}" if total else "not measured: there is no locomo; set CONTEXTINFINITY_BENCH_DATA",
        reached=asked <= 0.02 * total if total else None,
        values={"asked": asked, "of": total},
    )


def _asks(case: Case, rewritten: Rewritten) -> bool:
    asked = str(rewritten.disambiguation_data)
    return rewritten.is_ambiguous and all(name in asked for name in case.meant)


def _is_right(case: Case, rewritten: Rewritten) -> bool:
    if not case.meant:
        return rewritten.query == case.asked.latest_user_message
    return not rewritten.is_ambiguous and all(name in rewritten.query for name in case.meant)


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
            await Offline().rewrite(asked)
    length = statistics.mean(len(turn.content) for turn in said[1::2])
    return Row(
        what=f"a follow-up after 20 turns, answers of {length:.0f} characters: time",
        figure="p95 ≤ 5 ms",
        measured=str(series),
        reached=series.p95 <= 5,
        values={"p50_ms": series.p50, "p95_ms": series.p95},
    )


def _above(ours: float, floor: float) -> bool:
    return ours > floor


def _row(what: str, figure: str, ours: Score, copied: Score, appended: Score, name: str) -> Row:
    value, copy, append = (float(getattr(score, name)) for score in (ours, copied, appended))
    better = _JUDGES.get(name, _above)
    return Row(
        what=what,
        figure=figure,
        measured=f"{value:.1%}",
        floor=f"as it is {copy:.1%}, the last name appended {append:.1%}",
        reached=better(value, max(copy, append)),
        values={"ours": value, "copied": copy, "appended": append},
    )


def _unseen(what: str, questions: Sequence[Question], said: Sequence[str]) -> Row:
    """Judge every other conversation alone; rules are tried on the rest."""
    dialogs = sorted({one.dialog for one in questions})[1::2]
    half = [(one, ours) for one, ours in zip(questions, said, strict=True) if one.dialog in dialogs]
    score = Score.of([one for one, _ in half], [ours for _, ours in half])
    return _told(f"{what}: the half of the conversations that rules are not tried on", score)


def _curve(what: str, threshold: float, score: Score) -> Row:
    chosen = ", the one in use" if threshold == LEAST else ""
    return _told(f"{what}: threshold {threshold:g}{chosen}", score)


def _told(what: str, score: Score) -> Row:
    return Row(
        what=what,
        measured=f"put in {score.put_in:.1%}, harm {score.harm:.1%}, left alone {score.left_alone:.1%}, "
        f"ROUGE-1 F {score.rouge:.3f}",
        values={"put_in": score.put_in, "harm": score.harm, "left_alone": score.left_alone, "rouge": score.rouge},
    )


def _time(what: str, series: Series) -> Row:
    return Row(
        what=f"{what}: time",
        figure="p95 ≤ 5 ms",
        measured=str(series),
        reached=series.p95 <= 5,
        values={"p50_ms": series.p50, "p95_ms": series.p95},
    )


def canard(path: Path, joined: str = "\n") -> list[Question]:
    """Read the questions, none where there is no file; title and section become the user's opening message."""
    if not path.is_file():
        return []
    return [_question(told, joined) for told in json.loads(path.read_text(encoding="utf-8"))]


def _question(told: dict[str, object], joined: str) -> Question:
    history = [str(text) for text in told["History"]]  # type: ignore[attr-defined]
    said = [Turn("user", joined.join(history[:2]))]
    said += [Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(history[2:])]
    asked = FollowUp(latest_user_message=str(told["Question"]), recent_history=tuple(said))
    return Question(asked=asked, reference=str(told["Rewrite"]), dialog=str(told["QuAC_dialog_id"]))


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


def append_last_name(asked: FollowUp) -> str:
    """Append the name that was said last."""
    for turn in reversed(asked.recent_history):
        names = [found.text for found in entities(turn.content) if found.kind == "name"]
        if names:
            return f"{asked.latest_user_message.rstrip('?. ')} {names[-1]}?"
    return asked.latest_user_message
