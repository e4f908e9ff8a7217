"""The librarian that asks a model, checks what it says, and can do without.

A task goes to the model in pieces that fit its window, one after the other. Each answer is read strictly and compared
with what must not be lost; a bad answer, or one that lost something, is asked for once more. Notes that are too long
are sent back to be shrunk, once, and trimmed after that. After two failures, and whenever something else goes wrong,
the offline librarian writes the summary in the same call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from contextinfinity.errors import ProviderError
from contextinfinity.librarian.contract import Count, Pause, Said, Summary, Task, no_pause
from contextinfinity.librarian.digest import TOLD, Digest, Entry, digest, render
from contextinfinity.librarian.fit import fitted
from contextinfinity.librarian.merge import merged
from contextinfinity.librarian.offline import folded, topic_of
from contextinfinity.librarian.reply import BadReply, Source, read
from contextinfinity.librarian.safeguards import Kept, carries, missing, must_keep
from contextinfinity.librarian.wording import SCHEMA, SHRINK, SUMMARISE, question, shrink_question

if TYPE_CHECKING:
    from contextinfinity.providers.asking import Adviser

ATTEMPTS = 2
_SHARE = 0.5
"""Of the model's window, what a question may take."""
_LEAST = 200
"""Tokens of transcript in a piece, however small the window is."""
_JSON = 4
"""How many times the tokens of the notes their JSON may take."""


class _GaveUp(Exception):
    """The model's answers cannot be used; what went wrong is in the problems."""


class _Means(NamedTuple):
    """What every part of the work needs: a measure, a way to let others go first, and where trouble is noted."""

    count: Count
    pause: Pause
    problems: list[str]


class ModelLibrarian:
    """``Librarian`` that asks a model."""

    def __init__(self, adviser: Adviser) -> None:
        self._adviser = adviser

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold what was said into the summary; never fails."""
        problems: list[str] = []
        try:
            text = task.summary if task.said else render(await folded(task, count, pause))
            for piece in _pieces(task, self._room(task, count), count):
                made = await self._piece(replace(task, summary=text, said=piece), _Means(count, pause, problems))
                text = render(made)
            return Summary(text=text, by=self._adviser.model_id if task.said else "offline", problems=tuple(problems))
        except _GaveUp:
            pass
        except Exception as error:  # whatever it is: a conversation never waits for a summary
            problems.append(f"the librarian failed: {type(error).__name__}")
        return Summary(text=render(await folded(task, count, pause)), problems=tuple(problems))

    def _room(self, task: Task, count: Count) -> int:
        """Tell how many tokens of transcript fit beside the instructions, the notes and the answer."""
        notes = 2 * _JSON * task.budget + count(SUMMARISE) + sum(map(count, task.pinned_facts))
        return max(_LEAST, int(self._adviser.context_limit * _SHARE) - notes)

    async def _piece(self, task: Task, means: _Means) -> Digest:
        offline = await folded(task, means.count, means.pause)
        must = must_keep(offline)
        source = await Source.of(task, means.pause)
        made = await self._notes(task, source, must, means)
        whole = await _whole(made, offline.of("last"), task, means)
        if means.count(render(whole)) > task.budget:
            whole = await self._shrunk(whole, task, must, means)
        return whole

    async def _notes(self, task: Task, source: Source, must: tuple[Kept, ...], means: _Means) -> Digest:
        """Ask for the notes; once more when the answer is bad or has lost something."""
        lacking: tuple[Kept, ...] = ()
        wanted = [kept.entry for kept in must]
        for _ in range(ATTEMPTS):
            asked = question(task, source.before, wanted, [kept.entry for kept in lacking])
            try:
                made = read(await self._ask(SUMMARISE, asked, task.budget), source)
            except (ProviderError, BadReply) as error:
                means.problems.append(_what(error))
                continue
            lacking = missing(must, made, task.pinned_facts)
            if not lacking:
                return made
            means.problems.append(_lost(lacking))
        raise _GaveUp

    async def _shrunk(self, whole: Digest, task: Task, must: tuple[Kept, ...], means: _Means) -> Digest:
        """Ask for shorter notes, once; if they are no good, trim: what must not be lost goes last."""
        last = whole.of("last")
        notes = Digest(tuple(each for each in whole.entries if each.kind != "last"))
        asked = shrink_question(notes, task.budget, [kept.entry for kept in must])
        try:
            made = read(await self._ask(SHRINK, asked, task.budget), Source(render(notes)))
            shorter = await _whole(made, last, task, means)
            if means.count(render(shorter)) <= task.budget and not missing(must, shorter, task.pinned_facts):
                return shorter
            means.problems.append("the shorter notes were still too long or had lost something")
        except (ProviderError, BadReply) as error:
            means.problems.append(_what(error))
        kept = [each for each in whole.entries if carries(must, each)]
        trimmed = await fitted(whole.entries, task.budget, means.count, kept=kept, pause=means.pause)
        if lost := missing(must, trimmed, task.pinned_facts):
            means.problems.append(_lost(lost))
            raise _GaveUp
        return trimmed

    async def _ask(self, system: str, words: str, budget: int) -> str:
        most = max(500, _JSON * budget)
        return await self._adviser.ask(system, words, schema=SCHEMA, max_output_tokens=most)


async def _whole(made: Digest, last: tuple[Entry, ...], task: Task, means: _Means) -> Digest:
    """Put the notes together with the last exchange; each thing once, and a line for a story that is over."""
    told = [each for each in made.entries if not (task.topic_is_over and each.kind in TOLD)]
    told += topic_of(task, told=bool(told)) if task.topic_is_over else []
    return digest([*await merged(told, task.pinned_facts, means.pause), *last])


def _what(error: ProviderError | BadReply) -> str:
    return f"the model failed: {error.kind}" if isinstance(error, ProviderError) else str(error)


def _lost(lost: tuple[Kept, ...]) -> str:
    names = [name for kept in lost for name in kept.names]
    return f"{len(lost)} entries were lost" + (f": {', '.join(names[:10])}" if names else "")


def _pieces(task: Task, room: int, count: Count) -> Iterator[tuple[Said, ...]]:
    """Part what was said so that each piece fits; a message that is too long for one is parted itself."""
    piece: list[Said] = []
    used = 0
    for one in (part for said in task.said for part in _parted(said, room, count)):
        cost = count(one.text) + 12
        if piece and used + cost > room:
            yield tuple(piece)
            piece, used = [], 0
        piece.append(one)
        used += cost
    if piece:
        yield tuple(piece)


def _parted(one: Said, room: int, count: Count) -> Iterator[Said]:
    if len(one.text) < 2 or count(one.text) + 12 <= room:
        yield one
        return
    middle = one.text.rfind("\n", 0, len(one.text) // 2) + 1 or len(one.text) // 2
    for part in (one.text[:middle], one.text[middle:]):
        yield from _parted(replace(one, text=part), room, count)
