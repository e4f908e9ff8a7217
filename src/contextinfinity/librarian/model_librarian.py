"""The librarian that calls a model, verifies its answer, and falls back to the offline librarian.

A task is sent to the model in pieces that fit its window, one after the other. Each answer is verified
(``summary_checks``); after a bad one the model is called once more with the list of errors. Notes that are too long are
sent back once to be shortened, and are then trimmed. After two failures, at once if the provider rejects the account,
and on any other error, the offline librarian writes the summary in the same call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.turn import Usage
from contextinfinity.errors import ProviderError
from contextinfinity.librarian.contract import Count, Pause, Summary, Task, TranscriptMessage, no_pause
from contextinfinity.librarian.digest import Digest, Topic, digest, render
from contextinfinity.librarian.model_prompts import SCHEMA, SHRINK, SUMMARISE, question, shrink_question
from contextinfinity.librarian.offline_librarian import fitted, folded
from contextinfinity.librarian.summary_checks import BadReply, Evidence, Invented, Kept, missing, must_keep, read
from contextinfinity.librarian.topic_lines import without_details

if TYPE_CHECKING:
    from contextinfinity.providers.auxiliary_model import AuxiliaryModel

ATTEMPTS = 2
REJECTIONS = frozenset({"authentication", "quota", "rate_limit"})
"""Failures after which the next request would be rejected as well: 401, 402, 429."""
_SHARE = 0.5
"""The share of the model's window that a request may use."""
_LEAST = 200
"""The minimum number of transcript tokens in a piece, however small the window is."""
_JSON = 4
"""The maximum size of the notes as JSON, as a multiple of their tokens."""
_TOPICS = 1 / 3
"""The share of the budget for topic lines."""


class _ModelFailed(Exception):
    """The model's answers are unusable; the reasons are recorded."""


