"""Commands about prompts: ``cix pin``, ``pins``, ``unpin``, ``fold`` and ``context``.

A pinned fact is in every prompt verbatim. ``fold`` folds old turns into the summary, with preview and undo. ``context``
shows the prompt of a turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.results import Pins, ShownFold
    from contextinfinity.engine.explain import Explained

Fact = Annotated[str, typer.Argument(metavar="FACT", help="The fact that every prompt contains.", show_default=False)]
Number = Annotated[int, typer.Argument(metavar="N", help="The number that `cix pins` shows.", show_default=False)]


@command
def pin(options: CommonOptions, thread: Thread, fact: Fact, branch: Branch = None) -> None:
    """Pin a fact: the model sees it in every request."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.add(thread_id, fact, branch_id=branch_id))
    _print(options, pinned)


@command
def pins(options: CommonOptions, thread: Thread, branch: Branch = None) -> None:
    """List the pinned facts."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.list(thread_id, branch_id=branch_id))
    _print(options, pinned)


@command
def unpin(options: CommonOptions, thread: Thread, number: Number, branch: Branch = None) -> None:
    """Remove a pinned fact."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.remove(thread_id, number, branch_id=branch_id))
    _print(options, pinned)


def _print(options: CommonOptions, pinned: Pins) -> None:
    from contextinfinity.cli.output import print_json

    if options.as_json:
        print_json(pinned)
    else:
        print_pins(pinned)


def print_pins(pinned: Pins) -> None:
    """Print the pinned facts for people."""
    from contextinfinity.cli.output import print_notice, print_table

    if pinned.pins:
        print_table(("n", "fact"), ((str(pin.n), pin.fact) for pin in pinned.pins), whole=True)
    else:
        print_notice("Nothing is pinned.")


Preview = Annotated[bool, typer.Option("--preview", help="Show which turns would be folded; change nothing.")]
Undo = Annotated[bool, typer.Option("--undo", help="Go back to the summary before the last fold.")]


@command
def fold(
    options: CommonOptions, thread: Thread, preview: Preview = False, undo: Undo = False, branch: Branch = None
) -> None:
    """Fold old turns into the summary now. --preview shows the result first; the turns themselves are kept."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    if preview and undo:
        raise InvalidInput("--preview and --undo cannot be used together.", hint="Use one of them.")
    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        folds = work.client.folds
        doing = (
            folds.undo(thread_id, branch_id=branch_id)
            if undo
            else folds.fold(thread_id, preview=preview, branch_id=branch_id)
        )
        shown = work.do(doing)
    if options.as_json:
        print_json(shown)
    else:
        print_fold(shown)


def print_fold(shown: ShownFold, *, by: str = "cix fold", undone_by: str = "cix fold --undo") -> None:
    """Print what a fold does or did; ``by`` and ``undone_by`` are the commands to name."""
    from contextinfinity.cli.output import console, print_notice
    from contextinfinity.text.terminal.control_characters import printable
    from contextinfinity.text.terminal.summary_diff import one_column, side_by_side

    if shown.case == "none":
        covered = shown.covers_turn_seq
        others = f"the summary covers {span(1, covered)}; the other turns" if covered else "all turns"
        return print_notice(f"Nothing to fold: {others} stay verbatim.")
    for line in (*_turns("leaves", shown.leaves), *_turns("stays", shown.stays)):
        typer.echo(printable(line))
    screen, versions = console(), (shown.summary_before, shown.summary)
    screen.print(*([side_by_side(*versions)] if screen.is_terminal else one_column(*versions)), sep="\n")
    for line in _turns("retired", shown.retired):
        typer.echo(printable(line))
    if shown.notice:
        print_notice(printable(shown.notice))
    return print_notice(_described(shown, by, undone_by) + _spent(shown))


def _turns(verb: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{verb}  {line}" for line in lines)


def _spent(shown: ShownFold) -> str:
    """Return the token usage of this conversation's summaries as text."""
    spent = shown.spent
    if not spent.input_tokens and not spent.output_tokens:
        return ""
    cost = "" if spent.cost is None else f", ${spent.cost:.4f}"
    return (
        f" Summaries of this conversation used {spent.input_tokens} tokens in, {spent.output_tokens} out{cost} so far."
    )


def _described(shown: ShownFold, by: str, undone_by: str) -> str:
    if shown.case == "unfold":
        verb = "is" if shown.covers_turn_seq + 1 == shown.covered else "are"
        return (
            f"Undone: {span(shown.covers_turn_seq + 1, shown.covered)} {verb} verbatim again. "
            "The next fold happens after the same amount of new text."
        )
    verb = "covers" if shown.committed else "would cover"
    why = f", because a new topic begins there ({shown.boundary_reason})" if shown.case == "truncate" else ""
    after = f"`{undone_by}` undoes it." if shown.committed else f"`{by}` applies it."
    return (
        f"The summary {verb} {span(1, shown.covers_turn_seq)}{why}: {shown.tokens_before} → "
        f"{shown.tokens_after} tokens, written {'offline' if shown.by == 'offline' else 'by ' + shown.by}. {after}"
    )


