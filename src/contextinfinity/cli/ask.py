"""``cix ask``: one question, one answer."""

from __future__ import annotations

from typing import Annotated

import typer

from contextinfinity.cli.options import Branch, Means, Model, Session, command
from contextinfinity.errors import InvalidInput

Question = Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask.", show_default=False)]


Attach = Annotated[
    list[str] | None,
    typer.Option("--attach", metavar="CHUNK", help="Show the model this chunk; `cix search` names them."),
]


@command
def ask(
    means: Means,
    question: Question,
    session: Session = "new",
    branch: Branch = None,
    model: Model = None,
    attach: Attach = None,
) -> None:
    """Ask one question and print the answer."""
    from contextinfinity.cli.answering import NEW, Answer, Plainly, has_failed, remark_on, way
    from contextinfinity.cli.printing import print_json, remark, say
    from contextinfinity.cli.weights import prepare
    from contextinfinity.cli.working import working

    if not question.strip():
        raise InvalidInput("The question is empty.", hint='Write it in quotes: cix ask "…"')
    prepare(means, model)
    with working(means) as work:
        thread, how = way(work, means, session, branch, model)
        how["attach"] = tuple(attach or ())
        turn = Answer(work, thread, question, how).wait(None if means.as_json else Plainly().hear)
        if means.as_json:
            print_json(turn)
        elif turn.text:
            say("" if turn.text.endswith("\n") else "\n")
        if not means.as_json:
            remark_on(turn)
            if thread == NEW:
                remark(f"session {turn.thread_id}; continue with --session last")
    if has_failed(turn) or turn.outcome == "cancelled":
        raise typer.Exit(1)
