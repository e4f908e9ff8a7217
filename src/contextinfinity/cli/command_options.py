"""The options that every command takes, after its name or before it.

A command is written as a function of its own options, with ``CommonOptions`` in front; ``command`` adds the options all
commands share, so that each is declared once, and turns our errors into a message and an exit code.
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer

from contextinfinity.cli.output import print_notice
from contextinfinity.errors import ContextInfinityError, InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.domain.session import Owner
    from contextinfinity.settings import LoadedSettings

P = ParamSpec("P")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="The folder with the ledger and all other data.")
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The config.toml to read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The URL of a server to use instead of the data folder on this machine."
    ),
]

BeginNew = Annotated[
    bool,
    typer.Option(
        "--begin-new",
        help="Start with an empty ledger if the ledger of the data_dir is lost; an existing ledger is kept.",
    ),
]


def _refuse_server(context: typer.Context, url: str | None) -> None:
    if url is not None:
        typer.echo(
            f"{context.command_path} works on this machine only. Run it where the ledger is, without --server.",
            err=True,
        )
        raise typer.Exit(2)


NoServer = Annotated[str | None, typer.Option("--server", metavar="URL", hidden=True, callback=_refuse_server)]
"""For commands that work on this machine only: ``--server`` gets a specific error message."""
User = Annotated[str, typer.Option("--user", metavar="ID", help="The user that the command acts for.")]

ID_HELP = "A conversation: its id, the first or last 6 or more characters of it, or `last`."
Thread = Annotated[str, typer.Argument(metavar="ID", help=ID_HELP, show_default=False)]
Session = Annotated[
    str, typer.Option("--session", metavar="ID|last|new", help="The conversation to continue; new starts one.")
]
Branch = Annotated[
    str | None, typer.Option("--branch", metavar="B", help="The branch to use instead of the active one.")
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model that answers.")]


class Terminated(BaseException):
    """The process got a terminating signal."""


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The options of every command that uses conversations."""

    user: str = "local"
    config: Path | None
    data_dir: Path | None
    as_json: bool
    server: str | None = None
    begin_new: bool = False

    @property
    def owner(self) -> Owner:
        """Whose conversations they are."""
        from contextinfinity.domain.session import Owner

        return Owner(user_id=self.user)

    @property
    def named_user(self) -> str | None:
        """The user that ``--user`` names; None: no user, and an id finds any user's conversation on this machine."""
        return None if self.user == "local" else self.user


_SHARED: dict[str, tuple[Any, object]] = {
    "user": (User, "local"),
    "config": (Config, None),
    "data_dir": (DataDir, None),
    "as_json": (Json, False),
    "server": (Server, None),
    "begin_new": (BeginNew, False),
}


def command(function: Callable[Concatenate[CommonOptions, P], None]) -> Callable[..., None]:
    """Turn a function into a command with the shared options and readable errors.

    A parameter that is a dataclass declares several options: its fields.
    """
    return _with_options(_SHARED, function)


def command_here(function: Callable[Concatenate[CommonOptions, P], None]) -> Callable[..., None]:
    """Make a command that works on this machine only: with ``--server`` it says so."""
    return _with_options(_SHARED | {"server": (NoServer, None)}, function)


def command_for_all_users(function: Callable[Concatenate[CommonOptions, P], None]) -> Callable[..., None]:
    """Make a command that works on this machine only and takes no ``--user``."""
    options = _SHARED | {"server": (NoServer, None)}
    del options["user"]
    return _with_options(options, function)


def command_without_owner(function: Callable[Concatenate[CommonOptions, P], None]) -> Callable[..., None]:
    """Make a command that works on this machine only and belongs to no user's conversations."""
    own = {name: option for name, option in _SHARED.items() if name not in ("user", "begin_new")}
    return _with_options(own | {"server": (NoServer, None)}, function)


def command_for(user: Any) -> Callable[[Callable[Concatenate[CommonOptions, P], None]], Callable[..., None]]:
    """Make a command that works on this machine only and needs the user: ``user`` declares the option."""
    return partial(_with_options, _SHARED | {"server": (NoServer, None), "user": (user, inspect.Parameter.empty)})


def _with_options(options: dict[str, tuple[Any, object]], function: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(function, eval_str=True)
    plain = list(signature.parameters.values())[1:]
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in plain if is_dataclass(parameter.annotation)
    }
    own = [option for parameter in plain for option in _options(parameter)]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]

    @wraps(function)
    def run(**given: Any) -> None:
        common_options = CommonOptions(**{name: given.pop(name) for name in options})
        many = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        with errors_on_stderr():
            if common_options.begin_new and common_options.server is None:
                start_over(common_options.config, common_options.data_dir)
            function(common_options, **given, **many)  # what is left are the function's own

    run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return a parameter, or the fields of one that groups several."""
    if not is_dataclass(parameter.annotation):
        return [parameter]
    hints = get_type_hints(parameter.annotation, include_extras=True)
    return [
        inspect.Parameter(one.name, parameter.kind, default=one.default, annotation=hints[one.name])
        for one in fields(parameter.annotation)
    ]


@contextmanager
def errors_on_stderr() -> Iterator[None]:
    """Print errors on stderr and exit: with 2 for a usage error, with 1 for any other failure."""
    try:
        yield
    except ContextInfinityError as error:
        print_notice(str(error))
        raise typer.Exit(2 if isinstance(error, InvalidInput) else 1) from error
    except (KeyboardInterrupt, Terminated) as error:
        raise typer.Exit(1) from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise typer.Exit(1) from error  # the terminal is gone


def apply_global_options(context: typer.Context, **given: object) -> None:
    """Apply options given before the command's name to the command; options after the name take precedence."""
    given_options = {name: value for name, value in given.items() if value not in (None, False)}
    context.default_map = _default_map(context.command, given_options)


def _default_map(group: Any, said: dict[str, object]) -> dict[str, Any]:
    return {
        name: _default_map(one, said) if hasattr(one, "commands") else dict(said)
        for name, one in group.commands.items()
    }


def settings_for(config: Path | None, data_dir: Path | None, *, creates: bool = True) -> LoadedSettings:
    """Read the settings a command runs with; one that ``creates`` nothing needs the folder that --data-dir names."""
    from contextinfinity.settings import load_settings

    if not creates:
        check_folder(data_dir)
    return load_settings(config=config, data_dir=data_dir)


def check_folder(data_dir: Path | None) -> None:
    """Raise ``NotFound`` if --data-dir names a folder that does not exist."""
    if data_dir is not None and not data_dir.expanduser().is_dir():
        raise NotFound(
            f"There is no folder {data_dir}, which --data-dir names.",
            hint="Check the path, or create it with `cix ask` and the same --data-dir.",
        )


def start_over(config: Path | None, data_dir: Path | None) -> None:
    """Let the data_dir begin a new ledger where it lost its own, and say what was set aside."""
    from contextinfinity.wiring import begin_new

    for aside in begin_new(settings_for(config, data_dir).settings):
        typer.echo(f"Kept what was left of the lost ledger as {aside}.", err=True)