LAST = "last"
NEWEST = 500
"""Turns of the last conversation that are searched for a partial id."""

TurnRef = Annotated[str, typer.Argument(metavar="[TURN_ID]", help="The id of a turn; `cix show` prints them.")]
Other = Annotated[
    str | None, typer.Option("--compare", metavar="TURN_ID", help="Show what differs from this turn's request.")
]
Step = Annotated[
    int | None, typer.Option("--step", metavar="N", min=0, help="The number of the request, if the turn has several.")
]
Whole = Annotated[bool, typer.Option("--body", help="Print the whole request as it was sent.")]


@command
def context(
    options: CommonOptions, turn: TurnRef = LAST, compare: Other = None, step: Step = None, body: Whole = False
) -> None:
    """Show what the model saw, part by part. The last line says whether it matches the request that was sent."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(options) as work:
        explain = work.client.conversations.explain
        other_turn = None if compare is None else _turn(work, options, compare)
        explained = work.do(explain(_turn(work, options, turn), step_index=step, compare=other_turn))
        other = None if other_turn is None else work.do(explain(other_turn))
    if options.as_json:
        print_json(explained)
    elif body:
        print_json(explained.body)
    else:
        print_explained(explained, other)


def _turn(work: EngineThread, options: CommonOptions, reference: str) -> str:
    """Return a turn's id; ``last`` and parts of an id are those of a turn of the last conversation."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.client.references import fits, only_match
    from contextinfinity.domain.ids import is_id
    from contextinfinity.errors import NotFound

    if is_id(reference):
        return reference
    thread_id, branch_id = place(work, options, LAST, None)
    turns = work.do(work.client.conversations.show(thread_id, branch_id=branch_id, limit=NEWEST)).turns
    if reference == LAST and not turns:
        raise NotFound("The last conversation has no turns yet.")
    fitting = [turn.turn_id for turn in turns if fits(turn.turn_id, reference)]
    hint = "`cix show` prints the ids of turns; for an earlier conversation use the full id."
    return turns[-1].turn_id if reference == LAST else only_match("turn", reference, fitting, hint=hint)


def print_explained(explained: Explained, other: Explained | None = None) -> None:
    """Print for people what a request held, and line by line what differs from the other one."""
    from contextinfinity.cli.output import print_notice, print_table, say
    from contextinfinity.text.plurals import covered_turns

    plan = explained.plan
    rows = [(section.name, str(section.tokens), covered_turns(section)) for section in plan.sections]
    print_table(("section", "tokens", "from"), [*rows, ("all", str(plan.tokens), "")])
    for line in () if other is None else _difference(other, explained):
        say(f"{line}\n")
    for artifact in explained.quoted:
        place = f"turn {artifact.turn_seq}" if artifact.turn_seq else "another conversation"
        print_notice(f"artifact from {place}, score {artifact.score:.2f}, chunk {artifact.chunk_id}")
    for left in dict.fromkeys(f"{left.what}: {left.reason}" for left in plan.left_out):
        print_notice(f"left out: {left}")
    for step in plan.shrink_steps:
        print_notice(f"shrunk: {step}")
    for hidden in explained.redactions:
        print_notice(f"redacted: {hidden.section}, text {hidden.text}, characters {hidden.start}–{hidden.end}")
    print_notice(_facts(explained, other is not None))


def _difference(other: Explained, explained: Explained) -> Iterator[str]:
    """Yield the lines that only one of two requests has, with the line before and after, as ``diff -u`` does."""
    from difflib import unified_diff

    return unified_diff(_lines(other), _lines(explained), other.turn_id, explained.turn_id, lineterm="", n=1)


def _lines(explained: Explained) -> list[str]:
    said = [("system", text) for text in explained.system]
    said += [(message.role, message.rendered_text) for message in explained.messages]
    return [line for role, text in said for line in (f"[{role}]", *text.splitlines())]


def _facts(explained: Explained, compared: bool) -> str:
    usage, other = explained.usage, "the other request" if compared else "the request before"
    share = 100 * explained.shared_bytes / explained.total_bytes if explained.total_bytes else 0
    cost = "unknown" if usage.cost is None else f"${usage.cost:.6f}"
    facts = [
        f"turn {explained.turn_id}, request {explained.step_index}, {explained.provider} {explained.model}",
        f"{usage.input_tokens} tokens in, {usage.cached_tokens} of them cached, {usage.output_tokens} out, cost {cost}",
        f"{share:.0f}% repeat the beginning of {other}",
    ]
    if explained.plan.route:
        facts.append(explained.plan.route.reason)
    if explained.plan.epoch_reason:
        facts.append(f"new prompt prefix: {explained.plan.epoch_reason}")
    facts.extend(f"removed since: {what}" for what in explained.removed)
    facts.append(
        "rebuilt: identical to what was sent" if explained.matches else "rebuilt: NOT identical to what was sent"
    )
    return "\n".join(facts)
