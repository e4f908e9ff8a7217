"""Build a prompt that fits from its sections, and the plan that accounts for it.

The steps: redact what must not be sent, measure the sections, remove what does not fit (``shrink``), lay out the rest
(``layout``), and check that every pinned fact is included verbatim; otherwise nothing is sent.

The front of a prompt is stable: it is replaced only for one of the listed reasons. Other changes, such as a new memory,
wait for the next replacement, so that the provider's prompt cache keeps matching.

How much of a request repeats the previous one is what a cache can serve. Bodies are compared in the order in which
vendors read them: tools, system texts, then whole messages or items. Cache markers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import accumulate, chain

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.memory import Memory
from contextinfinity.domain.message import Json
from contextinfinity.domain.plan import Budget, Front, LeftOut, Plan, Retrieved, Shrunk
from contextinfinity.domain.prompt import Abilities, Prompt, WorkspaceText
from contextinfinity.errors import ContextInfinityError, ProviderError
from contextinfinity.prompt.layout import MOST_MARKERS, lay_out, markers, pins_text, summary_pair
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Sections
from contextinfinity.prompt.redact import Redactor, Span, redact
from contextinfinity.prompt.shrink import cut, describe, low_mark, repeated_cuts, shrink, truncate

WORKSPACE_SHARE = 0.9
"""The maximum share of the window for a workspace request."""


class Assembled(Struct, frozen=True, kw_only=True):
    """A prompt, its plan, and the redacted spans."""

    prompt: Prompt
    plan: Plan
    spans: tuple[Span, ...] = ()
    workspace: WorkspaceText | None = None
    """The workspace section as it is shown, without the files that did not fit."""

    @property
    def tokens(self) -> int:
        """The estimated size of the prompt."""
        return self.plan.tokens


class Frame(Struct, frozen=True, kw_only=True):
    """The limits of a prompt."""

    budget: Budget
    abilities: Abilities
    redactor: Redactor | None = None
    most_turns: int | None = None
    """The maximum number of tokens of all earlier turns, set when folding has failed."""
    start: Shrunk | None = None
    """The cuts of the previous request, repeated as long as they suffice; deeper cuts leave room (``low_mark``).

    With None, each request is cut only as far as needed.
    """
    holds_cuts: bool = False
    """Whether cuts should last for many requests."""
    rejected: int | None = None
    """The size of a prompt that the provider rejected or would reject: a smaller one that cannot be cut is sent, even
    if it exceeds its limit."""


def assemble(
    sections: Sections, frame: Frame, measure: Measure, *, limit: int | None = None, reason: str | None = None
) -> Assembled:
    """Build the prompt of a step.

    ``limit`` is its maximum size (default: the budget's input limit); ``reason`` says why the front changed. Raises
    ``ProviderError`` of kind ``size`` if nothing fits, and ``ContextInfinityError`` if a pinned fact would be missing.
    """
    limit = frame.budget.input_limit if limit is None else limit
    if sections.workspace is not None:
        limit = min(limit, int(frame.budget.model_limit * WORKSPACE_SHARE))
    explicit = sections.contextualised  # unredacted; the spans record what was hidden
    sections, spans = redact(sections, frame.redactor) if frame.redactor else (sections, ())
    shrunk = frame.start
    if shrunk is not None and measure.total(sections) <= low_mark(sections, measure, limit):
        shrunk = None
    if frame.most_turns is not None:
        shrunk = truncate(sections, measure, frame.most_turns)
    shown = cut(sections, shrunk) if shrunk else sections
    counted = measure.sections(shown)
    if sum(section.tokens for section in counted) > limit:
        shrunk = _shrunk(sections, frame, measure, limit, shrunk)
        shown = cut(sections, shrunk)
        counted = measure.sections(shown)
    prompt = lay_out(shown, with_tools=frame.abilities.tools)
    check_pins(prompt, sections)
    total = sum(section.tokens for section in counted)
    retrieved = sum(artifact.tokens for artifact in shown.artifacts)
    gathered = sections.turns if sections.bridge is None else sections.turns[1:]
    plan = Plan(
        layout=shown.layout,
        epoch_reason="shrunk" if shrunk and shrunk.touches_front and not _repeats(shrunk, frame) else reason,
        budget=replace(frame.budget, base_tokens=max(0, total - retrieved)),
        sections=counted,
        gathered=(gathered[0].turn_seq, gathered[-1].turn_seq) if gathered else None,
        bridge=sections.bridge,
        retrieved=tuple(
            Retrieved(
                chunk_id=artifact.chunk_id,
                similarity=round(artifact.score, 4),
                rank=rank,
                start=artifact.start,
                end=artifact.end,
                summary=artifact.text if artifact.is_summary else None,
                uncut=None if artifact.uncut is None else (artifact.uncut, artifact.side),
                elsewhere=bool(artifact.conversation),
                superseded_by=artifact.superseded_by,
            )
            for rank, artifact in enumerate(sections.artifacts, start=1)
        ),
        left_out=_left_out(sections, shrunk),
        shrunk=shrunk,
        shrink_steps=describe(sections, shrunk) if shrunk else (),
        contextualised=explicit,
        token_scale=measure.scale,
    )
    return Assembled(prompt=_marked(prompt, shown, frame, measure), plan=plan, spans=spans, workspace=shown.workspace)


def _shrunk(sections: Sections, frame: Frame, measure: Measure, limit: int, start: Shrunk | None) -> Shrunk:
    """Return the cuts with which the prompt fits; an error names the whole window of the model."""
    low = low_mark(sections, measure, limit) if frame.holds_cuts else None
    window, rejected = frame.budget.input_limit, frame.rejected
    try:
        return shrink(sections, measure, limit, window, start, low=low, rejected=rejected)
    except ProviderError as error:
        error.upstream |= {"limit": frame.budget.model_limit, "answer": frame.budget.model_limit - window}
        raise


def _repeats(shrunk: Shrunk, frame: Frame) -> bool:
    """Return whether the cuts in turns equal those of the previous request."""
    return frame.start is not None and repeated_cuts(shrunk) == repeated_cuts(frame.start)


def check_pins(prompt: Prompt, sections: Sections) -> None:
    """Raise ``ContextInfinityError`` unless every pinned fact is in the prompt verbatim."""
    facts = sections.front.pinned_facts
    if facts and not any(pins_text(facts) in text for text in prompt.system):
        missing = [fact for fact in facts if not any(f"- {fact}" in text for text in prompt.system)] or facts
        raise ContextInfinityError(
            f"A pinned fact is missing from the prompt: {missing[0]!r}.", hint="Nothing was sent."
        )


def _marked(prompt: Prompt, shown: Sections, frame: Frame, measure: Measure) -> Prompt:
    """Set the cache markers; prefixes shorter than the model's minimum get none."""
    if shown.workspace is not None:
        return _marked_tiers(prompt, shown, frame, measure)
    before = len(summary_pair(shown.front.summary))
    earlier = sum(len(turn.messages) for turn in shown.turns)
    parts = chain(  # (messages, tokens) of each part at whose end a marker is possible
        ((1, measure.text(text)) for text in prompt.system),
        ((1, measure.message(message)) for message in prompt.messages[:before]),
        ((len(turn.messages), measure.turns((turn,))) for turn in shown.turns),
        ((1, measure.message(message)) for message in prompt.messages[before + earlier :]),
    )
    least, end, tokens = frame.abilities.min_cache_tokens, 0, 0
    for count, size in parts:
        end, tokens = end + count, tokens + size
        if tokens >= least:
            return replace(prompt, markers=tuple(place for place in markers(shown, prompt) if place >= end - 1))
    return replace(prompt, markers=())


def _marked_tiers(prompt: Prompt, shown: Sections, frame: Frame, measure: Measure) -> Prompt:
    """Set a cache marker at each workspace tier that is long enough; one that is left over, after the last turn."""
    sizes = [*map(measure.text, prompt.system), *map(measure.message, prompt.messages)]
    totals = list(accumulate(sizes))
    places = [place for place in markers(shown, prompt) if totals[place] >= frame.abilities.min_cache_tokens]
    return replace(prompt, markers=tuple(places[:MOST_MARKERS]))


def _left_out(sections: Sections, shrunk: Shrunk | None) -> tuple[LeftOut, ...]:
    """List what was gathered but not included."""
    if shrunk is None:
        return ()
    left = []
    if shrunk.artifacts is not None and (dropped := sections.artifacts[shrunk.artifacts :]):
        tokens = sum(artifact.tokens for artifact in dropped)
        what = f"artifacts from rank {shrunk.artifacts + 1} on"
        left.append(LeftOut(what=what, reason="they exceed the budget", tokens=tokens))
    left += [LeftOut(what=f"file {path}", reason="it did not fit") for path in shrunk.files]
    if shrunk.lines_to and sections.turns:
        stretch = f"turns {sections.turns[0].turn_seq}–{shrunk.lines_to}"
        left.append(LeftOut(what=stretch, reason="one line each in the summary; they exceed the budget"))
    return tuple(left)


SILENCE = timedelta(hours=1)
"""After this time no provider cache is still valid."""


class PreviousFront(Struct, frozen=True, kw_only=True):
    """The previous request on the branch."""

    front: Front
    plan: Plan
    silence: timedelta
    same_branch: bool = True
    removed: bool = False
    """Whether a memory in it was removed or edited, or is no longer stated by any turn."""
    corrections: tuple[Memory, ...] = ()
    """Newer memories that supersede memories in it."""


def choose_front(
    candidate: Front, last: PreviousFront | None, *, with_memories: bool = True
) -> tuple[Front, str | None]:
    """Keep the front of the last request or replace it; return (front, reason for a new epoch or None).

    ``with_memories`` is False if memories are turned off; those in the last front are then removed.
    """
    if last is None:
        return candidate, "first"
    reason = _reason(candidate, last, with_memories)
    if reason is None or candidate == last.front:
        return last.front, "shrunk" if last.plan.shrunk and last.plan.shrunk.touches_front else None
    return candidate, reason


def _reason(candidate: Front, last: PreviousFront, with_memories: bool) -> str | None:
    before = last.front
    were_left_out = not before.memories and any(left.what == "memory" for left in last.plan.left_out)
    changed = {
        "fold": candidate.summary != before.summary,
        "pin": candidate.pinned_facts != before.pinned_facts,
        "system": (candidate.system, candidate.is_bare, _sent(candidate, "system"))
        != (before.system, before.is_bare, _sent(before, "system")),
        "tools": (candidate.tools, _sent(candidate, "tools")) != (before.tools, _sent(before, "tools")),
        "format": candidate.response_format != before.response_format,
        "memory": last.removed
        or (bool(candidate.memories) and were_left_out if with_memories else bool(before.memories)),
        "branch": not last.same_branch,
        "silence": last.silence > SILENCE,
    }
    return next((reason for reason, is_so in changed.items() if is_so), None)


def _sent(front: Front, name: str) -> Json:
    return front.sent.get(name) if isinstance(front.sent, dict) else None


_ORDER = ("tools", "system", "systemInstruction", "messages", "input", "contents")


def shared(before: Json, after: Json) -> tuple[int, int]:
    """Return how many bytes of ``after`` repeat the start of ``before``, and its total number of bytes."""
    pieces = list(_pieces(after))
    total = sum(map(len, pieces))
    common = 0
    for one, other in zip(_pieces(before), pieces, strict=False):
        if one != other:
            break
        common += len(other)
    return common, total


def _pieces(body: Json) -> Iterator[bytes]:
    """Yield the parts of a body in the order in which a model reads them."""
    body = body.get("prompt", body) if isinstance(body, dict) else {}
    for name in _ORDER:
        part = body.get(name)
        for piece in part if isinstance(part, list | tuple) else [] if part is None else [part]:
            yield msgspec.json.encode(_without_cache_markers(piece), order="deterministic")


def _without_cache_markers(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_cache_markers(inner) for key, inner in value.items() if key != "cache_control"}
    return [_without_cache_markers(inner) for inner in value] if isinstance(value, list) else value
