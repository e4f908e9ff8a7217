"""``cix context``: shows the prompt of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.engine.explain import Explained

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
    from contextinfinity.cli.thread_choice import place
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
