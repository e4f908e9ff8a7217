"""The house rules for Python: source text in, findings out.

A finding is ``line: what is wrong``, so a failing test reads like a linter's report. Nothing here
touches the disk (``repository`` finds the files), so each rule is tested with a few lines of source.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import PurePath

PACKAGE = "contextinfinity"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(source: str) -> ast.Module:
    """Parse a source once for all rules, which are kept: nothing of them is garbage."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """List the nodes of a module once for all rules."""
    return tuple(ast.walk(tree))


# --- Ceilings --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """How large a thing may grow. Docstrings count, decorators do not."""

    file: int = 600
    function: int = 60
    cls: int = 250
    parameters: int = 7


def over_ceilings(source: str, limits: Ceilings) -> Iterator[str]:
    """What is larger than it may be."""
    yield from too_many_lines(source, limits.file)
    tree = parsed(source)
    receivers = _with_receiver(tree)
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef) and _length(node) > limits.cls:
            yield f"{node.lineno}: class {node.name} has {_length(node)} lines, {limits.cls} are allowed"
        if isinstance(node, Function):
            if _length(node) > limits.function:
                yield f"{node.lineno}: {node.name} has {_length(node)} lines, {limits.function} are allowed"
            count = _parameters(node) - (node in receivers)
            if count > limits.parameters:
                yield f"{node.lineno}: {node.name} has {count} parameters, {limits.parameters} are allowed"


def too_many_lines(text: str, limit: int) -> Iterator[str]:
    """Whether a file of any language is longer than it may be."""
    lines = len(text.splitlines())
    if lines > limit:
        yield f"1: the file has {lines} lines, {limit} are allowed"


def function_lengths(source: str) -> list[int]:
    """Lines of every function, nested ones and methods too."""
    return [_length(node) for node in nodes(parsed(source)) if isinstance(node, Function)]


def percentile(values: Iterable[int], share: float) -> int:
    """The smallest value that at least this share of the values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def _length(node: Function | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameters(node: Function) -> int:
    args = node.args
    starred = (args.vararg is not None) + (args.kwarg is not None)
    return len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) + starred


def _with_receiver(tree: ast.Module) -> set[ast.AST]:
    """Methods whose first parameter is ``self`` or ``cls``, which callers never write."""
    return {
        child
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
        if isinstance(child, Function) and "staticmethod" not in map(ast.unparse, child.decorator_list)
    }


# --- Layers and names ------------------------------------------------------------------------------

VAGUE = frozenset({"manager", "service", "helper", "util", "common", "base", "core"})
PUBLIC_ANYWAY = frozenset({"context_manager"})  # the home of the public ContextManager


def vague_names(module: PurePath) -> list[str]:
    """The parts of a module's path whose name says nothing about what is inside."""
    parts = module.with_suffix("").parts
    return [part for part in parts if part not in PUBLIC_ANYWAY and VAGUE & {_singular(w) for w in part.split("_")}]


def _singular(word: str) -> str:
    return word.removesuffix("s")


def root_imports(source: str, *, package: str) -> Iterator[str]:
    """Imports of the root package; ``package`` is the one the source lives in.

    The root loads its names from the modules below, so a module that imports it closes a circle.
    """
    for node in nodes(parsed(source)):
        match node:
            case ast.Import():
                hit = any((alias.name if alias.asname else alias.name.split(".")[0]) == PACKAGE for alias in node.names)
            case ast.ImportFrom():
                hit = _imported_from(node, package) == PACKAGE
            case _:
                continue
        if hit:
            yield f"{node.lineno}: imports the root package; name the module that holds what you need"


def _imported_from(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that a ``from … import`` names."""
    above = package.split(".")
    base = above[: len(above) + 1 - node.level] if node.level else []
    return ".".join([*base, *filter(None, [node.module])])


# --- How tests behave ------------------------------------------------------------------------------

SLEEPS = frozenset({"time.sleep", "asyncio.sleep"})
PATCHING = frozenset({"setattr", "delattr", "setitem", "delitem"})


def sleeps(source: str) -> Iterator[str]:
    """Sleeps of a fixed length. ``sleep(0)`` only lets others run, so it stays allowed."""
    for call, called in _calls(parsed(source)):
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if called in SLEEPS and any(_is_fixed(argument) and ast.unparse(argument) != "0" for argument in arguments):
            yield f"{call.lineno}: sleeps for a fixed time; wait for the state instead"


def unexplained_skips(source: str) -> Iterator[str]:
    """Skipped tests that do not say why."""
    tree = parsed(source)
    origins = _origins(tree)
    explained = {call.func for call, _ in _calls(tree) if _has_reason(call)}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute | ast.Name) and node not in explained:
            if _dotted(node, origins) == "pytest.mark.skip":
                yield f"{node.lineno}: skips without a reason"
        elif isinstance(node, ast.Call) and node.func not in explained and _dotted(node.func, origins) == "pytest.skip":
            yield f"{node.lineno}: skips without a reason"


def replaced_parts(source: str) -> Iterator[str]:
    """Parts of the product that a test swaps for something else, and any use of ``unittest.mock``."""
    tree = parsed(source)
    origins = _origins(tree)
    for node in nodes(tree):
        match node:
            case ast.Import() if any(alias.name == "unittest.mock" for alias in node.names):
                yield f"{node.lineno}: unittest.mock; use a real part or a double from {PACKAGE}_testing"
            case ast.ImportFrom(module="unittest.mock"):
                yield f"{node.lineno}: unittest.mock; use a real part or a double from {PACKAGE}_testing"
            case ast.ImportFrom(module="unittest") if any(alias.name == "mock" for alias in node.names):
                yield f"{node.lineno}: unittest.mock; use a real part or a double from {PACKAGE}_testing"
            case ast.Call(func=ast.Attribute(attr=verb), args=[target, *_]) if verb in PATCHING:
                named = target.value if isinstance(target, ast.Constant) else _dotted(target, origins)
                if isinstance(named, str) and named.split(".")[0] == PACKAGE:
                    yield f"{node.lineno}: replaces {named}; use a real part or a double from {PACKAGE}_testing"


def requirement_ids(source: str) -> list[str]:
    """Every ID that a ``pytest.mark.req`` names."""
    return [
        argument.value
        for call, called in _calls(parsed(source))
        if called == "pytest.mark.req"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def machine_paths(text: str) -> Iterator[str]:
    """Return paths that exist on one machine only."""
    for number, line in enumerate(text.splitlines(), start=1):
        for path in re.findall(r"(?<![\w.~-])/(?:work|root)/\S*", line):
            yield f"{number}: {path} is a path of one machine"


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the dotted name of what it calls."""
    origins = _origins(tree)
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            yield node, _dotted(node.func, origins)


def _origins(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name refers to: ``from time import sleep as nap`` gives nap → time.sleep."""
    origins: dict[str, str] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            origins |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return origins


def _dotted(node: ast.expr, origins: dict[str, str]) -> str:
    """``a.b.c`` with ``a`` traced back to its import; empty for anything but names and attributes."""
    match node:
        case ast.Name(id=name):
            return origins.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            owner = _dotted(value, origins)
            return owner and f"{owner}.{attribute}"
        case _:
            return ""


def _is_fixed(node: ast.expr) -> bool:
    """Whether the value is written down on the spot: a constant or arithmetic on constants."""
    plain = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator)
    return all(isinstance(part, plain) for part in ast.walk(node))


def _has_reason(call: ast.Call) -> bool:
    return bool(call.args) or any(keyword.arg == "reason" for keyword in call.keywords)
