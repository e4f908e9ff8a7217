"""Try the installed package with one of its extras: import every module, and what the extra brings.

Run in an environment of its own: `python deploy/try_wheel.py EXTRA` (`base`: no extra, `all`: all of them). A module
may miss only packages of extras that are not installed.
"""

import re
import sys
from importlib import import_module
from importlib.metadata import requires
from pkgutil import walk_packages

import contextinfinity


def modules_of(extra: str) -> set[str]:
    """Return the modules that an extra installs."""
    lines = [line for line in requires("contextinfinity") or () if f"extra == '{extra}'" in line.replace('"', "'")]
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0].replace("-", "_") for line in lines}


def main(extra: str) -> None:
    """Import everything; exit with an error if something else than another extra is missing."""
    extras = ("local", "workspace", "postgres", "encryption", "tui", "redis", "minilm")
    installed = {name: modules_of(name) for name in extras if extra in (name, "all")}
    for module in set().union(*installed.values()):
        import_module(module)
    optional = set().union(*(modules_of(name) for name in extras if name not in installed))
    missing: set[str] = set()
    for found in walk_packages(contextinfinity.__path__, "contextinfinity."):
        try:
            import_module(found.name)
        except ModuleNotFoundError as error:
            missing.add(str(error.name).partition(".")[0])
    if missing - optional:
        sys.exit(f"with the extra {extra} these packages are missing: {', '.join(sorted(missing - optional))}")
    version = sys.version.split()[0]
    sys.stdout.write(f"{extra}: contextinfinity {contextinfinity.__version__} on Python {version} is complete\n")


if __name__ == "__main__":
    main(sys.argv[1])
