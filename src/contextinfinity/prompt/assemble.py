"""From sections to a prompt that fits, and the plan that accounts for it.

The order of things: the sections are measured; what does not fit is taken out (``shrink``); the rest is laid out
(``layout``); every pin is there, word for word, or nothing is sent; what must not leave the machine is blacked out.
"""

from __future__ import annotations

from itertools import accumulate, chain

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.model import Abilities
from contextinfinity.domain.plan import Budget, LeftOut, Plan, Retrieved, Shrunk
from contextinfinity.domain.prompt import Prompt
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.cutting import cut
from contextinfinity.prompt.layout import lay_out, markers, pins_text, summary_pair
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Sections
from contextinfinity.prompt.redact import Redactor, Span, redact
from contextinfinity.prompt.shrink import describe, held_cuts, low_mark, shrink, truncate

WORKSPACE_SHARE = 0.9
"""The share of the window that a request about a workspace may take."""


class Assembled(Struct, frozen=True, kw_only=True):
    """What will be sent, and why it is what it is."""

    prompt: Prompt
    plan: Plan
    spans: tuple[Span, ...] = ()

    @property
    def tokens(self) -> int:
        """What it was measured to take."""
        return self.plan.tokens


class Frame(Struct, frozen=True, kw_only=True):
    """What a prompt has to fit into."""

    budget: Budget
    abilities: Abilities
    redactor: Redactor | None = None
    most_turns: int | None = None
    """What the earlier turns may take in all, where folding has failed."""
    start: Shrunk | None = None
    """The cuts of the request before, which this one repeats as long as they suffice; deeper ones are made with room
    to grow (``low_mark``). None: every request is cut only as far as it needs."""
    holds_cuts: bool = False
    """Whether cuts are to last for many requests."""
    rejected: int | None = None
    """The size of the prompt that the provider rejected: the next one is smaller, even where it misses its limit."""


def assemble(
    sections: Sections, frame: Frame, measure: Measure, *, limit: int | None = None, reason: str | None = None
) -> Assembled:
    """Put the prompt of a step together. ``limit`` is what it may take (default: what the budget leaves);
    ``reason`` says why its front is a new one."""
    limit = frame.budget.input_limit if limit is None else limit
    if sections.workspace is not None:
        limit = min(limit, int(frame.budget.model_limit * WORKSPACE_SHARE))
    explicit = sections.contextualised  # as it was made; the spans say what of it was hidden
    sections, spans = redact(sections, frame.redactor) if frame.redactor else (sections, ())
    shrunk = frame.start
    if shrunk is not None and measure.total(sections) <= low_mark(sections, measure, limit):
        shrunk = None
    if frame.most_turns is not None:
        shrunk = truncate(sections, measure, frame.most_turns)
    shown = cut(sections, shrunk) if shrunk else sections
    counted = measure.sections(shown)
    if sum(section.tokens for section in counted) > limit:
        low = low_mark(sections, measure, limit) if frame.holds_cuts else None
        window, rejected = frame.budget.input_limit, frame.rejected
        shrunk = shrink(sections, measure, limit, window, shrunk, low=low, rejected=rejected)
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
    return Assembled(prompt=_marked(prompt, shown, frame, measure), plan=plan, spans=spans)


def _repeats(shrunk: Shrunk, frame: Frame) -> bool:
    """Tell whether the cuts in turns are those of the request before."""
    return frame.start is not None and held_cuts(shrunk) == held_cuts(frame.start)


def check_pins(prompt: Prompt, sections: Sections) -> None:
    """Make sure that every pinned fact stands in the prompt, word for word."""
    facts = sections.front.pinned_facts
    if facts and not any(pins_text(facts) in text for text in prompt.system):
        missing = [fact for fact in facts if not any(f"- {fact}" in text for text in prompt.system)] or facts
        raise ContextInfinityError(
            f"A pinned fact is missing from the prompt: {missing[0]!r}.", hint="Nothing was sent."
        )


def _marked(prompt: Prompt, shown: Sections, frame: Frame, measure: Measure) -> Prompt:
    """Mark the prefixes worth caching: none that is shorter than the model's caches take."""
    if shown.workspace is not None:
        return _marked_tiers(prompt, shown, frame, measure)
    before = len(summary_pair(shown.front.summary))
    earlier = sum(len(turn.messages) for turn in shown.turns)
    parts = chain(  # (messages, tokens) of every part that a marker may end
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
    """Mark the tiers of a workspace that are long enough to be cached."""
    sizes = [*map(measure.text, prompt.system), *map(measure.message, prompt.messages)]
    totals = list(accumulate(sizes))
    places = markers(shown, prompt)
    return replace(
        prompt, markers=tuple(place for place in places if totals[place] >= frame.abilities.min_cache_tokens)
    )


def _left_out(sections: Sections, shrunk: Shrunk | None) -> tuple[LeftOut, ...]:
    """Account for what was gathered and not shown."""
    if shrunk is None:
        return ()
    left = []
    if shrunk.artifacts is not None and (gone := sections.artifacts[shrunk.artifacts :]):
        tokens = sum(artifact.tokens for artifact in gone)
        what = f"artifacts from place {shrunk.artifacts + 1} on"
        left.append(LeftOut(what=what, reason="they did not fit", tokens=tokens))
    if shrunk.lines_to and sections.turns:
        stretch = f"turns {sections.turns[0].turn_seq}–{shrunk.lines_to}"
        left.append(LeftOut(what=stretch, reason="a line each in the summary; they did not fit"))
    return tuple(left)
