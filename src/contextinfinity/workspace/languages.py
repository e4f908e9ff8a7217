"""Find the classes, functions and types that a file defines, with tree-sitter.

The grammars are wheels of the optional extra ``workspace``. A file in another language, or without the extra, has no
definitions: it is known by its name alone.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import Any

from msgspec import Struct

log = logging.getLogger(__name__)

LONGEST_SIGNATURE = 160
LONGEST_LINE = 5_000
"""A file with a longer line was made by a program; its names say little."""

_JAVASCRIPT = (
    "class_declaration function_declaration generator_function_declaration method_definition",
    "(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @definition",
)
_C = (
    "(function_definition declarator: (function_declarator declarator: (_) @name)) @definition"
    "(function_definition declarator: (pointer_declarator (function_declarator declarator: (_) @name))) @definition"
    "(struct_specifier name: (_) @name body: (_)) @definition"
    "(enum_specifier name: (_) @name body: (_)) @definition"
    "(type_definition declarator: (type_identifier) @name) @definition"
    "(declaration declarator: (function_declarator declarator: (_) @name)) @definition"
    "(declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) @definition"
)
_TYPESCRIPT = (
    f"{_JAVASCRIPT[0]} abstract_class_declaration interface_declaration type_alias_declaration enum_declaration "
    "method_signature abstract_method_signature function_signature internal_module",
    _JAVASCRIPT[1],
)
_GRAMMARS: dict[str, tuple[str, str, str, str]] = {
    # name: module, function that returns the grammar, node types whose `name` is what they define, further patterns
    "python": ("python", "language", "class_definition function_definition", ""),
    "javascript": ("javascript", "language", *_JAVASCRIPT),
    "typescript": ("typescript", "language_typescript", *_TYPESCRIPT),
    "tsx": ("typescript", "language_tsx", *_TYPESCRIPT),
    "go": ("go", "language", "function_declaration method_declaration type_spec type_alias const_spec", ""),
    "rust": (
        "rust",
        "language",
        "function_item function_signature_item struct_item enum_item trait_item mod_item type_item macro_definition",
        "(impl_item type: (_) @name) @definition",
    ),
    "java": (
        "java",
        "language",
        "class_declaration interface_declaration enum_declaration record_declaration method_declaration "
        "constructor_declaration annotation_type_declaration",
        "",
    ),
    "c": ("c", "language", "", _C),
    "cpp": (
        "cpp",
        "language",
        "namespace_definition",
        f"{_C}(class_specifier name: (_) @name body: (_)) @definition"
        "(field_declaration declarator: (function_declarator declarator: (_) @name)) @definition"
        "(alias_declaration name: (_) @name) @definition"
        "(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name))) "
        "@definition",
    ),
    "c_sharp": (
        "c_sharp",
        "language",
        "class_declaration interface_declaration struct_declaration enum_declaration record_declaration "
        "method_declaration constructor_declaration property_declaration delegate_declaration",
        "",
    ),
    "ruby": ("ruby", "language", "class module method singleton_method", ""),
    "php": (
        "php",
        "language_php",
        "class_declaration interface_declaration trait_declaration enum_declaration function_definition "
        "method_declaration",
        "",
    ),
}
_SUFFIXES = {
    "python": "py pyi",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "cpp": "cc cpp cxx hpp hh hxx",
    "c_sharp": "cs",
    "ruby": "rb",
    "php": "php",
}
LANGUAGES = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_FUNCTIONS = re.compile(r"function|method|constructor|arrow")
_SPACE = re.compile(r"\s+")


class Definition(Struct, frozen=True, array_like=True):
    """One definition: how deep it is nested, its name, its text up to the body, and the line where it begins."""

    depth: int
    name: str
    signature: str
    line: int = 0


def language_of(path: str) -> str | None:
    """Return the language of a file by its name, None if it has no grammar."""
    return LANGUAGES.get(path.rpartition(".")[2].lower()) if "." in path else None


def definitions(language: str, data: bytes) -> tuple[Definition, ...]:
    """Return what a source file defines, in its order; local functions are left out."""
    reader = _reader(language)
    if reader is None or max(map(len, data.split(b"\n"))) > LONGEST_LINE:
        return ()
    parser, cursor = reader
    found: list[Definition] = []
    enclosing: list[tuple[int, bool]] = []  # where it ends, and whether it is a function
    matches = {  # two patterns may match the same node
        (captures["definition"][0].start_byte, name.start_byte): (captures["definition"][0], name)
        for _, captures in cursor.matches(parser.parse(data).root_node)
        if "definition" in captures
        for name in captures["name"]
    }
    for _, (node, name) in sorted(matches.items(), key=itemgetter(0)):
        while enclosing and enclosing[-1][0] <= node.start_byte:
            enclosing.pop()
        if not any(is_function for _, is_function in enclosing):
            signature = _signature(node, data)
            word = _text(data[name.start_byte : name.end_byte])
            found.append(Definition(len(enclosing), word, signature, node.start_point[0] + 1))
        enclosing.append((node.end_byte, _FUNCTIONS.search(node.type) is not None))
    return tuple(found)


def _signature(node: Any, data: bytes) -> str:
    """Return the text of a definition up to its body, on one line."""
    body = node.child_by_field_name("body")
    end = node.end_byte if body is None else body.start_byte
    text = _text(data[node.start_byte : min(end, node.start_byte + 4 * LONGEST_SIGNATURE)])
    return _SPACE.sub(" ", text).strip(" {:=;")[:LONGEST_SIGNATURE]


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


@cache
def _reader(language: str) -> tuple[Any, Any] | None:
    """Load the grammar of a language; None with one warning where it is not installed."""
    module, function, types, patterns = _GRAMMARS[language]
    try:
        tree_sitter, grammar = import_module("tree_sitter"), import_module(f"tree_sitter_{module}")
    except ImportError:
        log.warning("no symbols of %s files: install contextinfinity[workspace]", language)
        return None
    loaded = tree_sitter.Language(getattr(grammar, function)())
    query = patterns + "".join(f"({kind} name: (_) @name) @definition" for kind in types.split())
    return tree_sitter.Parser(loaded), tree_sitter.QueryCursor(tree_sitter.Query(loaded, query))
