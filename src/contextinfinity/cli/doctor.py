"""``cix doctor``: checks the installation and says what to do about problems."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import (
    CommonOptions,
    Config,
    DataDir,
    Json,
    Server,
    check_folder,
    errors_on_stderr,
)
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from contextinfinity.storage.sqlite.integrity import Progress
    from contextinfinity.upkeep.examine import Report
    from contextinfinity.upkeep.findings import Finding

BackupFile = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="A backup file to check instead of the data_dir.", show_default=False),
]
Repair = Annotated[bool, typer.Option("--repair", help="Make a backup, then repair what can be repaired safely.")]


def doctor(
    file: BackupFile = None,
    repair: Repair = False,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    server: Server = None,
) -> None:
    """Check the ledger, the settings or a backup. With --server, show that server's health."""
    if file is not None:
        return _check_backup(file, as_json=as_json, others=repair or server is not None)
    if server is not None:
        return _ask(server, as_json=as_json, repair=repair)
    from contextinfinity.upkeep.examine import examine, settings_in_force
    from contextinfinity.upkeep.safe_repair import examine_and_repair

    with errors_on_stderr():
        check_folder(data_dir)
    settings, already = settings_in_force(config, data_dir)
    with progress_bar() as progress:
        look = examine_and_repair if repair else examine
        report = look(settings, progress=progress, already=already)
    return _show(report, as_json=as_json)


def _check_backup(file: Path, *, as_json: bool, others: bool) -> None:
    with errors_on_stderr():
        from contextinfinity.upkeep.backups import examine_backup

        if others:
            raise InvalidInput("A backup is checked on this machine and not repaired.", hint="Name the file alone.")
        with progress_bar() as progress:
            report = examine_backup(file, progress=progress)
    _show(report, as_json=as_json)


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_for_programs(report), indent=2))
    else:
        _print_for_people(report)
    if not report.ok:
        raise typer.Exit(1)


def _ask(server: str, *, as_json: bool, repair: bool) -> None:
    """Print a server's health; checks and repairs have to be run on its own machine."""
    with errors_on_stderr():
        from contextinfinity.cli.engine_thread import working
        from contextinfinity.cli.output import print_json

        if repair:
            raise InvalidInput("A ledger is repaired on its own machine.", hint="Run it there, without --server.")
        with working(CommonOptions(user="local", config=None, data_dir=None, as_json=as_json, server=server)) as work:
            health = work.do(work.client.health())
        if as_json:
            print_json({"ok": health.status == "ready", "status": health.status, "reasons": health.reasons})
        else:
            typer.echo("\n".join([f"{server}: {health.status}", *health.reasons]))
        if health.status != "ready":
            raise typer.Exit(1)


def _for_programs(report: Report) -> dict[str, object]:
    fields = ("code", "severity", "what", "where", "count", "repair")
    return {
        "ok": report.ok,
        "ledger": report.ledger,
        "schema": report.schema,
        "turns": report.turns,
        "encryption": report.encryption,
        "findings": [{field: getattr(finding, field) for field in fields} for finding in report.findings],
        "repaired": [{"code": done.code, "what": done.what, "count": done.count} for done in report.repaired],
        "backup": None if report.backup is None else str(report.backup),
    }


def _print_for_people(report: Report) -> None:
    from rich.console import Console

    # A pipe has no width that lines would have to be folded to.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000)
    if report.schema:
        turns = counted(report.turns, "turn")
        console.print(f"ledger: {report.ledger} (schema {report.schema}, {turns})", soft_wrap=True)
    elif not any(finding.severity == "broken" for finding in report.findings):
        console.print(f"ledger: {report.ledger} (none yet; it is created when it is needed)", soft_wrap=True)
    else:
        console.print(f"ledger: {report.ledger}", soft_wrap=True)
    if report.encryption:
        console.print(f"encryption: {report.encryption}", soft_wrap=True)
    if report.backup is not None:
        console.print(f"backup: {report.backup}", soft_wrap=True)
    for done in report.repaired:
        console.print(f"repaired ({done.count:,} × {done.code}): {done.what}", soft_wrap=True)
    _print_findings(console, report)


def _print_findings(console: Console, report: Report) -> None:
    from contextinfinity.cli.output import print_table

    if not report.findings and not report.schema:
        folder = Path(report.ledger).parent
        console.print(f"There is no ledger in {folder}: nothing was checked.", soft_wrap=True)
        return
    if not report.findings:
        console.print("No problems found.")
        return
    print_table(("", "finding", "what", "where", "what to do"), map(_row, report.findings), whole=True)
    if report.ok:
        console.print("No problems; the next start of an engine resolves the notes above.")


def _row(finding: Finding) -> tuple[str | Text, ...]:
    from rich.text import Text

    style = {"broken": "red", "warning": "yellow"}.get(finding.severity, "dim")
    repairs = finding.repair and finding.severity != "info"
    todo = f"cix doctor --repair: {finding.repair}" if repairs else finding.advice
    return Text(finding.severity, style=style), finding.code, finding.what, finding.where, todo


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a progress bar on a terminal; nothing elsewhere."""
    from contextinfinity.upkeep.examine import silent

    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, part: bar.update(task, description=what, completed=part)
