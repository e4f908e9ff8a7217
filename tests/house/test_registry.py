"""The registry of the in-process threads is touched in its own module only; tests may look, not change."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house import repository
from tests.house.rules import nodes, parsed

HOME = "src/contextinfinity/compat/threads.py"
REGISTRY = "THREADS"
PRODUCT = [path for path in repository.files("src/*.py") if repository.name(path) != HOME]
TESTS = repository.files("tests/*.py", "benchmarks/*.py")

CHANGES = frozenset({"append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "sort", "update"})


def touches(source: str) -> Iterator[str]:
    """Where source names the registry, other than to pass the name on."""
    for node in nodes(parsed(source)):
        if isinstance(node, ast.Name | ast.Attribute) and _is_registry(node):
            yield f"{node.lineno}: touches {REGISTRY}; use the functions of contextinfinity.threads"


def changes(source: str) -> Iterator[str]:
    """Where source that imports the registry changes it, or a thread in it."""
    tree = parsed(source)
    if not _imports_registry(tree):
        return
    for node in nodes(tree):
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                is_change = _leads_to_registry(node.value)
            case ast.Call(func=ast.Attribute(value=value, attr=verb)) if verb in CHANGES:
                is_change = _leads_to_registry(value)
            case ast.AugAssign(target=target):
                is_change = _leads_to_registry(target)
            case _:
                continue
        if is_change:
            yield f"{node.lineno}: changes {REGISTRY}; use the functions of contextinfinity.threads"


def _is_registry(node: ast.AST | None) -> bool:
    return (isinstance(node, ast.Name) and node.id == REGISTRY) or (
        isinstance(node, ast.Attribute) and node.attr == REGISTRY
    )


def _leads_to_registry(node: ast.AST) -> bool:
    """Whether an expression is the registry or something in it."""
    return any(_is_registry(part) for part in ast.walk(node))


def _imports_registry(tree: ast.Module) -> bool:
    imports = (node for node in nodes(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return any("contextinfinity" in ast.unparse(node) and "threads" in ast.unparse(node) for node in imports)


@pytest.mark.req("THREAD-11", "THREAD-6")
def test_the_product_touches_the_registry_in_its_own_module_only() -> None:
    assert not repository.report(PRODUCT, touches)


@pytest.mark.req("THREAD-11")
def test_no_test_changes_the_registry() -> None:
    assert not repository.report(TESTS, changes)


@pytest.mark.req("THREAD-11")
def test_the_registry_is_made_once_and_at_the_top_of_its_module() -> None:
    tree = parsed((repository.ROOT / HOME).read_text(encoding="utf-8"))
    made = [node for node in nodes(tree) if isinstance(node, ast.Name) and node.id == REGISTRY]
    stores = [node for node in made if isinstance(node.ctx, ast.Store)]
    assert len(stores) == 1
    assert stores[0] in [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]


# The rules themselves, on sources made to break them.

IMPORT = "from contextinfinity.threads import THREADS\n"


@pytest.mark.parametrize(
    "source", ["THREADS.get('a')", "threads.THREADS['a']", "THREADS = {}", "print(THREADS)", "f(x.THREADS)"]
)
def test_a_touch_is_seen(source: str) -> None:
    assert list(touches(source))


@pytest.mark.parametrize("source", [IMPORT, f"{IMPORT}__all__ = ['THREADS']", "MOST_THREADS = 3", "'THREADS'"])
def test_passing_the_name_on_is_no_touch(source: str) -> None:
    assert not list(touches(source))


@pytest.mark.parametrize(
    "change",
    [
        "THREADS['a'] = 1",
        "del THREADS['a']",
        "THREADS.clear()",
        "THREADS['a'].turns = []",
        "THREADS['a'].turns.append(1)",
        "THREADS.get('a').turns.pop()",
        "THREADS |= {}",
    ],
)
def test_a_change_is_seen(change: str) -> None:
    assert list(changes(IMPORT + change))


@pytest.mark.parametrize(
    "source",
    [f"{IMPORT}assert THREADS['a'] is thread", f"{IMPORT}'a' in THREADS", f"{IMPORT}x = []\nx.clear()", "THREADS = 8"],
)
def test_a_look_is_no_change(source: str) -> None:
    assert not list(changes(source))
