"""``cix fold``: folds old turns into the summary, with preview and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import span

if TYPE_CHECKING:
    from contextinfinity.client.results import ShownFold

Preview = Annotated[bool, typer.Option("--preview", help="Show which turns would be folded; change nothing.")]
Undo = Annotated[bool, typer.Option("--undo", help="Go back to the summary before the last fold.")]


@command
def fold(
    options: CommonOptions, thread: Thread, preview: Preview = False, undo: Undo = False, branch: Branch = None
) -> None:
    """Fold old turns into the summary now. --preview shows the result first; the turns themselves are kept."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json
    from contextinfinity.cli.thread_choice import place

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