class ModelLibrarian:
    """A ``Librarian`` that calls a model."""

    def __init__(self, adviser: AuxiliaryModel) -> None:
        self._adviser = adviser

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold the messages into the summary; it never raises."""
        work = _Work(self._adviser, count, pause)
        by = self._adviser.model_id if task.said else "offline"
        try:
            text = task.summary if task.said else render(await folded(task, count, pause))
            for piece in _pieces(task, work.room(task), count):
                text = render(await work.piece(replace(task, summary=text, said=piece)))
        except _ModelFailed:
            text, by = "", "offline"
        except Exception as error:  # a conversation must not fail because of a summary
            work.problems.append(f"the librarian failed: {type(error).__name__}")
            text, by = "", "offline"
        if by == "offline" and task.said:
            text = render(await folded(task, count, pause))
        return Summary(text=text, by=by, problems=tuple(work.problems), usage=work.usage, rejected=work.rejected)


class _Work:
    """The state of one librarian call: the model, the token counter, and the problems so far."""

    def __init__(self, adviser: AuxiliaryModel, count: Count, pause: Pause) -> None:
        self._adviser, self._count, self._pause = adviser, count, pause
        self.problems: list[str] = []
        self.usage = Usage()
        self.rejected = ""

    def room(self, task: Task) -> int:
        """Return how many transcript tokens fit beside the instructions, the notes and the answer."""
        notes = 2 * _JSON * task.budget + self._count(SUMMARISE) + sum(map(self._count, task.pinned_facts))
        return max(_LEAST, int(self._adviser.context_limit * _SHARE) - notes)

    async def piece(self, task: Task) -> Digest:
        """Fold one piece of the transcript into the notes."""
        offline = await folded(task, self._count, self._pause)
        must = must_keep(offline)
        source = await Evidence.of(task, self._pause)
        made = await self._notes(task, source, must)
        whole = _whole(made, offline, task)
        if self._count(render(whole)) > task.budget:
            whole = await self._shrunk(whole, offline, task, must)
        return whole

    async def _notes(self, task: Task, source: Evidence, must: tuple[Kept, ...]) -> Digest:
        """Request the notes; repeat once if the answer is malformed, invents or has lost something."""
        lacking: tuple[Kept, ...] = ()
        invented: tuple[str, ...] = ()
        wanted = [kept.entry for kept in must]
        for _ in range(ATTEMPTS):
            asked = question(task, source.before, wanted, [kept.entry for kept in lacking], invented)
            try:
                made = read(await self._ask(SUMMARISE, asked, task.budget), source)
            except Invented as error:
                invented = tuple(error.names[:20])
                self.problems.append(str(error))
                continue
            except (ProviderError, BadReply) as error:
                self._note(error)
                continue
            lacking = missing(must, made, task.pinned_facts)
            if not lacking:
                return made
            self.problems.append(_lost(lacking))
        raise _ModelFailed

    async def _shrunk(self, whole: Digest, offline: Digest, task: Task, must: tuple[Kept, ...]) -> Digest:
        """Request shorter notes once; if they are unusable, trim them, binding entries last."""
        notes = Digest(tuple(each for each in whole.entries if each.kind != "last"), whole.topics)
        asked = shrink_question(notes, task.budget, [kept.entry for kept in must])
        try:
            made = read(await self._ask(SHRINK, asked, task.budget), Evidence(render(notes)))
            shorter = _whole(made, offline, task)
            if self._count(render(shorter)) <= task.budget and not missing(must, shorter, task.pinned_facts):
                return shorter
            self.problems.append("the shortened notes were still too long or incomplete")
        except (ProviderError, BadReply) as error:
            self._note(error)
        kept = [each for each in whole.entries if any(one.is_in(each.text) for one in must)]
        trimmed = await fitted(whole, task.budget, self._count, kept=kept, topics=_TOPICS, pause=self._pause)
        if lost := missing(must, trimmed, task.pinned_facts):
            self.problems.append(_lost(lost))
            raise _ModelFailed
        return trimmed

    async def _ask(self, system: str, words: str, budget: int) -> str:
        most = max(500, _JSON * budget)
        text, usage = await self._adviser.ask_counted(system, words, schema=SCHEMA, max_output_tokens=most)
        if not usage.input_tokens:  # the provider reports no usage: estimate it
            usage = Usage(input_tokens=self._count(system) + self._count(words), output_tokens=self._count(text))
        self.usage += usage
        return text

    def _note(self, error: ProviderError | BadReply) -> None:
        """Record a failure; raise if the provider would reject the next request as well."""
        if not isinstance(error, ProviderError):
            self.problems.append(str(error))
            return
        self.problems.append(f"the model failed: {error.kind}")
        if error.kind in REJECTIONS:
            self.rejected = error.kind
            raise _ModelFailed from error


def _whole(made: Digest, offline: Digest, task: Task) -> Digest:
    """Add the last exchange, and topic lines for turns that the model's topics do not cover."""
    topics = [*made.topics]
    covered = {turn for each in topics for turn in range(each.first, each.last + 1)}
    for each in offline.topics:
        if not covered.issuperset(range(each.first, each.last + 1)):
            topics.append(without_details(each))
    if task.topic_is_over:
        topics = [replace(each, text=each.text[:120]) for each in topics]
    return digest([*made.entries, *offline.of("last")], _distinct(topics))


def _distinct(topics: list[Topic]) -> list[Topic]:
    return [*dict.fromkeys(topics)]


def _lost(lost: tuple[Kept, ...]) -> str:
    names = [name for kept in lost for name in kept.names]
    return f"{len(lost)} entries were lost" + (f": {', '.join(names[:10])}" if names else "")


def _pieces(task: Task, room: int, count: Count) -> Iterator[tuple[TranscriptMessage, ...]]:
    """Split the transcript into pieces that fit; a message that is too long is split itself."""
    piece: list[TranscriptMessage] = []
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


def _parted(one: TranscriptMessage, room: int, count: Count) -> Iterator[TranscriptMessage]:
    if len(one.text) < 2 or count(one.text) + 12 <= room:
        yield one
        return
    middle = one.text.rfind("\n", 0, len(one.text) // 2) + 1 or len(one.text) // 2
    for part in (one.text[:middle], one.text[middle:]):
        yield from _parted(replace(one, text=part), room, count)
